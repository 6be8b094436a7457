// Locality-sensitive hashing: packing hashes into codes, tables of codes, and counted retrieval from them.
//
// Everything here is integer arithmetic or a comparison of floats, and counts are summed as integers: results are
// bit-identical on every CPU and at any number of threads. How vectors are prepared is in sparsenet/index/hashing/families.py.
#pragma once

#include <cstdint>

namespace sparsenet {

// For each of n rows of `scores` (n, n_tables * n_bits), the bits `score >= 0` of a table, first bit highest:
// codes (n_tables, n).
void pack_signs(const float* scores, int64_t n, int64_t n_tables, int64_t n_bits, uint16_t* codes, int threads);

// Bins over the coordinates of a vector, `per_table` to a table: each looks at the `window` coordinates (a power of
// two) listed in its row of `coordinates` (n_tables * per_table, window).
struct Bins {
  const int32_t* coordinates;
  int64_t n_tables, per_table, window;
};

// For each row of `values` (n, width): the position within each bin of the largest non-zero value, ties going to the
// earlier. A bin that sees only zeros borrows from another. The symbols of a table's bins, log2(window) bits each,
// make its code: codes (n_tables, n).
void bin_codes(const float* values, int64_t n, int64_t width, const Bins& bins, uint16_t* codes, int threads);

// Per table, the labels in order of (code, label), and where each bucket starts.
struct Tables {
  const int32_t* offsets;  // (n_tables, n_buckets + 1)
  const int32_t* labels;   // (n_tables, n_labels)
  int64_t n_tables, n_buckets, n_labels;
};

// Counting sort of `codes` (n_tables, n_labels) into `offsets` and `labels`.
void build_tables(const uint16_t* codes, int64_t n_tables, int64_t n_labels, int64_t n_buckets, int32_t* offsets,
                  int32_t* labels, int threads);

// What to ask of the tables: the codes of n points (n_tables, n); at most `probe_limit` labels are looked at in a
// bucket, and at most `limit` are returned, most hits first, ties to the smaller label. `counts` (n_slots, n_labels)
// is all zero before and after; the work is split over its slots.
struct Query {
  const uint16_t* codes;
  int64_t n, probe_limit, limit;
  int32_t* counts;
  int64_t n_slots;
};

// Hits summed over all points: ids and hits have room for `limit`. Returns how many were found.
int64_t query_shared(const Tables& tables, const Query& query, int32_t* ids, int32_t* hits, int threads);

// Hits of each point by itself: ids and hits (n, limit), found (n,).
void query_each(const Tables& tables, const Query& query, int32_t* ids, int32_t* hits, int64_t* found, int threads);

}  // namespace sparsenet
