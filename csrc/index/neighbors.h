// Nearest training points by an inverted index, and the votes of their labels.
#pragma once

#include <cstdint>
#include <vector>

#include "../core/csr.h"
#include "../core/narrow.h"
#include "../core/top_k.h"

namespace sparsenet {

// The search for the nearest points of one point at a time; it keeps its memory. Arguments are as in `nearest_points`,
// for point i alone.
class NearestSearch {
 public:
  void find(const Csr& points, int64_t i, const Postings& index, int64_t n_others, int64_t max_entries, int64_t k,
            int32_t* out_points, float* out_products);

 private:
  struct Feature {
    float strength;  // value per index entry
    int64_t count, at;
  };
  void add_products(const Csr& points, int64_t i, const Postings& index, int64_t max_entries);
  // Moves the k largest positive products to `best_` and resets all products to zero.
  void take_best(int64_t n_others, int64_t k);
  std::vector<float> products_, buffer_;  // products are zero between calls
  std::vector<Feature> features_;
  TopK best_;
};

// Writes the k of `n_others` points with the largest positive products, best first; `index` holds these points by
// feature. Unused places hold point 0 with a product of 0. A query reads at most `max_entries` entries of the index: a
// longer one drops the features with the smallest value per index entry, ties dropping the later feature.
void nearest_points(const Csr& points, int64_t n, const Postings& index, int64_t n_others, int64_t max_entries,
                    int64_t k, int32_t* out_points, float* out_products, int threads);

// Computes `size` wanted entries of each row of the sparse product neighbors (n, n_others) x labels (n_others,
// n_labels).
void neighbor_votes(const Csr& neighbors, int64_t n, const Csr& labels, int64_t n_labels, const int32_t* wanted,
                    int64_t size, float* out, int threads);

}  // namespace sparsenet
