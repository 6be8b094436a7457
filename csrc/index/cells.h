// Search in coarse cells: a query scores the rows of the nearest cells by codes of 4 bits. The best of them are then
// scored by their exact rows, or by rows in 8 bits.
#pragma once

#include <cstdint>

namespace sparsenet {

// Rows in 8 bits: row j is about scales[j] * codes[j].
struct ByteRows {
  const int8_t* codes;
  const float* scales;
};

// Rows in 4 bits a group of columns. Column c is number c / n_groups of group c % n_groups, and each group has 16
// centroids, (n_groups, 16, per_group), in multiples of `unit`, a power of two. Blocks of 32 rows hold their numbers:
// byte i of group g has row i in its lower half and row 16 + i in its upper half. The last column is the bias.
struct GroupCodes {
  int64_t n_groups, per_group;
  const int16_t* centroids;
  float unit;
  const uint8_t* blocks;
};

// Cell c has the entries [starts[c], starts[c + 1]).
struct Cells {
  int64_t n_cells, width;
  ByteRows centroids;
  const int64_t* starts;
  GroupCodes codes;
};

// The exact rows of all labels, and the label of each entry. A label may be in several cells.
struct LabelRows {
  int64_t n_labels;
  const int32_t* labels;
  const float* weight;
  const float* bias;
};

// Entries in 8 bits, as differences from lengths[c] times the centroid of their cell.
struct EntryRows {
  const float* lengths;
  ByteRows rows;
};

struct CellQuery {
  const float* queries;  // (n, width)
  int64_t n, n_probes, n_candidates, k;
};

// Reads at least `n_probes` cells, those whose centroids have the largest product with the query, and further ones
// until there are `k` labels. Scores the `n_candidates` best labels by code exactly, or all if they are no more. Writes
// the `k` best, best first, and the number of entries in the cells. Missing labels are -1, with a score of minus
// infinity.
void search_cells(const Cells& cells, const LabelRows& rows, const CellQuery& query, int32_t* out_labels,
                  float* out_scores, int64_t* out_scanned, int threads);

// Does the same for the positions of entries, scored in 8 bits.
void nearest_in_cells(const Cells& cells, const EntryRows& rows, const CellQuery& query, int32_t* out_positions,
                      float* out_scores, int64_t* out_scanned, int threads);

}  // namespace sparsenet
