#include "machine.h"

#include <unistd.h>

#include <cstdio>

#if defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace sparsenet {
namespace {

// Neoverse N1 to V2 have 1 to 2 MiB and x86 servers 0.5 to 2 MiB: take the smallest. No CPU is outside the last two.
constexpr int64_t kTypical = 512 << 10, kMin = 128 << 10, kMax = 64 << 20;

#if defined(__linux__)
// On Arm sysconf may return 0; Linux then has the size in these files.
int64_t size_in_sysfs() {
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

int64_t reported_size() {
#if defined(_SC_LEVEL2_CACHE_SIZE)  // defined by glibc, not by musl
  const int64_t bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  if (bytes > 0) return bytes;
#endif
  return size_in_sysfs();
}
#elif defined(__APPLE__)
int64_t reported_size() {
  int64_t bytes = 0;
  size_t length = sizeof(bytes);
  return sysctlbyname("hw.l2cachesize", &bytes, &length, nullptr, 0) == 0 ? bytes : 0;
}
#else
int64_t reported_size() { return 0; }
#endif

// A virtual machine may report any number.
int64_t plausible(int64_t bytes) { return bytes >= kMin && bytes <= kMax ? bytes : kTypical; }

}  // namespace

int64_t second_level_cache() {
  static const int64_t found = plausible(reported_size());
  return found;
}

}  // namespace sparsenet
