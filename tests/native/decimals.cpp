// Reads one number per line with csrc/io/decimal.h and writes its bits as a double and as a float, or "none". A test
// compiles this program with and without the library's std::from_chars.
#include <cinttypes>
#include <cstdio>
#include <iostream>
#include <string>

#include "../../csrc/io/decimal.h"

#if defined(SPARSENET_NO_FLOAT_FROM_CHARS) && defined(SPARSENET_FLOAT_FROM_CHARS)
#error "the library's own conversion is still in use"
#endif

namespace {

template <typename T, typename Bits>
void write(const std::string& line, const char* end) {
  T value = 0;
  if (sparsenet::read_number(line.c_str(), end, value) != end) {
    std::printf("none ");
    return;
  }
  Bits bits;
  std::memcpy(&bits, &value, sizeof(bits));
  std::printf("%0*" PRIx64 " ", static_cast<int>(2 * sizeof(bits)), static_cast<uint64_t>(bits));
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    const char* end = line.c_str() + line.size();  // the zero after it is not part of a number
    write<double, uint64_t>(line, end);
    write<float, uint32_t>(line, end);
    std::printf("\n");
  }
  return 0;
}
