// Scratch memory of a thread, reused between calls: a fresh allocation of megabytes would cost page faults.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>

namespace sparsenet {

class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { std::free(data_); }

  // Returns uninitialised memory for `count` elements, aligned to a cache line; invalidates the previous result.
  template <typename T>
  T* of(int64_t count) {
    const int64_t bytes = (count * static_cast<int64_t>(sizeof(T)) + 63) / 64 * 64;
    if (bytes > capacity_) {
      std::free(data_);
      data_ = nullptr;
      capacity_ = 0;
      data_ = std::aligned_alloc(64, static_cast<size_t>(bytes));
      if (data_ == nullptr) throw std::bad_alloc();
      capacity_ = bytes;
    }
    return static_cast<T*>(data_);
  }
  float* floats(int64_t count) { return of<float>(count); }

 private:
  void* data_ = nullptr;
  int64_t capacity_ = 0;
};

}  // namespace sparsenet
