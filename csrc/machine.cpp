#include "machine.h"

#include <unistd.h>

#include <cstdio>

#if defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace sparsenet {
namespace {

// Neoverse N1 to V2 have 64 KiB and 1 to 2 MiB, x86 servers 32 to 48 KiB and 0.5 to 2 MiB: the small ones of each.
constexpr Caches kUsual = {32 << 10, 512 << 10};

#if defined(__linux__)
// sysconf reads the CPU itself on x86; on Arm it may say 0, where the kernel's files know.
int64_t from_kernel(int level) {
  for (int index = 0; index < 8; ++index) {
    char path[96], type[16] = "";
    int found = 0;
    int64_t kibibytes = 0;
    const char* folder = "/sys/devices/system/cpu/cpu0/cache/index";
    const auto read = [&](const char* name, const char* format, void* out) {
      std::snprintf(path, sizeof(path), "%s%d/%s", folder, index, name);
      std::FILE* file = std::fopen(path, "r");
      if (file == nullptr) return false;
      const int fields = std::fscanf(file, format, out);
      std::fclose(file);
      return fields == 1;
    };
    if (!read("level", "%d", &found)) return 0;
    if (found == level && read("type", "%15s", type) && type[0] != 'I' && read("size", "%ldK", &kibibytes))
      return kibibytes << 10;
  }
  return 0;
}

int64_t size_of(int level) {
  const int64_t bytes = sysconf(level == 1 ? _SC_LEVEL1_DCACHE_SIZE : _SC_LEVEL2_CACHE_SIZE);
  return bytes > 0 ? bytes : from_kernel(level);
}
#elif defined(__APPLE__)
int64_t size_of(int level) {
  int64_t bytes = 0;
  size_t length = sizeof(bytes);
  const char* name = level == 1 ? "hw.l1dcachesize" : "hw.l2cachesize";
  return sysctlbyname(name, &bytes, &length, nullptr, 0) == 0 ? bytes : 0;
}
#else
int64_t size_of(int) { return 0; }
#endif

// A virtual machine may report nonsense: what no CPU has is not believed.
int64_t believed(int64_t bytes, int64_t least, int64_t most, int64_t usual) {
  return bytes >= least && bytes <= most ? bytes : usual;
}

}  // namespace

const Caches& caches() {
  static const Caches found = {believed(size_of(1), 8 << 10, 1 << 20, kUsual.first),
                               believed(size_of(2), 128 << 10, 64 << 20, kUsual.second)};
  return found;
}

}  // namespace sparsenet
