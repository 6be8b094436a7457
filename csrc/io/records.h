// Rows of a sparse matrix as records of a file. A record has the ids of a row in units of 16 bits, then its values.
//
// An id is stored as its gap: the difference from the id before it, minus 1, or the first id itself. A gap below 2^15
// is one unit. A larger one is two: its high bits with the top bit set, then its low 16 bits. Values of 0 bytes are all
// 1, of 2 bytes whole numbers, of 4 and 8 bytes floating point.
#pragma once

#include <cstdint>

namespace sparsenet {

// Encodes n rows whose ids ascend. Row i becomes out[ends[i], ends[i + 1]); `out` has room for 4 + value_bytes bytes an
// entry.
void encode_rows(const int64_t* indptr, int64_t n, const int32_t* indices, const double* values, int64_t value_bytes,
                 uint8_t* out, int64_t* ends);

// Decodes n records; record i is records[starts[i], starts[i + 1]) and has values of value_bytes[i] bytes and
// indptr[i + 1] - indptr[i] entries. Returns the first malformed record, or -1.
int64_t decode_rows(const uint8_t* records, const int64_t* starts, int64_t n, const uint8_t* value_bytes, int64_t width,
                    const int64_t* indptr, int32_t* indices, double* values, int threads);

// Reads n pieces of an open file to out[starts[i], starts[i + 1]); piece i begins at offsets[i] of the file. Neighbors
// in the file are read in one call. Returns 0, an errno, or -1 if the file ends too early.
int64_t read_records(int file, const int64_t* offsets, const int64_t* starts, int64_t n, uint8_t* out);

}  // namespace sparsenet
