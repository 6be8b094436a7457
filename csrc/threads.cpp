#include "threads.h"

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace sparsenet {
namespace {

constexpr int kMaxThreads = 1024;
// A training step is some twenty short calls: between two of them a worker polls this often before it sleeps.
constexpr int kSpins = 2000;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

class Pool {
 public:
  void run(int64_t n_tasks, int threads, const std::function<void(int64_t)>& task) {
    grow(threads - 1);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      task_ = &task;
      n_tasks_ = n_tasks;
      next_.store(0);
      error_ = nullptr;
      seats_.store(threads - 1);
      busy_.store(static_cast<int>(workers_.size()));
      generation_.fetch_add(1);
    }
    wake_.notify_all();
    work();
    for (int spin = 0; busy_.load() != 0; ++spin) {
      if (spin < kSpins) {
        relax();
        continue;
      }
      std::unique_lock<std::mutex> lock(mutex_);
      done_.wait(lock, [this] { return busy_.load() == 0; });
    }
    if (error_) std::rethrow_exception(error_);
  }

 private:
  // Where the system allows no further thread, those that there are share the work, down to the caller alone.
  void grow(int n_workers) {
    try {
      while (static_cast<int>(workers_.size()) < n_workers) {
        const uint64_t seen = generation_.load();
        workers_.emplace_back([this, seen] { serve(seen); });
        workers_.back().detach();
      }
    } catch (const std::system_error&) {
    }
  }

  void serve(uint64_t seen) {
    for (;;) {
      for (int spin = 0; spin < kSpins && generation_.load() == seen; ++spin) relax();
      {
        std::unique_lock<std::mutex> lock(mutex_);
        wake_.wait(lock, [&] { return generation_.load() != seen; });
        seen = generation_.load();
      }
      // More workers may exist than this call asked for: the surplus takes no seat.
      if (seats_.fetch_sub(1) > 0) work();
      if (busy_.fetch_sub(1) == 1) {
        std::lock_guard<std::mutex> lock(mutex_);
        done_.notify_one();
      }
    }
  }

  void work() {
    for (int64_t i = next_.fetch_add(1); i < n_tasks_; i = next_.fetch_add(1)) {
      try {
        (*task_)(i);
      } catch (...) {
        std::lock_guard<std::mutex> lock(mutex_);
        if (!error_) error_ = std::current_exception();
        next_.store(n_tasks_);
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::vector<std::thread> workers_;
  std::atomic<uint64_t> generation_{0};
  std::atomic<int64_t> next_{0};
  std::atomic<int> seats_{0}, busy_{0};
  const std::function<void(int64_t)>* task_ = nullptr;
  int64_t n_tasks_ = 0;
  std::exception_ptr error_;
};

// Never destroyed: a worker may still run when the process exits.
Pool* pool = nullptr;
std::mutex* in_use = new std::mutex;

// A forked child has none of the parent's threads: it abandons their pool, and a lock they may hold, and starts
// afresh.
void abandon_after_fork() {
  pool = nullptr;
  in_use = new std::mutex;
}

}  // namespace

void parallel_for(int64_t n_tasks, int threads, const std::function<void(int64_t)>& task) {
  static const int registered = pthread_atfork(nullptr, nullptr, abandon_after_fork);
  static_cast<void>(registered);
  if (threads > kMaxThreads) threads = kMaxThreads;
  if (threads > n_tasks) threads = static_cast<int>(n_tasks);
  // Nested and concurrent calls find the pool taken and run in line.
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
