#include "graph.h"

#include <algorithm>
#include <vector>

#include "../core/scratch.h"
#include "../core/threads.h"

namespace sparsenet {
namespace {

constexpr int64_t kGrain = 16;  // nodes of one task

}  // namespace

void message_rows(const GraphMessages& in, int64_t n, float* messages, float* states, float* sines, int threads) {
  parallel_blocks(n, kGrain, threads,
                  [&](int64_t begin, int64_t end) { kernels().message_rows(in, messages, states, sines, begin, end); });
}

void gru_rows(float* gates, const float* states, const float* before, int64_t n, int64_t width, float* after,
              int threads) {
  parallel_blocks(n, kGrain, threads, [&](int64_t begin, int64_t end) {
    kernels().gru_rows(gates, states, before, width, after, begin, end);
  });
}

void gru_gradient(float* gates, float* states, const float* before, const float* slopes, int64_t n, int64_t width,
                  int threads) {
  parallel_blocks(n, kGrain, threads, [&](int64_t begin, int64_t end) {
    kernels().gru_gradient(gates, states, before, slopes, width, begin, end);
  });
}

void attend_last(const LastLinks& in, float* out, float* out_edges, float* weights, int threads) {
  parallel_blocks(in.n_seeds, kGrain, threads, [&](int64_t begin, int64_t end) {
    static thread_local Scratch scratch;
    float* edges = scratch.floats(in.n_links * (in.n_times + in.n_features));
    kernels().attend_last(in, out, out_edges, weights, edges, begin, end);
  });
}

void attend_gradient(const LastLinks& in, const float* weights, const float* slopes, const float* edge_slopes,
                     float* out_queries, float* out_edge_queries, float* out_rows, float* out_times, int threads) {
  const int64_t links = in.n_seeds * in.n_links;
  std::vector<float> scores(links * in.n_heads);
  parallel_blocks(in.n_seeds, kGrain, threads, [&](int64_t begin, int64_t end) {
    static thread_local Scratch scratch;
    float* room = scratch.floats(in.n_links * (2 * in.n_times + in.n_features) + in.n_times);
    kernels().attend_gradient(in, weights, slopes, edge_slopes, out_queries, out_edge_queries, out_times, scores.data(),
                              room, begin, end);
  });
  // The links by row, in order: each row sums up its own, so the result does not depend on threads.
  std::vector<int64_t> starts(in.n_rows + 1), order(links);
  for (int64_t i = 0; i < links; ++i)
    if (in.links[i] >= 0) ++starts[in.links[i] + 1];
  for (int64_t row = 0; row < in.n_rows; ++row) starts[row + 1] += starts[row];
  std::vector<int64_t> next(starts.begin(), starts.end() - 1);
  for (int64_t i = 0; i < links; ++i)
    if (in.links[i] >= 0) order[next[in.links[i]]++] = i;
  parallel_blocks(in.n_rows, kGrain, threads, [&](int64_t begin, int64_t end) {
    kernels().attend_row_gradient(in, weights, slopes, scores.data(), starts.data(), order.data(), out_rows, begin,
                                  end);
  });
}

void remember_links(const LinkRings& rings, LinkEvents events) {
  const auto add = [&](int32_t node, int32_t neighbor, int64_t e) {
    const int64_t place = node * rings.n_links + rings.counts[node]++ % rings.n_links;
    rings.neighbors[place] = neighbor;
    rings.times[place] = events.times[e];
    std::copy_n(events.features + e * rings.n_features, rings.n_features, rings.features + place * rings.n_features);
  };
  for (int64_t e = 0; e < events.n; ++e) {
    add(events.sources[e], events.targets[e], e);
    add(events.targets[e], events.sources[e], e);
  }
}

}  // namespace sparsenet
