#include "machine.h"

#include <unistd.h>

#include <cstdio>

#if defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace sparsenet {
namespace {

// Neoverse N1 to V2 have 1 to 2 MiB, x86 servers 0.5 to 2 MiB: the smallest of them. Outside of the last two: no CPU.
constexpr int64_t kUsual = 512 << 10, kLeast = 128 << 10, kMost = 64 << 20;

#if defined(__linux__)
// sysconf reads the CPU itself on x86; on Arm it may say 0, where the kernel's files know.
int64_t from_kernel() {
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
    if (found == 2 && read("type", "%15s", type) && type[0] != 'I' && read("size", "%ldK", &kibibytes))
      return kibibytes << 10;
  }
  return 0;
}

int64_t size() {
#if defined(_SC_LEVEL2_CACHE_SIZE)  // glibc's; musl has no such name
  const int64_t bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  if (bytes > 0) return bytes;
#endif
  return from_kernel();
}
#elif defined(__APPLE__)
int64_t size() {
  int64_t bytes = 0;
  size_t length = sizeof(bytes);
  return sysctlbyname("hw.l2cachesize", &bytes, &length, nullptr, 0) == 0 ? bytes : 0;
}
#else
int64_t size() { return 0; }
#endif

// A virtual machine may report nonsense.
int64_t believed(int64_t bytes) { return bytes >= kLeast && bytes <= kMost ? bytes : kUsual; }

}  // namespace

int64_t second_level_cache() {
  static const int64_t found = believed(size());
  return found;
}

}  // namespace sparsenet
