#include "recommend.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "../core/prefetch.h"
#include "../core/threads.h"
#include "../core/top_k.h"
#include "../kernels/kernel_table.h"

namespace sparsenet {
namespace {

constexpr int64_t kGrain = 8;  // users per task
constexpr float kLowest = -std::numeric_limits<float>::infinity();
constexpr int kSpectral = 2, kPopularity = 6, kRecency = 7, kShare = 8;
constexpr int kPartOfSum[kListSums] = {0, 1, 3, 4, 5};
constexpr int kUntimedSums = 2;  // a log without times has no recent items

// The items that a user's history leads to, each with a slot and sums. The history has the first slots, its latest item
// slot 0. Slots keep the sums together, whatever the number of items.
class Reached {
 public:
  // Makes room for the work on a user, and returns how many slots there are room for. It may run out of memory, so it
  // comes before anything is written.
  int64_t prepare(const RecommendingIn& in, int64_t user) {
    int64_t room = std::min(in.n_fallback, in.n_candidates);
    for (int64_t e = in.indptr[user]; e < in.indptr[user + 1]; ++e) {
      const int32_t item = in.items[e];
      room += in.list_indptr[item + 1] - in.list_indptr[item] + 1;
    }
    const int64_t needed = std::min(room, in.n_items) + 1;  // `slot_of` writes one beyond the last
    if (static_cast<int64_t>(slots_.size()) < in.n_items) slots_.resize(static_cast<size_t>(in.n_items), -1);
    if (static_cast<int64_t>(ids_.size()) < needed) {
      events_.resize(static_cast<size_t>(needed));
      sums_.resize(static_cast<size_t>(needed * kListSums));
      ids_.resize(static_cast<size_t>(needed));
    }
    return needed;
  }
  // Gives each distinct item of a history a slot, from the latest event back, and counts its events.
  int64_t add_history(const RecommendingIn& in, int64_t user, std::vector<float>& amounts) {
    amounts.clear();
    for (int64_t e = in.indptr[user + 1] - 1; e >= in.indptr[user]; --e) {
      const int64_t before = count_;
      const int32_t slot = slot_for(in.items[e]);
      if (slot == before) {
        amounts.push_back(in.amounts[e]);
        events_[static_cast<size_t>(slot)] = 0;
      }
      ++events_[static_cast<size_t>(slot)];
    }
    return count_;
  }
  // Adds the list of an item: its walk and regression times `amount`, and with times also these and the successors
  // times `recent`.
  template <int n_sums>
  void add_list(const RecommendingIn& in, int32_t item, float amount, float recent) {
    constexpr bool is_timed = n_sums > kUntimedSums;
    constexpr int n_values = is_timed ? 3 : 2;
    // Local copies: the compiler cannot know that writing slots leaves the members unchanged.
    float* sums = sums_.data();
    int32_t *slots = slots_.data(), *ids = ids_.data(), count = count_;
    const int32_t* items = in.list_items;
    const int16_t* values = in.list_values;
    const float* units = in.list_units + int64_t{item} * n_values;
    const float walk = units[0] * amount, regression = units[1] * amount;
    const float recent_walk = units[0] * recent, recent_regression = units[1] * recent;
    const float successors = is_timed ? units[n_values - 1] * recent : 0.0f;
    for (int64_t j = in.list_indptr[item], end = in.list_indptr[item + 1]; j < end; ++j) {
      float* own = sums + int64_t{slot_of(items[j], slots, ids, count)} * n_sums;
      const auto first = static_cast<float>(values[j * n_values]);
      const auto second = static_cast<float>(values[j * n_values + 1]);
      own[0] += walk * first;
      own[1] += regression * second;
      if (!is_timed) continue;
      own[2] += recent_walk * first;
      own[3] += recent_regression * second;
      own[4] += successors * static_cast<float>(values[j * n_values + 2]);
    }
    count_ = count;
  }
  int32_t slot_for(int32_t item) { return slot_of(item, slots_.data(), ids_.data(), count_); }
  void clear(int64_t n_sums) {
    int32_t* slots = slots_.data();
    const int32_t *ids = ids_.data(), count = count_;
    for (int32_t s = 0; s < count; ++s) slots[ids[s]] = -1;
    std::memset(sums_.data(), 0, static_cast<size_t>(count * n_sums) * sizeof(float));
    count_ = 0;
  }
  int32_t count() const { return count_; }
  const int32_t* ids() const { return ids_.data(); }
  const float* sums() const { return sums_.data(); }
  int32_t events(int32_t slot) const { return events_[static_cast<size_t>(slot)]; }

