// Working memory of a thread, kept from call to call: a fresh allocation of megabytes would be paid in page faults.
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

  // At least `count` floats on a cache line's boundary; what an earlier call returned is invalid.
  float* floats(int64_t count) {
    if (count > capacity_) {
      std::free(data_);
      data_ = nullptr;
      capacity_ = 0;
      const int64_t bytes = (count * static_cast<int64_t>(sizeof(float)) + 63) / 64 * 64;
      data_ = static_cast<float*>(std::aligned_alloc(64, static_cast<size_t>(bytes)));
      if (data_ == nullptr) throw std::bad_alloc();
      capacity_ = count;
    }
    return data_;
  }

 private:
  float* data_ = nullptr;
  int64_t capacity_ = 0;
};

}  // namespace sparsenet
