// Parses blocks of text rows, the XMC-repository format and svmlight, into the arrays of CSR matrices. A block
// holds whole lines and ends with a newline; whoever calls carries partial lines over to the next block.
#pragma once

#include <cstdint>

namespace sparsenet {

// What stopped a parse. sparsenet/data/explain.py holds the same numbers and turns them into words.
enum class RowError : int {
  kNone = 0,
  kLabel = 1,            // not a label, or out of range
  kFeature = 2,          // not `id:value`, or id or value out of range
  kRepeatedFeature = 3,  // twice in one row
  kRepeatedLabel = 4,
  kLabelCount = 5,  // not exactly one label where one is wanted
  kSurplusRow = 6,  // a row after the last one announced
};

// What a row may hold; ids lie in [first, end).
struct RowRules {
  int64_t first_feature = 0;
  int64_t end_feature = 0;
  int64_t end_label = 0;   // svmlight: -1 lets labels be any numbers
  int64_t last_line = 0;   // XMC only: the line of the last point that the header announces
  bool one_label = false;  // svmlight only
};

// Where rows go. Row r ends before indices[row_ends[r]] and labels[label_ends[r]], both counted from this block.
// There is room for one row a line, one feature a colon, one label a line and one more a comma: see count_marks.
template <typename Label>
struct RowArrays {
  int64_t* row_ends;
  int32_t* indices;
  float* values;
  int64_t* label_ends;
  Label* labels;
};

// What was parsed, up to the first error if there is one: its line in the file, the place of the offending token in
// the block, and the id that came twice if that is the error.
struct ParsedRows {
  int64_t rows = 0, features = 0, labels = 0;
  RowError error = RowError::kNone;
  int64_t line = 0, begin = 0, end = 0;
  double repeated = 0;
};

struct Marks {
  int64_t lines = 0, colons = 0, commas = 0;
};

Marks count_marks(const char* text, int64_t size);

// `first_line` is the number in the file of the block's first line. Results do not depend on `threads`.
ParsedRows parse_xmc(const char* text, int64_t size, int64_t first_line, const RowRules& rules,
                     const RowArrays<int32_t>& out, int threads);
ParsedRows parse_svmlight(const char* text, int64_t size, int64_t first_line, const RowRules& rules,
                          const RowArrays<double>& out, int threads);

}  // namespace sparsenet
