// Makes every thread take part in every parallel_for, for tools/races.py. Otherwise one thread may finish all tasks on
// a busy machine before another one wakes, and races stay hidden.
//
// The linker inserts this wrapper between callers and the pool (--wrap). The counter is relaxed, because any ordering
// would hide races.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <thread>

using Task = std::function<void(int64_t)>;

extern "C" void __real__ZN9sparsenet12parallel_forEliRKSt8functionIFvlEE(int64_t, int, const Task&);
extern "C" void __wrap__ZN9sparsenet12parallel_forEliRKSt8functionIFvlEE(int64_t, int, const Task&);

namespace {

struct Count {
  int64_t calls = 0, shared = 0;
  ~Count() {
    std::printf("calls in which all threads took part: %lld of %lld\n", static_cast<long long>(shared),
                static_cast<long long>(calls));
  }
} count;

}  // namespace

extern "C" void __wrap__ZN9sparsenet12parallel_forEliRKSt8functionIFvlEE(int64_t n_tasks, int threads,
                                                                         const Task& task) {
  const int64_t wanted = std::min<int64_t>(n_tasks, threads);
  std::atomic<int64_t> arrived{0};
  const auto wait_then_work = [&](int64_t i) {
    if (i < wanted) {
      arrived.fetch_add(1, std::memory_order_relaxed);
      // Bounded, because a nested call has no other thread to wait for.
      for (int n = 0; n < 2000 && arrived.load(std::memory_order_relaxed) < wanted; ++n)
        std::this_thread::sleep_for(std::chrono::microseconds(n < 100 ? 1 : 100));
      if (i == 0 && wanted > 1) {
        ++count.calls;
        count.shared += arrived.load(std::memory_order_relaxed) == wanted;
      }
    }
    task(i);
  };
  __real__ZN9sparsenet12parallel_forEliRKSt8functionIFvlEE(n_tasks, threads, wait_then_work);
}