 private:
  // Returns the slot of an item, a new one if it has none, without a branch, which would be unpredictable.
  static int32_t slot_of(int32_t item, int32_t* slots, int32_t* ids, int32_t& count) {
    const int32_t found = slots[item], is_new = found < 0;
    const int32_t slot = is_new ? count : found;
    slots[item] = slot;
    ids[count] = item;
    count += is_new;
    return slot;
  }
  int32_t count_ = 0;
  std::vector<int32_t> slots_, ids_, events_;
  std::vector<float> sums_;
};

// Finds a bound that at least k positive scores reach, and few more, by counting scores by their leading bits.
class Bound {
 public:
  // Returns the bound for the k best of n scores from 0 on; the lowest positive number if fewer are positive.
  float of(const float* scores, int64_t n, int64_t k) {
    int32_t* counts = counts_;
    std::memset(counts, 0, sizeof counts_);
    for (int64_t i = 0; i < n; ++i) ++counts[bin(scores[i])];
    int32_t b = kBins - 1;
    for (int64_t found = counts[b]; b > 0 && found < k;) found += counts[--b];
    const uint32_t bits = b > 0 ? static_cast<uint32_t>(b) << kShift : 1;
    float bound;
    std::memcpy(&bound, &bits, sizeof bound);
    return bound;
  }

 private:
  static constexpr int kShift = 20;  // leaves the exponent and three further bits
  static constexpr int32_t kBins = 1 << (31 - kShift);
  static int32_t bin(float score) {
    uint32_t bits;
    std::memcpy(&bits, &score, sizeof bits);
    return static_cast<int32_t>(bits >> kShift);
  }
  int32_t counts_[kBins];
};

struct Workspace {
  Reached reached;
  Bound bound;
  std::vector<float> amounts, proposed, user, products, parts;
  std::vector<int32_t> chosen, ids;
  std::vector<ScoredLabel> ranked;

