// Runs the kernels of every instruction set that this CPU can use, and compares the results with the scalar baseline.
//
//   levels NAME...   the instruction sets that must be usable here, no more and no fewer
//
// A program without Python, so that the baseline can be tested on CPUs that are too old for NumPy's wheels. An
// instruction that the CPU lacks ends the program with a signal.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "../../csrc/core/machine.h"
#include "../../csrc/engine/learning.h"
#include "../../csrc/engine/matmul.h"
#include "../../csrc/engine/sparse.h"
#include "../../csrc/index/lsh.h"
#include "../../csrc/index/predict_topk.h"
#include "../../csrc/isa/dispatch.h"

namespace {

using Floats = std::vector<float>;
using Results = std::map<std::string, Floats>;

constexpr int kThreads = 2;
// The expected hash codes, on every architecture and for every instruction set.
constexpr uint64_t kCodes = 0xa478928cf9206066ull;

// A fixed pseudo-random sequence that depends on no library.
class Numbers {
 public:
  uint32_t next() {
    return static_cast<uint32_t>((state_ = state_ * 6364136223846793005ull + 1442695040888963407ull) >> 33);
  }
  float unit() { return static_cast<float>(next() % 2001) / 1000.0f - 1.0f; }
  Floats floats(int64_t count) {
    Floats out(static_cast<size_t>(count));
    for (float& x : out) x = unit();
    return out;
  }

 private:
  uint64_t state_ = 1;
};

struct Sparse {
  std::vector<int64_t> indptr = {0};
  std::vector<int32_t> indices;
  Floats data;

