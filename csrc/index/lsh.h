// Locality-sensitive hashing: codes from hashes, tables of codes, and retrieval by counts of hits.
//
// All arithmetic is on integers, and floats are only compared, so results are bit-identical on every CPU and at any
// number of threads. The Python package of the hash index prepares the vectors.
#pragma once

#include <cstdint>

namespace sparsenet {

// Packs the bits `score >= 0` of each table, the first bit highest, for each of n rows of scores (n, n_tables * n_bits)
// into codes (n_tables, n).
void pack_signs(const float* scores, int64_t n, int64_t n_tables, int64_t n_bits, uint16_t* codes, int threads);

// Bins over the coordinates of a vector, `per_table` for each table. A bin compares the `window` coordinates (a power
// of two) in its row of `coordinates` (n_tables * per_table, window).
struct Bins {
  const int32_t* coordinates;
  int64_t n_tables, per_table, window;
};

// Hashes each row of values (n, width) to codes (n_tables, n). The symbol of a bin is the position of its largest
// non-zero value, ties to the earlier one. A bin with only zeros borrows the symbol of another bin. The symbols of a
// table's bins, log2(window) bits each, form its code.
void bin_codes(const float* values, int64_t n, int64_t width, const Bins& bins, uint16_t* codes, int threads);

// For each table, the labels in order of (code, label), and the start of each bucket.
struct Tables {
  const int32_t* offsets;  // (n_tables, n_buckets + 1)
  const int32_t* labels;   // (n_tables, n_labels)
  int64_t n_tables, n_buckets, n_labels;
};

// Sorts codes (n_tables, n_labels) into `offsets` and `labels` by counting.
void build_tables(const uint16_t* codes, int64_t n_tables, int64_t n_labels, int64_t n_buckets, int32_t* offsets,
                  int32_t* labels, int threads);

// A query with the codes of n points (n_tables, n). It reads at most `probe_limit` labels of a bucket and returns at
// most `limit` labels, most hits first, ties to the smaller label. counts (n_slots, n_labels) is all zero before and
// after; the work is split over its slots.
struct Query {
  const uint16_t* codes;
  int64_t n, probe_limit, limit;
  int32_t* counts;
  int64_t n_slots;
};

// Sums hits over all points; ids and hits have room for `limit`. Returns the number of labels found.
int64_t query_shared(const Tables& tables, const Query& query, int32_t* ids, int32_t* hits, int threads);

// Counts the hits of each point separately: ids and hits (n, limit), found (n,).
void query_each(const Tables& tables, const Query& query, int32_t* ids, int32_t* hits, int64_t* found, int threads);

}  // namespace sparsenet
