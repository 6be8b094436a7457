// SplitMix64: the same random numbers on every machine.
#pragma once

#include <cstdint>

namespace sparsenet {

constexpr uint64_t kGolden = 0x9E3779B97F4A7C15u;

// Returns the random number of a state; adding kGolden to the state gives the next one.
inline uint64_t scrambled(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

// Returns the n-th number of the sequence whose first state is kGolden.
inline uint64_t split_mix(uint64_t n) { return scrambled(n * kGolden); }

}  // namespace sparsenet
