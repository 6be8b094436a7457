#include "threads.h"

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "stopping.h"

namespace sparsenet {
namespace {

constexpr int kMaxThreads = 1024;
// A training step makes about twenty short calls. Between two calls a worker polls this many times, for some tens of
// microseconds, before it sleeps.
constexpr int kSpins = 2000;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("isb");  // "yield" is meant for this, but does nothing on Neoverse
#endif
}

class Pool;
// The pool whose task this thread runs.
thread_local Pool* running = nullptr;
void (*stop_hook)() = nullptr;

// Each call of run() offers `threads` - 1 seats. A worker that takes a seat runs tasks until none are left, then
// leaves. A worker that wakes too late finds no seat, and the call does not wait for it.
class Pool {
 public:
  void run(int64_t n_tasks, int threads, const std::function<void(int64_t)>& task) {
    grow(threads - 1);
    task_ = &task;
    n_tasks_ = n_tasks;
    next_.store(0);
    failed_.store(false);
    offer(threads - 1);
    work();
    const int taken = threads - 1 - seats_.exchange(0);
    // Each worker increments `left_` when it leaves, so `left_` returns to 0 when every worker with a seat has left.
    if (left_.fetch_sub(taken) != taken) wait_for_workers();
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));  // an error may keep arrays of Python alive
  }

  // Whether a task of the current call has thrown.
  bool failed() const { return failed_.load(std::memory_order_relaxed); }

 private:
  // If the system refuses another thread, the existing ones share the work; the caller alone is enough.
  void grow(int n_workers) {
    try {
      while (static_cast<int>(workers_.size()) < n_workers) {
        workers_.emplace_back([this] { serve(); });
        workers_.back().detach();
      }
    } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): see above
    }
  }

  void offer(int seats) {
    int asleep = 0;
    {
      std::lock_guard<std::mutex> lock(mutex_);  // without the lock, a worker about to sleep could miss the offer
      seats_.store(seats);
      asleep = sleeping_;
    }
    if (asleep <= seats) {
      wake_.notify_all();
    } else {
      for (int seat = 0; seat < seats; ++seat) wake_.notify_one();
    }
  }

  bool take_seat() {
    int seats = seats_.load();
    while (seats > 0)
      if (seats_.compare_exchange_weak(seats, seats - 1)) return true;
    return false;
  }

  void serve() {
    for (;;) {
      for (int spin = 0; spin < kSpins && seats_.load() == 0; ++spin) relax();
      if (!take_seat()) {
        std::unique_lock<std::mutex> lock(mutex_);
        ++sleeping_;
        wake_.wait(lock, [this] { return take_seat(); });
        --sleeping_;
      }
      work();
      if (left_.fetch_add(1) == -1) {
        std::lock_guard<std::mutex> lock(mutex_);
        done_.notify_one();
      }
    }
  }

  void wait_for_workers() {
    for (int spin = 0; spin < kSpins; ++spin) {
      if (left_.load() == 0) return;
      relax();
    }
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [this] { return left_.load() == 0; });
  }

  void work() {
    struct Running {
      explicit Running(Pool* pool) { running = pool; }
      ~Running() { running = nullptr; }
    } marked(this);
    for (int64_t i = next_.fetch_add(1); i < n_tasks_; i = next_.fetch_add(1)) {
      try {
        (*task_)(i);
      } catch (...) {
        std::lock_guard<std::mutex> lock(mutex_);
        if (!error_) error_ = std::current_exception();
        failed_.store(true);
        next_.store(n_tasks_);
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::vector<std::thread> workers_;
  // Each on its own cache line, so that polling for a seat does not slow down fetching tasks.
  alignas(64) std::atomic<int64_t> next_{0};
  alignas(64) std::atomic<int> seats_{0};
  alignas(64) std::atomic<int> left_{0};
  int sleeping_ = 0;
  const std::function<void(int64_t)>* task_ = nullptr;
  int64_t n_tasks_ = 0;
  std::exception_ptr error_;
  std::atomic<bool> failed_{false};
};

// Never destroyed: a worker may still run when the process exits.
Pool* pool = nullptr;
std::mutex* in_use = new std::mutex;

// A forked child has none of the parent's threads. It abandons their pool and their lock, which one of them may hold.
void abandon_after_fork() {
  pool = nullptr;
  in_use = new std::mutex;
}

}  // namespace

void stop_point() {
  if (running != nullptr && running->failed()) throw std::runtime_error("another task has failed");
  if (stop_hook != nullptr) stop_hook();
}

void set_stop_hook(void (*hook)()) { stop_hook = hook; }

void parallel_for(int64_t n_tasks, int threads, const std::function<void(int64_t)>& task) {
  static const int registered = pthread_atfork(nullptr, nullptr, abandon_after_fork);
  static_cast<void>(registered);
  if (threads > kMaxThreads) threads = kMaxThreads;
  if (threads > n_tasks) threads = static_cast<int>(n_tasks);
  // Nested and concurrent calls find the pool in use and run on the caller.
  static thread_local bool inside = false;
  if (threads > 1 && !inside) {
    std::unique_lock<std::mutex> guard(*in_use, std::try_to_lock);
    if (guard.owns_lock()) {
      if (pool == nullptr) pool = new Pool;
      inside = true;
      struct Reset {
        ~Reset() { inside = false; }
      } reset;
      pool->run(n_tasks, threads, task);
      return;
    }
  }
  for (int64_t i = 0; i < n_tasks; ++i) task(i);
}

}  // namespace sparsenet