  sparsenet::Csr view() const { return {indptr.data(), indices.data(), data.data()}; }
};

Sparse sparse(Numbers& numbers, int64_t rows, int32_t columns) {
  Sparse out;
  for (int64_t i = 0; i < rows; ++i) {
    for (int32_t c = static_cast<int32_t>(numbers.next() % 5); c < columns;
         c += 1 + static_cast<int32_t>(numbers.next() % 9)) {
      out.indices.push_back(c);
      out.data.push_back(numbers.unit());
    }
    out.indptr.push_back(static_cast<int64_t>(out.indices.size()));
  }
  return out;
}

void products(int64_t width, Results& results) {
  Numbers numbers;
  const int64_t n = 37, labels = 71;
  const std::string at = " at width " + std::to_string(width);
  const Floats a = numbers.floats(n * width), b = numbers.floats(labels * width), start = Numbers().floats(n);
  Floats out(static_cast<size_t>(n * labels));
  for (const bool bfloat16 : {false, true}) {
    const sparsenet::MatmulShape shape = {n, labels, width, false, true, bfloat16};
    sparsenet::matmul({a.data(), width, nullptr}, {b.data(), width, nullptr}, shape, start.data(), out.data(),
                      kThreads);
    results[(bfloat16 ? "matmul of bfloat16" : "matmul") + at] = out;
  }
  const Sparse points = sparse(numbers, n, 40);
  const Floats dense = numbers.floats(40 * width);
  Floats hidden(static_cast<size_t>(n * width));
  sparsenet::csr_matmul(points.view(), n, dense.data(), width, hidden.data(), kThreads);
  results["csr_matmul" + at] = hidden;
  const Floats bias(static_cast<size_t>(labels));
  const std::vector<int64_t> no_features(41);
  std::vector<int32_t> best(static_cast<size_t>(n * 5));
  Floats scores(static_cast<size_t>(n * 5));
  const sparsenet::TopkIn in = {n,        width,       labels,        a.data(),
                                b.data(), bias.data(), points.view(), {no_features.data(), nullptr, nullptr}};
  sparsenet::predict_topk(in, 5, best.data(), scores.data(), kThreads);
  results["predict_topk" + at] = scores;
}

void losses(int64_t n, Results& results) {
  Numbers numbers;
  const int64_t labels = 33;
  Sparse truth;
  for (int64_t l = 0; l < labels; ++l) {
    if (n > 0) truth.indices.push_back(static_cast<int32_t>(numbers.next() % static_cast<uint32_t>(n)));
    truth.data.resize(truth.indices.size(), 1.0f);
    truth.indptr.push_back(static_cast<int64_t>(truth.indices.size()));
  }
  const sparsenet::Positives positives = {truth.indptr.data(), truth.indices.data(), truth.data.data()};
  const Floats weights(static_cast<size_t>(labels), 1.5f);
  std::vector<double> lost(static_cast<size_t>(labels + n));
  Floats logits = numbers.floats(labels * n);
  for (float& x : logits) x *= 20;
  Floats both = logits;
  const std::string at = " of " + std::to_string(n) + " points";
  sparsenet::bce_gradient(logits.data(), labels, n, positives, weights.data(), 0.1f, 1.0f, lost.data(), kThreads);
  results["bce_gradient" + at] = logits;
  sparsenet::softmax_gradient(both.data(), labels, n, positives, weights.data(), 0.1f, 1.0f, lost.data(), kThreads);
  results["softmax_gradient" + at] = both;
}

void optimizers(int64_t width, Results& results) {
  Numbers numbers;
  const std::vector<int64_t> ids = {3, 0, 9, 5};
  const Floats grads = numbers.floats(4 * width);
  const sparsenet::Rows rows = {ids.data(), 4, width, grads.data()};
  const Floats start = numbers.floats(10 * width);
  const std::string at = " at width " + std::to_string(width);
  Floats value = start, first(start.size()), second(start.size(), 0.1f);
  std::vector<int32_t> last_step(10);
  sparsenet::sgd_rows(value.data(), rows, 0.1f, 0.01f, kThreads);
  results["sgd_rows" + at] = value;
  sparsenet::adagrad_rows(value.data(), second.data(), rows, 0.1f, 1e-6f, 0.01f, kThreads);
  results["adagrad_rows" + at] = value;
  const sparsenet::AdamState state = {value.data(), first.data(), second.data(), last_step.data()};
  sparsenet::adam_rows(state, rows, {3, 0.01f, 0.9f, 0.999f, 1e-8f, 0.01f}, kThreads);
  results["adam_rows" + at] = value;
  const std::vector<int64_t> indptr = {0, 2, 2, 5, 6};
  const std::vector<int32_t> indices = {1, 0, 2, 3, 1, 0};
  const Floats data = numbers.floats(6);
  sparsenet::adam_product(state, rows, {indptr.data(), indices.data(), data.data()}, grads.data(),
                          {4, 0.01f, 0.9f, 0.999f, 1e-8f, 0.01f}, kThreads);
  results["adam_product" + at] = value;
}

// Hashing uses only comparisons and integers, so it does not depend on the instruction set.
uint64_t hash_of_codes() {
  Numbers numbers;
  const int64_t n = 50, tables = 6, bits = 9;
  Floats whole = numbers.floats(n * tables * bits);
  std::vector<uint16_t> codes(static_cast<size_t>(n * tables));
  sparsenet::pack_signs(whole.data(), n, tables, bits, codes.data(), kThreads);
  uint64_t hash = 14695981039346656037ull;
  for (const uint16_t code : codes) hash = (hash ^ code) * 1099511628211ull;
  return hash;
}

Results everything() {
  Results results;
  for (const int64_t size : {0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 100, 128, 300}) {
    products(size, results);
    losses(size, results);
    optimizers(size, results);
  }
  return results;
}

float difference(const Results& found, const Results& wanted, const std::string& level) {
  float worst = 0;
  for (const auto& [name, values] : wanted) {
    for (size_t i = 0; i < values.size(); ++i) {
      const float gap = std::fabs(found.at(name)[i] - values[i]) / (1.0f + std::fabs(values[i]));
      if (!(gap < 3e-5f))
        std::printf("%s: %s[%zu] = %g, not %g\n", level.c_str(), name.c_str(), i, found.at(name)[i], values[i]);
      worst = std::isnan(gap) || gap > worst ? gap : worst;
    }
  }
  return worst;
}

}  // namespace

int main(int count, char** names) {
  const std::vector<std::string> wanted(names + 1, names + count), usable = sparsenet::isa_available();
  std::printf("usable:");
  for (const std::string& level : usable) std::printf(" %s", level.c_str());
  std::printf("\n");
  sparsenet::set_isa("scalar");
  const Results plain = everything();
  bool same = usable == wanted;
  if (!same) std::printf("the usable levels differ from the expected ones\n");
  for (const std::string& level : usable) {
    sparsenet::set_isa(level);
    const float worst = difference(everything(), plain, level);
    std::printf("%s: largest difference %.1e\n", level.c_str(), static_cast<double>(worst));
    same = same && worst < 3e-5f;
  }
  std::printf("second-level cache: %lld KiB\n", static_cast<long long>(sparsenet::second_level_cache() >> 10));
  std::printf("codes: %016llx\n", static_cast<unsigned long long>(hash_of_codes()));
  return same && hash_of_codes() == kCodes ? 0 : 1;
}
