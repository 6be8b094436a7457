#include "blend.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "../core/prefetch.h"
#include "../core/threads.h"
#include "../core/top_k.h"
#include "../kernels/kernel_table.h"
#include "neighbors.h"

namespace sparsenet {
namespace {

constexpr int64_t kGrain = 8;     // points per task
constexpr float kLowest = -1e6f;  // of a candidate whose score is not a number, or worse
constexpr float kTiny = std::numeric_limits<float>::min();

// Returns the log probability of a label by its log-odds.
float log_sigmoid(float score) {
  const float log_p = score >= 0 ? -std::log1p(std::exp(-score)) : score - std::log1p(std::exp(score));
  return std::max(log_p, std::log(kTiny));
}

// The candidates of one point at a time.
class Candidates {
 public:
  void rank(const BlendIn& in, int64_t i, const int32_t* leaves, const float* scores, int64_t k, int32_t* out_labels,
            float* out_scores) {
    prepare(in);
    take_leaves(in, i, leaves, scores);
    bool has_neighbors = false;
    if (in.neighbors != nullptr) {
      has_neighbors = add_votes(in, i);
      add_proposals(in);
    }
    if (in.network != nullptr) score_by_network(in, i);
    ranked_.clear();
    const float own_share = has_neighbors ? in.pseudo_neighbor : 1.0f + in.pseudo_neighbor;
    for (size_t c = 0; c < labels_.size(); ++c) {
      const float log_p = in.network != nullptr ? log_p_[c] : 0.0f;
      const float p = std::exp(in.network != nullptr ? log_p : -penalties_[c] * penalties_[c]);
      const float share = std::sqrt(votes_[static_cast<size_t>(labels_[c])] + own_share * p);
      const float score = in.neighbor_weight * share + in.network_weight * log_p - in.tree_weight * penalties_[c];
      ranked_.push_back({std::max(nan_to_lowest(score), kLowest), static_cast<int32_t>(c)});
    }
    std::partial_sort(ranked_.begin(), ranked_.begin() + k, ranked_.end(), better);  // ties to the earlier candidate
    for (int64_t r = 0; r < k; ++r) {
      out_labels[r] = labels_[static_cast<size_t>(ranked_[static_cast<size_t>(r)].label)];
      out_scores[r] = ranked_[static_cast<size_t>(r)].score;
    }
    clear();
  }

 private:
  // Makes room; what may run out of memory comes before anything is written.
  void prepare(const BlendIn& in) {
    const auto n_labels = static_cast<size_t>(in.n_labels), room = static_cast<size_t>(in.n_candidates + in.n_proposed);
    if (votes_.size() < n_labels) {
      votes_.resize(n_labels);
      is_known_.resize(n_labels);
    }
    if (in.network != nullptr && dense_.size() < static_cast<size_t>(in.n_features))
      dense_.resize(static_cast<size_t>(in.n_features));
    labels_.clear();
    penalties_.clear();
    voted_.clear();
    labels_.reserve(room);
    penalties_.reserve(room);
    ranked_.reserve(room);
    log_p_.resize(room);
    deep_.resize(room);
  }

  // Takes the tree's candidates; searches again with a wider beam if there are too few.
  void take_leaves(const BlendIn& in, int64_t i, const int32_t* leaves, const float* scores) {
    const auto n = static_cast<size_t>(in.n_candidates);
    labels_.assign(leaves, leaves + n);
    penalties_.assign(scores, scores + n);
    const Csr point = {in.points.indptr + i, in.points.indices, in.points.data};
    for (int64_t beam = 2 * in.beam; labels_.back() < 0; beam *= 2)
      search_tree(in.levels, point, in.n_features, 1, beam, in.n_candidates, in.names, labels_.data(),
                  penalties_.data(), 1);
    for (float& penalty : penalties_) penalty = std::sqrt(-penalty);
  }

  // Adds up the votes of the nearest points; returns whether there are any.
  bool add_votes(const BlendIn& in, int64_t i) {
    const BlendNeighbors& neighbors = *in.neighbors;
    const int64_t begin = in.points.indptr[i], n = in.points.indptr[i + 1] - begin;
    const float* values = in.points.data + begin;
    float largest = 0.0f;
    for (int64_t j = 0; j < n; ++j) largest = std::max(largest, std::abs(values[j]));
    if (!(largest > 0)) largest = 1.0f;
    query_.resize(static_cast<size_t>(n));
    for (int64_t j = 0; j < n; ++j)
      query_[static_cast<size_t>(j)] = values[j] / largest * neighbors.feature_weights[in.points.indices[begin + j]];
    const int64_t bounds[2] = {0, n};
    near_.resize(static_cast<size_t>(neighbors.k));
    weights_.resize(static_cast<size_t>(neighbors.k));
    search_.find({bounds, in.points.indices + begin, query_.data()}, 0, neighbors.index, neighbors.n_points,
                 neighbors.max_entries, neighbors.k, near_.data(), weights_.data());
    const float best = std::max(weights_[0], kTiny);
    float sum = 0.0f;
    int64_t n_labels = 0;
    for (size_t j = 0; j < weights_.size(); ++j) {
      weights_[j] = std::pow(weights_[j] / best, neighbors.power);
      sum += weights_[j];
      n_labels += neighbors.label_starts[near_[j] + 1] - neighbors.label_starts[near_[j]];
    }
    sum = std::max(sum, kTiny);
    voted_.reserve(static_cast<size_t>(std::min(n_labels, in.n_labels)));
    bool found = false;
    for (size_t j = 0; j < weights_.size(); ++j) {
      const float weight = weights_[j] / sum;
      if (!(weight > 0)) continue;
      found = true;
      for (int64_t l = neighbors.label_starts[near_[j]]; l < neighbors.label_starts[near_[j] + 1]; ++l) {
        const int32_t label = neighbors.labels[l];
        if (votes_[static_cast<size_t>(label)] == 0.0f) voted_.push_back(label);
        votes_[static_cast<size_t>(label)] += weight;
      }
    }
    return found;
  }

