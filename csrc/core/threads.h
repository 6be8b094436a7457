// A small thread pool. Not OpenMP: libgomp hangs in a child process after fork and clashes with other runtimes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

namespace sparsenet {

// Runs task(0) ... task(n_tasks - 1), each once, on at most `threads` threads including the caller, and returns when
// all are done. Any thread may run any task, so the result of a task must depend on its index alone. The split into
// tasks must not depend on `threads`. Together these two rules make every kernel bit-identical at any thread count.
//
// A call made while another thread uses the pool runs on the caller alone: it never deadlocks and gives the same
// result. If a task throws, the exception is rethrown here after all running tasks have ended.
void parallel_for(int64_t n_tasks, int threads, const std::function<void(int64_t)>& task);

// Runs body(begin, end) over [0, n) in blocks of `grain`.
template <typename Body>
void parallel_blocks(int64_t n, int64_t grain, int threads, const Body& body) {
  parallel_for((n + grain - 1) / grain, threads,
               [&](int64_t block) { body(block * grain, std::min(n, (block + 1) * grain)); });
}

}  // namespace sparsenet
