#include "dispatch.h"

#include <cstdlib>
#include <stdexcept>

#include "kernel_table.h"

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace sparsenet {

extern const KernelTable scalar_table, avx2_table, avx512_table, avx512bf16_table, neon_table, sve_table, svebf16_table;

namespace {

struct Level {
  const KernelTable* table;
  bool usable;
};

#if defined(__x86_64__)
// Each test names every feature that the level's compiler flags allow the compiler to use.
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
bool has_avx512bf16() { return has_avx512() && __builtin_cpu_supports("avx512bf16"); }
#elif defined(__aarch64__)
// The names of these bits are missing from the headers of older systems.
#if defined(__linux__)
bool has_sve() { return (getauxval(AT_HWCAP) & (1UL << 22)) != 0; }                    // HWCAP_SVE
bool has_svebf16() { return has_sve() && (getauxval(AT_HWCAP2) & (1UL << 14)) != 0; }  // HWCAP2_BF16
#else
bool has_sve() { return false; }
bool has_svebf16() { return false; }
#endif
#endif

// From plain to best. SVE stands before NEON: it is not assumed to be the faster one; its products of bfloat16 are.
std::vector<Level> levels() {
  std::vector<Level> all = {{&scalar_table, true}};
#if defined(SPARSENET_HAS_AVX2)
  all.push_back({&avx2_table, has_avx2()});
#endif
#if defined(SPARSENET_HAS_AVX512)
  all.push_back({&avx512_table, has_avx512()});
#endif
#if defined(SPARSENET_HAS_AVX512BF16)
  all.push_back({&avx512bf16_table, has_avx512bf16()});
#endif
#if defined(SPARSENET_HAS_SVE)
  all.push_back({&sve_table, has_sve()});
#endif
#if defined(SPARSENET_HAS_NEON)
  all.push_back({&neon_table, true});
#endif
#if defined(SPARSENET_HAS_SVEBF16)
  all.push_back({&svebf16_table, has_svebf16()});
#endif
  return all;
}

const KernelTable* used = &scalar_table;

}  // namespace

const KernelTable& kernels() { return *used; }

std::vector<std::string> isa_available() {
  std::vector<std::string> names;
  for (const Level& level : levels())
    if (level.usable) names.emplace_back(level.table->name);
  return names;
}

std::string isa_used() { return used->name; }

bool has_bf16() { return used->half.depth_of_word > 1; }

void set_isa(const std::string& name) {
  for (const Level& level : levels()) {
    if (level.usable && name == level.table->name) {
      used = level.table;
      return;
    }
  }
  std::string message = "instruction set '" + name + "' is not available here; this build on this CPU has:";
  for (const std::string& available : isa_available()) message += " " + available;
  throw std::invalid_argument(message);
}

void choose_isa() {
  const char* wanted = std::getenv("SPARSENET_ISA");
  set_isa(wanted != nullptr && *wanted != '\0' ? wanted : isa_available().back());
}

}  // namespace sparsenet
