#include "dispatch.h"

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "kernel_table.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace sparsenet {

extern const KernelTable scalar_table, avx2_table, avx512_table, avx512bf16_table, amxbf16_table;
extern const KernelTable neon_table, sve_table, neonbf16_table, svebf16_table;

namespace {

struct Level {
  const KernelTable* table;
  bool usable;
  // What must be asked of the system before the level is used, if anything: returns why it refuses, or nothing.
  std::string (*ask)() = nullptr;
};

#if defined(__x86_64__)
// Each test names every feature that the level's compiler flags allow the compiler to use.
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
bool has_avx512bf16() { return has_avx512() && __builtin_cpu_supports("avx512bf16"); }
#if defined(SPARSENET_HAS_AMXBF16)
#if defined(__linux__)
constexpr int kStatesThere = 0x1021, kAskForState = 0x1023;  // ARCH_GET_XCOMP_SUPP, ARCH_REQ_XCOMP_PERM
constexpr int kShapes = 17, kTiles = 18;                     // XFEATURE_XTILECFG, XFEATURE_XTILEDATA
bool has_amxbf16() {
  constexpr unsigned kInstructions = (1u << 24) | (1u << 22);  // AMX-TILE, AMX-BF16
  constexpr uint64_t kStates = (uint64_t{1} << kShapes) | (uint64_t{1} << kTiles);
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (!has_avx512bf16() || !__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return false;
  uint64_t there = 0;
  return (edx & kInstructions) == kInstructions && syscall(SYS_arch_prctl, kStatesThere, &there) == 0 &&
         (there & kStates) == kStates;
}
// Tiles are eight kilobytes of state, which Linux saves for the threads of processes that ask for it. From then on it
// refuses alternate signal stacks too small for that state, so only a process that will use tiles asks.
std::string ask_for_tiles() {
  if (syscall(SYS_arch_prctl, kAskForState, kTiles) == 0) return "";
  return std::string("the system gives this process no state for tiles: ") + std::strerror(errno);
}
#else
bool has_amxbf16() { return false; }
std::string ask_for_tiles() { return ""; }
#endif
#endif
#elif defined(__aarch64__)
#if defined(__linux__)
// The names of these bits are missing from the headers of older systems.
bool has_sve() { return (getauxval(AT_HWCAP) & (1UL << 22)) != 0; }                                      // HWCAP_SVE
bool has_neonbf16() { return (getauxval(AT_HWCAP2) & (1UL << 14)) != 0; }                                // HWCAP2_BF16
bool has_svebf16() { return has_sve() && has_neonbf16() && (getauxval(AT_HWCAP2) & (1UL << 12)) != 0; }  // _SVEBF16
#elif defined(__APPLE__)
bool has_sve() { return false; }
bool has_svebf16() { return false; }
bool has_neonbf16() {
  int found = 0;
  size_t length = sizeof(found);
  return sysctlbyname("hw.optional.arm.FEAT_BF16", &found, &length, nullptr, 0) == 0 && found != 0;
}
#else
bool has_sve() { return false; }
bool has_neonbf16() { return false; }
bool has_svebf16() { return false; }
#endif
#endif

// Intel's vectors multiply as many floats a cycle as bfloat16, and to make these takes time.
bool has_slow_pairs() {
#if defined(__x86_64__)
  return __builtin_cpu_is("intel");
#else
  return false;
#endif
}

// From plain to best: on Arm by bench/mca.py's table of loops, where SVE is ahead of NEON or even with it in all but
// one, and products of bfloat16 count for more than either.
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
#if defined(SPARSENET_HAS_AMXBF16)
  all.push_back({&amxbf16_table, has_amxbf16(), ask_for_tiles});
#endif
#if defined(SPARSENET_HAS_NEON)
  all.push_back({&neon_table, true});
#endif
#if defined(SPARSENET_HAS_SVE)
  all.push_back({&sve_table, has_sve()});
#endif
#if defined(SPARSENET_HAS_NEONBF16)
  all.push_back({&neonbf16_table, has_neonbf16()});
#endif
#if defined(SPARSENET_HAS_SVEBF16)
  all.push_back({&svebf16_table, has_svebf16()});
#endif
  return all;
}

// Atomic, since one thread may choose another level while others compute; a matrix product keeps to the table that it
// began with.
std::atomic<const KernelTable*> used{&scalar_table};

}  // namespace

const KernelTable& kernels() { return *used.load(); }

std::vector<std::string> isa_available() {
  std::vector<std::string> names;
  for (const Level& level : levels())
    if (level.usable) names.emplace_back(level.table->name);
  return names;
}

std::string isa_used() { return kernels().name; }

bool has_bf16() {
  const Matmul& half = kernels().half;
  return half.depth_of_word > 1 && (half.in_matrices || !has_slow_pairs());
}

void set_isa(const std::string& name) {
  for (const Level& level : levels()) {
    if (!level.usable || name != level.table->name) continue;
    const std::string refusal = level.ask != nullptr ? level.ask() : "";
    if (!refusal.empty()) throw std::invalid_argument("instruction set '" + name + "': " + refusal);
    used.store(level.table);
    return;
  }
  std::string message = "instruction set '" + name + "' is not available here; this build on this CPU has:";
  for (const std::string& available : isa_available()) message += " " + available;
  throw std::invalid_argument(message);
}

void choose_isa() {
  const char* wanted = std::getenv("SPARSENET_ISA");
  if (wanted != nullptr && *wanted != '\0') return set_isa(wanted);
  const std::vector<Level> all = levels();
  for (auto level = all.rbegin(); level != all.rend(); ++level) {
    if (!level->usable || (level->ask != nullptr && !level->ask().empty())) continue;
    used.store(level->table);
    return;
  }
}

}  // namespace sparsenet
