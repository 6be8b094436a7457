#include "shortlist.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "../core/threads.h"
#include "../core/top_k.h"
#include "../kernels/kernel_table.h"
#include "block_maxima.h"

namespace sparsenet {
namespace {

constexpr int64_t kBlock = 1024;  // labels scored at a time

// The wide scores of one point, as a dense array, with the list of labels that the index gives for its features.
class WideScores {
 public:
  void resize(int64_t n_labels) {
    if (static_cast<int64_t>(scores_.size()) >= n_labels) return;
    scores_.resize(static_cast<size_t>(n_labels));
    is_listed_.resize(static_cast<size_t>(n_labels));
  }
  void add(const int32_t* labels, const float* weights, int64_t count, float x) {
    const size_t before = labels_.size();
    labels_.resize(before + static_cast<size_t>(count));
    int32_t* end = labels_.data() + before;
    for (int64_t j = 0; j < count; ++j) {
      const auto label = static_cast<size_t>(labels[j]);
      scores_[label] += x * weights[j];
      *end = labels[j];  // no branch, which would be unpredictable: a repeated label is overwritten
      end += 1 - is_listed_[label];
      is_listed_[label] = 1;
    }
    labels_.resize(static_cast<size_t>(end - labels_.data()));
  }
  const std::vector<int32_t>& labels() const { return labels_; }
  float operator[](int32_t label) const { return scores_[static_cast<size_t>(label)]; }
  bool is_listed(int32_t label) const { return is_listed_[static_cast<size_t>(label)] != 0; }
  void unlist(int32_t label) { is_listed_[static_cast<size_t>(label)] = 0; }
  void clear() {
    for (const int32_t label : labels_) {
      scores_[static_cast<size_t>(label)] = 0.0f;
      is_listed_[static_cast<size_t>(label)] = 0;
    }
    labels_.clear();
  }

 private:
  std::vector<float> scores_;
  std::vector<uint8_t> is_listed_;
  std::vector<int32_t> labels_;
};

constexpr float kLowest = -std::numeric_limits<float>::infinity();

// Fills the list with the fallback labels, then lets every other label from the index compete for a place.
void choose(const ShortlistIn& in, int64_t size, WideScores& wide, std::vector<float>& buffer, TopK& best) {
  for (int64_t f = 0; f < size; ++f) {
    best.add({nan_to_lowest(wide[in.fallback[f]] + in.bias[in.fallback[f]]), in.fallback[f]});
    wide.unlist(in.fallback[f]);
  }
  best.cut();
  float scores[kBlock];
  int32_t positions[kBlock];
  const auto count = static_cast<int64_t>(wide.labels().size());
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int32_t* labels = wide.labels().data() + begin;
    const int64_t block = std::min(kBlock, count - begin);
    for (int64_t i = 0; i < block; ++i)
      scores[i] = wide.is_listed(labels[i]) ? wide[labels[i]] + in.bias[labels[i]] : kLowest;
    // Labels come in any order, so a label whose score equals the threshold may still win by its smaller id.
    float threshold = std::nextafter(best.threshold(), kLowest);
    if (BlockMaxima::has_bound(block, size))
      threshold = std::max(threshold, BlockMaxima(scores, block, size, buffer).bound());
    const int64_t found = kernels().above(scores, block, threshold, positions);
    for (int64_t f = 0; f < found; ++f) best.add({scores[positions[f]], labels[positions[f]]});
    best.cut();
  }
  std::sort(best.entries().begin(), best.entries().end(),
            [](const ScoredLabel& a, const ScoredLabel& b) { return a.label < b.label; });
}

}  // namespace

void shortlist(const ShortlistIn& in, int64_t size, int32_t* out_labels, float* out_scores, int threads) {
  parallel_for(in.n, threads, [&](int64_t i) {
    static thread_local WideScores wide;
    static thread_local std::vector<float> buffer;
    static thread_local TopK best;
    wide.resize(in.n_labels);
    BlockMaxima::prepare(kBlock, buffer);
    best.reset(size);  // like the lines above, it may run out of memory, so it comes before `wide` is written
    for (int64_t j = in.points.indptr[i]; j < in.points.indptr[i + 1]; ++j) {
      const int64_t from = in.index.indptr[in.points.indices[j]], to = in.index.indptr[in.points.indices[j] + 1];
      wide.add(in.index.indices + from, in.index.data + from, to - from, in.points.data[j]);
    }
    choose(in, size, wide, buffer, best);
    wide.clear();
    for (int64_t c = 0; c < size; ++c) {
      out_labels[i * size + c] = best.entries()[static_cast<size_t>(c)].label;
      out_scores[i * size + c] = best.entries()[static_cast<size_t>(c)].score;
    }
  });
}

void wide_scores(const Csr& points, int64_t n, int64_t n_features, const Csr& wide, const int32_t* labels, int64_t size,
                 float* out, int threads) {
  parallel_for(n, threads, [&](int64_t i) {
    static thread_local std::vector<float> dense;  // zero except during the work on a point
    if (static_cast<int64_t>(dense.size()) < n_features) dense.resize(static_cast<size_t>(n_features));
    const int64_t from = points.indptr[i], to = points.indptr[i + 1];
    for (int64_t j = from; j < to; ++j) dense[static_cast<size_t>(points.indices[j])] = points.data[j];
    for (int64_t c = i * size; c < (i + 1) * size; ++c) {
      const int64_t begin = wide.indptr[labels[c]], end = wide.indptr[labels[c] + 1];
      out[c] = kernels().sparse_dot(wide.indices + begin, wide.data + begin, end - begin, dense.data());
    }
    for (int64_t j = from; j < to; ++j) dense[static_cast<size_t>(points.indices[j])] = 0.0f;
  });
}

}  // namespace sparsenet
