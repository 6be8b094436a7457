#include "dispatch.h"

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "../kernels/kernel_table.h"

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
  // Requests what the system must grant before use, if anything. Returns the reason for a refusal, or an empty string.
  std::string (*request)() = nullptr;
};

#if defined(__x86_64__)
// Each test checks every CPU feature that the flags of the instruction set allow the compiler to use.
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
bool has_avx512bf16() { return has_avx512() && __builtin_cpu_supports("avx512bf16"); }
#if defined(SPARSENET_HAS_AMXBF16)
#if defined(__linux__)
constexpr int kGetSupported = 0x1021, kRequestState = 0x1023;  // ARCH_GET_XCOMP_SUPP, ARCH_REQ_XCOMP_PERM
constexpr int kTileConfig = 17, kTileData = 18;                // XFEATURE_XTILECFG, XFEATURE_XTILEDATA
bool has_amxbf16() {
  constexpr unsigned kInstructions = (1u << 24) | (1u << 22);  // AMX-TILE, AMX-BF16
  constexpr uint64_t kStates = (uint64_t{1} << kTileConfig) | (uint64_t{1} << kTileData);
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (!has_avx512bf16() || !__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return false;
  uint64_t supported = 0;
  return (edx & kInstructions) == kInstructions && syscall(SYS_arch_prctl, kGetSupported, &supported) == 0 &&
         (supported & kStates) == kStates;
}
// Tiles are eight kilobytes of state, which Linux saves only for processes that request it. After the request it
// refuses alternate signal stacks that are too small for that state, so only a process that will use tiles makes the
// request.
std::string request_tiles() {
  if (syscall(SYS_arch_prctl, kRequestState, kTileData) == 0) return "";
  return std::string("the system gives this process no state for tiles: ") + std::strerror(errno);
}
#else
bool has_amxbf16() { return false; }
std::string request_tiles() { return ""; }
#endif
#endif
#elif defined(__aarch64__)
#if defined(__linux__)
// Numbers, because headers of older systems lack the names of these bits.
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

// Intel's vectors multiply as many float32 per cycle as bfloat16, and converting to bfloat16 takes time.
bool has_slow_pairs() {
#if defined(__x86_64__)
  return __builtin_cpu_is("intel");
#else
  return false;
#endif
}

// From the baseline to the best. The order on Arm follows bench/mca.py: SVE is at least as fast as NEON in all loops
// but one, and instructions for bfloat16 gain more than either.
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
  all.push_back({&amxbf16_table, has_amxbf16(), request_tiles});
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

// Atomic, because one thread may switch instruction sets while others compute. A matrix product uses one table
// throughout.
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
  const MatmulKernels& bfloat16 = kernels().bfloat16;
  return bfloat16.depth_of_word > 1 && (bfloat16.in_matrices || !has_slow_pairs());
}

void set_isa(const std::string& name) {
  for (const Level& level : levels()) {
    if (!level.usable || name != level.table->name) continue;
    const std::string refusal = level.request != nullptr ? level.request() : "";
    if (!refusal.empty())
      throw std::invalid_argument(std::string("instruction set '").append(name).append("': ").append(refusal));
    used.store(level.table);
    return;
  }
  std::string message = "instruction set '" + name + "' is not available here; this build on this CPU has:";
  for (const std::string& available : isa_available()) message.append(" ").append(available);
  throw std::invalid_argument(message);
}

void choose_isa() {
  const char* wanted = std::getenv("SPARSENET_ISA");
  if (wanted != nullptr && *wanted != '\0') return set_isa(wanted);
  const std::vector<Level> all = levels();
  for (auto level = all.rbegin(); level != all.rend(); ++level) {
    if (!level->usable || (level->request != nullptr && !level->request().empty())) continue;
    used.store(level->table);
    return;
  }
}

}  // namespace sparsenet
