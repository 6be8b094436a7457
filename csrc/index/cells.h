// Search in coarse cells: a query scans the entries of the nearest cells in 8 bits. The best labels are then scored
// exactly.
#pragma once

#include <cstdint>

namespace sparsenet {

// Rows in 8 bits: row j is about scales[j] * codes[j].
struct ByteRows {
  const int8_t* codes;
  const float* scales;
};

// Cell c has the entries [starts[c], starts[c + 1]): rows in 8 bits and their labels. A label may be in several
// cells. `offsets` are biases of the entries. Rows with `lengths` are differences from lengths[c] times the centroid.
// Null offsets and lengths are zeros; null labels are the positions of the entries.
struct Cells {
  int64_t n_cells, width;
  ByteRows centroids;
  const float* lengths;
  const int64_t* starts;
  ByteRows entries;
  const float* offsets;
  const int32_t* labels;
};

// The exact rows of all labels.
struct ExactRows {
  int64_t n_labels;
  const float* weight;
  const float* bias;
};

struct CellQuery {
  const float* queries;  // (n, width)
  int64_t n, n_probes, n_candidates, k;
};

// Scans at least `n_probes` cells, those whose centroids have the largest product with the query, and further ones
// until `k` labels are found. Scores the `n_candidates` best labels exactly and writes the `k` best of them, best
// first, and the number of entries scanned. Missing labels are -1, with a score of minus infinity.
void search_cells(const Cells& cells, const ExactRows& rows, const CellQuery& query, int32_t* out_labels,
                  float* out_scores, int64_t* out_scanned, int threads);

// Does the same for the positions of entries, without exact scores; `n_candidates` is k.
void nearest_in_cells(const Cells& cells, const CellQuery& query, int32_t* out_positions, float* out_scores,
                      int64_t* out_scanned, int threads);

}  // namespace sparsenet
