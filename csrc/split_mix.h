// SplitMix64: the same random numbers on every machine.
#pragma once

#include <cstdint>

namespace sparsenet {

constexpr uint64_t kGolden = 0x9E3779B97F4A7C15u;

// The number of a state, which goes on by kGolden.
inline uint64_t scrambled(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

// The n-th number of the sequence whose first state is kGolden.
inline uint64_t split_mix(uint64_t n) { return scrambled(n * kGolden); }

}  // namespace sparsenet