  // Adds the labels with the most votes that the tree has not found, ascending, with the tree's highest penalty.
  void add_proposals(const BlendIn& in) {
    const auto n = static_cast<size_t>(in.n_proposed);
    if (voted_.size() > n) {
      const auto more = [this](int32_t a, int32_t b) {
        return better(ScoredLabel{votes_[static_cast<size_t>(a)], a}, ScoredLabel{votes_[static_cast<size_t>(b)], b});
      };
      std::nth_element(voted_.begin(), voted_.begin() + in.n_proposed, voted_.end(), more);
    }
    const auto end = voted_.begin() + static_cast<int64_t>(std::min(n, voted_.size()));
    std::sort(voted_.begin(), end);
    const float penalty = penalties_.back();
    for (const int32_t label : labels_) is_known_[static_cast<size_t>(label)] = 1;
    const size_t n_leaves = labels_.size();
    for (auto label = voted_.begin(); label != end; ++label) {
      if (is_known_[static_cast<size_t>(*label)] != 0) continue;
      labels_.push_back(*label);
      penalties_.push_back(penalty);
    }
    for (size_t c = 0; c < n_leaves; ++c) is_known_[static_cast<size_t>(labels_[c])] = 0;
  }

  void score_by_network(const BlendIn& in, int64_t i) {
    const BlendNetwork& network = *in.network;
    const int64_t from = in.points.indptr[i], to = in.points.indptr[i + 1];
    for (int64_t j = from; j < to; ++j) dense_[static_cast<size_t>(in.points.indices[j])] = in.points.data[j];
    if (network.width > 0) score_rows(network, network.hidden + i * network.width);
    for (size_t c = 0; c < labels_.size(); ++c) {
      float score = network.bias[labels_[c]];
      if (network.wide.indptr != nullptr) score += wide_score(network, labels_[c]);
      if (network.width > 0) score += deep_[c];
      log_p_[c] = network.totals != nullptr ? score - network.totals[i] : log_sigmoid(score);
    }
    for (int64_t j = from; j < to; ++j) dense_[static_cast<size_t>(in.points.indices[j])] = 0.0f;
  }

  // Writes the products of the candidates' dense rows with hidden units to `deep_`.
  void score_rows(const BlendNetwork& network, const float* hidden) {
    const auto n = static_cast<int64_t>(labels_.size());
    if (network.weight != nullptr) {
      kernels().dot_rows(hidden, network.weight, network.width, labels_.data(), 0, n, deep_.data());
      return;
    }
    constexpr int64_t kAhead = 8, kLine = 64;
    const NarrowRows& rows = network.narrow_weight;
    wide_row_.resize(std::max(wide_row_.size(), static_cast<size_t>(network.width)));
    for (int64_t c = 0; c < n; ++c) {
      if (c + kAhead < n)
        for (int64_t b = 0; b < network.width; b += kLine)
          prefetch(rows.codes + labels_[c + kAhead] * network.width + b);
      const int64_t label = labels_[c];
      kernels().widen_row(rows.codes + label * network.width, from_bfloat16(rows.steps[label]), network.width,
                          wide_row_.data());
      kernels().dot_rows(hidden, wide_row_.data(), network.width, nullptr, 0, 1, deep_.data() + c);
    }
  }

  // Returns the sum of a label's sparse weights times the values of the point in `dense_`.
  float wide_score(const BlendNetwork& network, int32_t label) {
    const int64_t begin = network.wide.indptr[label], count = network.wide.indptr[label + 1] - begin;
    const float* weights = network.wide.data + begin;
    if (network.narrow_wide.codes != nullptr) {
      wide_row_.resize(std::max(wide_row_.size(), static_cast<size_t>(count)));
      kernels().widen_row(network.narrow_wide.codes + begin, from_bfloat16(network.narrow_wide.steps[label]), count,
                          wide_row_.data());
      weights = wide_row_.data();
    }
    return kernels().sparse_dot(network.wide.indices + begin, weights, count, dense_.data());
  }

  void clear() {
    for (const int32_t label : voted_) votes_[static_cast<size_t>(label)] = 0.0f;
  }

  std::vector<int32_t> labels_, near_, voted_;
  std::vector<float> penalties_, log_p_, deep_, query_, weights_;
  std::vector<float> wide_row_;       // one row as floats
  std::vector<float> votes_, dense_;  // zero between points, by label and by feature
  std::vector<uint8_t> is_known_;
  std::vector<ScoredLabel> ranked_;
  NearestSearch search_;
};

}  // namespace

void rank_blend(const BlendIn& in, int64_t k, int32_t* out_labels, float* out_scores, int threads) {
  const int64_t n = in.n_candidates;
  std::vector<int32_t> leaves(static_cast<size_t>(in.n * n));
  std::vector<float> scores(static_cast<size_t>(in.n * n));
  search_tree(in.levels, in.points, in.n_features, in.n, in.beam, n, in.names, leaves.data(), scores.data(), threads);
  parallel_blocks(in.n, kGrain, threads, [&](int64_t first, int64_t last) {
    static thread_local const auto candidates = std::make_unique<Candidates>();
    for (int64_t i = first; i < last; ++i)
      candidates->rank(in, i, leaves.data() + i * n, scores.data() + i * n, k, out_labels + i * k, out_scores + i * k);
  });
}

}  // namespace sparsenet