  // Makes room for the work on a user, as `Reached::prepare` does.
  void prepare(const RecommendingIn& in, int64_t user_number) {
    const int64_t n_events = in.indptr[user_number + 1] - in.indptr[user_number];
    const auto n_chosen = static_cast<size_t>(std::min(in.n_candidates + n_events, in.n_items));
    const auto room = static_cast<size_t>(reached.prepare(in, user_number));
    proposed.resize(std::max(proposed.size(), room));
    ranked.reserve(std::max(room, n_chosen));
    amounts.reserve(static_cast<size_t>(n_events));
    user.reserve(static_cast<size_t>(in.width));
    products.reserve(n_chosen);
    parts.reserve(n_chosen * kItemScores);
    chosen.reserve(n_chosen);
    ids.reserve(n_chosen);
  }
};

// Adds up the lists of all items of a history.
template <int n_sums>
void follow_lists(const RecommendingIn& in, int64_t n_seen, const std::vector<float>& amounts, Reached& reached) {
  constexpr int64_t n_values = n_sums > kUntimedSums ? 3 : 2;
  float recency = 1.0f;
  for (int64_t s = 0; s < n_seen; ++s) {
    if (s + 1 < n_seen) {  // lists lie anywhere in tables that are larger than the caches
      const int32_t next = reached.ids()[s + 1];
      const int64_t first = in.list_indptr[next], count = in.list_indptr[next + 1] - first;
      prefetch(reinterpret_cast<const float*>(in.list_items + first), count);
      prefetch(reinterpret_cast<const float*>(in.list_values + first * n_values), count * n_values / 2);
    }
    const float amount = amounts[static_cast<size_t>(s)];
    reached.add_list<n_sums>(in, reached.ids()[s], amount, amount * recency);
    recency *= in.fading;
  }
}

// Lists the slots with the best positive sums, whose factor is not 0.
template <int n_sums>
void propose(const RecommendingIn& in, int64_t n_seen, Workspace& work) {
  const int64_t count = work.reached.count();
  const int32_t* ids = work.reached.ids();
  const float* sums = work.reached.sums();
  float* proposed = work.proposed.data();
  const float* factors = in.factors;
  float mixing[n_sums];
  std::copy(in.mixing, in.mixing + n_sums, mixing);
  for (int64_t s = n_seen; s < count; ++s) {
    float total = 0.0f;
    for (int64_t i = 0; i < n_sums; ++i) total += mixing[i] * sums[s * n_sums + i];
    const float score = total * factors[ids[s]];
    proposed[s] = score > 0.0f ? score : 0.0f;  // 0 for NaN, and never -0
  }
  const float bound = work.bound.of(proposed + n_seen, count - n_seen, in.n_candidates);
  std::vector<ScoredLabel>& ranked = work.ranked;
  ranked.clear();
  for (int64_t s = n_seen; s < count; ++s)
    if (proposed[s] >= bound) ranked.push_back({proposed[s], ids[s]});
  const auto n = static_cast<size_t>(in.n_candidates);
  if (ranked.size() > n) {
    std::nth_element(ranked.begin(), ranked.begin() + in.n_candidates - 1, ranked.end(), better);
    ranked.resize(n);
  }
}

// Lists the candidates and their slots: the proposed ones, then fallback items, then the history unless it is excluded.
void choose_candidates(const RecommendingIn& in, int64_t n_seen, Workspace& work) {
  Reached& reached = work.reached;
  const auto count = static_cast<int64_t>(reached.count());
  float* proposed = work.proposed.data();
  work.chosen.clear();
  for (const ScoredLabel& own : work.ranked) {
    const int32_t slot = reached.slot_for(own.label);
    work.chosen.push_back(slot);
    proposed[slot] = -1.0f;
  }
  for (int64_t f = 0; f < in.n_fallback && static_cast<int64_t>(work.chosen.size()) < in.n_candidates; ++f) {
    const int32_t slot = reached.slot_for(in.fallback[f]);
    if (slot >= count || (slot >= n_seen && proposed[slot] >= 0.0f)) work.chosen.push_back(slot);
  }
  for (int64_t s = 0; s < n_seen && !in.exclude_seen; ++s)
    if (in.factors[reached.ids()[s]] > 0.0f) work.chosen.push_back(static_cast<int32_t>(s));
  work.ids.clear();
  for (const int32_t slot : work.chosen) work.ids.push_back(reached.ids()[slot]);
}

// Computes the products of candidates with the sum of the vectors of a history.
void score_vectors(const RecommendingIn& in, int64_t n_seen, Workspace& work) {
  const auto n = static_cast<int64_t>(work.ids.size());
  work.products.resize(static_cast<size_t>(n));
  work.user.assign(static_cast<size_t>(in.width), 0.0f);
  for (int64_t s = 0; s < n_seen; ++s) work.amounts[static_cast<size_t>(s)] *= in.inward[work.reached.ids()[s]];
  kernels().add_rows(in.vectors, in.width, work.reached.ids(), work.amounts.data(), n_seen, work.user.data());
  kernels().dot_bytes(work.user.data(), in.vectors, in.width, work.ids.data(), n, work.products.data());
}

// Computes all scores of the candidates. Scores of lists and vectors are divided by their largest value.
template <int n_sums>
void score_candidates(const RecommendingIn& in, int64_t n_seen, int64_t n_events, Workspace& work) {
  const auto n = static_cast<int64_t>(work.chosen.size());
  work.parts.assign(static_cast<size_t>(n * kItemScores), 0.0f);
  float largest[kItemScores];
  std::fill(largest, largest + kItemScores, 1e-30f);
  float recency = 1.0f;  // of slot `reached`: the history comes last, by ascending slots
  int32_t reached = 0;
  for (int64_t c = 0; c < n; ++c) {
    const int32_t slot = work.chosen[static_cast<size_t>(c)], item = work.ids[static_cast<size_t>(c)];
    float* parts = work.parts.data() + c * kItemScores;
    const float* sums = work.reached.sums() + int64_t{slot} * n_sums;
    for (int64_t i = 0; i < n_sums; ++i) parts[kPartOfSum[i]] = sums[i] * in.factors[item];
    parts[kSpectral] = work.products[static_cast<size_t>(c)] * in.outward[item] * in.factors[item];
    for (int64_t p = 0; p < kPopularity; ++p) {
      parts[p] = parts[p] > 0.0f ? parts[p] : 0.0f;
      largest[p] = parts[p] > largest[p] ? parts[p] : largest[p];
    }
    parts[kPopularity] = in.trend[item];
    if (slot >= n_seen) continue;
    for (; reached < slot; ++reached) recency *= in.fading;
    parts[kRecency] = recency;
    parts[kShare] = static_cast<float>(work.reached.events(slot)) / static_cast<float>(n_events);
  }
  for (int64_t c = 0; c < n; ++c)
    for (int64_t p = 0; p < kPopularity; ++p) work.parts[static_cast<size_t>(c * kItemScores + p)] /= largest[p];
}

// Writes the k best candidates of a user.
void write_best(const RecommendingIn& in, int64_t user, int64_t k, Workspace& work, int32_t* out_items,
                float* out_scores, float* out_parts) {
  const auto n = static_cast<int64_t>(work.chosen.size());
  std::vector<ScoredLabel>& ranked = work.ranked;
  ranked.clear();
  for (int64_t c = 0; c < n; ++c) {
    const float* parts = work.parts.data() + c * kItemScores;
    float total = 0.0f;
    for (int64_t p = 0; p < kItemScores; ++p) total += in.weights[p] * parts[p];
    ranked.push_back({nan_to_lowest(total), static_cast<int32_t>(c)});
  }
  const auto before = [ids = work.ids.data()](const ScoredLabel& a, const ScoredLabel& b) {
    return better(ScoredLabel{a.score, ids[a.label]}, ScoredLabel{b.score, ids[b.label]});
  };
  const int64_t n_best = std::min(n, k);
  std::partial_sort(ranked.begin(), ranked.begin() + n_best, ranked.end(), before);
  for (int64_t r = 0; r < k; ++r) {
    const int64_t at = user * k + r;
    const bool is_there = r < n_best;
    const int64_t c = is_there ? ranked[static_cast<size_t>(r)].label : 0;
    out_items[at] = is_there ? work.ids[static_cast<size_t>(c)] : -1;
    out_scores[at] = is_there ? ranked[static_cast<size_t>(r)].score : kLowest;
    if (out_parts == nullptr) continue;
    for (int64_t p = 0; p < kItemScores; ++p)
      out_parts[at * kItemScores + p] = is_there ? work.parts[static_cast<size_t>(c * kItemScores + p)] : 0.0f;
  }
}

template <int n_sums>
void find_candidates(const RecommendingIn& in, int64_t user, Workspace& work) {
  const int64_t n_seen = work.reached.add_history(in, user, work.amounts);
  follow_lists<n_sums>(in, n_seen, work.amounts, work.reached);
  propose<n_sums>(in, n_seen, work);
  choose_candidates(in, n_seen, work);
  score_vectors(in, n_seen, work);
  score_candidates<n_sums>(in, n_seen, in.indptr[user + 1] - in.indptr[user], work);
}

void recommend_to(const RecommendingIn& in, int64_t user, int64_t k, Workspace& work, int32_t* out_items,
                  float* out_scores, float* out_parts) {
  work.prepare(in, user);
  if (in.is_timed)
    find_candidates<kListSums>(in, user, work);
  else
    find_candidates<kUntimedSums>(in, user, work);
  write_best(in, user, k, work, out_items, out_scores, out_parts);
  work.reached.clear(in.is_timed ? kListSums : kUntimedSums);
}

}  // namespace

void recommend_items(const RecommendingIn& in, int64_t k, int32_t* out_items, float* out_scores, float* out_parts,
                     int threads) {
  parallel_blocks(in.n, kGrain, threads, [&](int64_t first, int64_t last) {
    // On the heap: the compiler would look up the address of a thread's own object again at each use.
    static thread_local const auto of_thread = std::make_unique<Workspace>();
    Workspace& work = *of_thread;
    for (int64_t user = first; user < last; ++user) recommend_to(in, user, k, work, out_items, out_scores, out_parts);
  });
}

}  // namespace sparsenet
