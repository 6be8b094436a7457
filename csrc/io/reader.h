// Parsers for blocks of rows in XMC and svmlight format, into arrays of CSR matrices. A block holds whole lines and
// ends with a newline; the caller carries partial lines over to the next block.
#pragma once

#include <cstdint>

namespace sparsenet {

// The reason why a parse stopped. sparsenet/data/explain.py maps the same numbers to messages.
enum class RowError : int {
  kNone = 0,
  kLabel = 1,            // not a label, or out of range
  kFeature = 2,          // not `id:value`, or id or value out of range
  kRepeatedFeature = 3,  // twice in one row
  kRepeatedLabel = 4,
  kLabelCount = 5,  // not exactly one label although one_label is set
  kSurplusRow = 6,  // a row after the last one that the header announces
};

// Limits on the contents of a row; feature ids are in [first_feature, end_feature).
struct RowRules {
  int64_t first_feature = 0;
  int64_t end_feature = 0;
  int64_t end_label = 0;   // svmlight: -1 allows any numbers as labels
  int64_t last_line = 0;   // XMC only: the line of the last point that the header announces
  bool one_label = false;  // svmlight only
};

// The output arrays. Row r ends before indices[row_ends[r]] and labels[label_ends[r]], counted from the start of the
// block. There must be room for one row per line, one feature per colon, and one label per line and per comma: see
// count_marks.
template <typename Label>
struct RowArrays {
  int64_t* row_ends;
  int32_t* indices;
  float* values;
  int64_t* label_ends;
  Label* labels;
};

// The result of a parse, up to the first error: its line in the file, the range of the offending token in the block,
// and the repeated id if that is the error.
struct ParsedRows {
  int64_t rows = 0, features = 0, labels = 0;
  RowError error = RowError::kNone;
  int64_t line = 0, begin = 0, end = 0;
  double repeated = 0;
};

// The number of characters that limit the number of rows, features and labels.
struct Marks {
  int64_t lines = 0, colons = 0, commas = 0;
};

Marks count_marks(const char* text, int64_t size);

// `first_line` is the line number in the file of the block's first line.
ParsedRows parse_xmc(const char* text, int64_t size, int64_t first_line, const RowRules& rules,
                     const RowArrays<int32_t>& out, int threads);
ParsedRows parse_svmlight(const char* text, int64_t size, int64_t first_line, const RowRules& rules,
                          const RowArrays<double>& out, int threads);

}  // namespace sparsenet
