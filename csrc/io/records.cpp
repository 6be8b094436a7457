#include "records.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "../core/threads.h"

namespace sparsenet {
namespace {

constexpr uint32_t kLong = 0x8000;  // the top bit of the first of two units
constexpr int64_t kRowGrain = 256;

uint16_t unit_at(const uint8_t* at) {
  uint16_t unit = 0;
  std::memcpy(&unit, at, sizeof unit);
  return unit;
}

template <typename Stored>
void widen(const uint8_t* from, int64_t count, double* out) {
  for (int64_t j = 0; j < count; ++j) {
    Stored value;
    std::memcpy(&value, from + j * static_cast<int64_t>(sizeof value), sizeof value);
    out[j] = static_cast<double>(value);
  }
}

void decode_values(const uint8_t* from, int64_t bytes, int64_t count, double* out) {
  switch (bytes) {
    case 2:
      return widen<uint16_t>(from, count, out);
    case 4:
      return widen<float>(from, count, out);
    case 8:
      return widen<double>(from, count, out);
    default:
      break;
  }
  for (int64_t j = 0; j < count; ++j) out[j] = 1.0;
}

template <typename Stored>
uint8_t* narrow(const double* from, int64_t count, uint8_t* out) {
  for (int64_t j = 0; j < count; ++j, out += sizeof(Stored)) {
    const auto value = static_cast<Stored>(from[j]);
    std::memcpy(out, &value, sizeof value);
  }
  return out;
}

uint8_t* encode_values(const double* from, int64_t bytes, int64_t count, uint8_t* out) {
  switch (bytes) {
    case 2:
      return narrow<uint16_t>(from, count, out);
    case 4:
      return narrow<float>(from, count, out);
    case 8:
      return narrow<double>(from, count, out);
    default:
      return out;
  }
}

// Returns whether a record of `size` bytes holds `count` ascending ids below `width`, and its values.
bool decode_row(const uint8_t* record, int64_t size, int64_t bytes, int64_t width, int64_t count, int32_t* indices,
                double* values) {
  const int64_t id_bytes = size - bytes * count;
  if (id_bytes < 2 * count || id_bytes > 4 * count || id_bytes % 2 != 0) return false;
  const uint8_t* at = record;
  const uint8_t* end = record + id_bytes;
  int64_t id = -1;
  for (int64_t j = 0; j < count; ++j) {
    if (at == end) return false;
    uint32_t gap = unit_at(at);
    at += 2;
    if (gap >= kLong) {
      if (at == end) return false;
      gap = (gap - kLong) << 16 | unit_at(at);
      at += 2;
    }
    id += int64_t{gap} + 1;
    indices[j] = static_cast<int32_t>(id);
  }
  if (at != end || id >= width) return false;  // ids ascend, so the last one is the largest
  decode_values(end, bytes, count, values);
  return true;
}

}  // namespace

void encode_rows(const int64_t* indptr, int64_t n, const int32_t* indices, const double* values, int64_t value_bytes,
                 uint8_t* out, int64_t* ends) {
  uint8_t* at = out;
  ends[0] = 0;
  for (int64_t i = 0; i < n; ++i) {
    int64_t before = -1;
    for (int64_t j = indptr[i]; j < indptr[i + 1]; ++j) {
      const auto gap = static_cast<uint32_t>(indices[j] - before - 1);
      before = indices[j];
      uint16_t units[2] = {static_cast<uint16_t>(gap), 0};
      const bool is_long = gap >= kLong;
      if (is_long) {
        units[0] = static_cast<uint16_t>(kLong | gap >> 16);
        units[1] = static_cast<uint16_t>(gap);
      }
      std::memcpy(at, units, sizeof units[0] * (1 + is_long));
      at += 2 + 2 * is_long;
    }
    at = encode_values(values + indptr[i], value_bytes, indptr[i + 1] - indptr[i], at);
    ends[i + 1] = at - out;
  }
}

int64_t decode_rows(const uint8_t* records, const int64_t* starts, int64_t n, const uint8_t* value_bytes, int64_t width,
                    const int64_t* indptr, int32_t* indices, double* values, int threads) {
  std::atomic<int64_t> first{n};
  parallel_blocks(n, kRowGrain, threads, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t at = indptr[i];
      if (decode_row(records + starts[i], starts[i + 1] - starts[i], value_bytes[i], width, indptr[i + 1] - at,
                     indices + at, values + at))
        continue;
      int64_t known = first.load();
      while (i < known && !first.compare_exchange_weak(known, i)) {
      }
      return;
    }
  });
  return first.load() == n ? -1 : first.load();
}

int64_t read_records(int file, const int64_t* offsets, const int64_t* starts, int64_t n, uint8_t* out) {
  for (int64_t i = 0; i < n;) {
    int64_t next = i + 1;
    while (next < n && offsets[next] == offsets[i] + starts[next] - starts[i]) ++next;
    int64_t done = 0;
    const int64_t size = starts[next] - starts[i];
    while (done < size) {
      const auto read = pread(file, out + starts[i] + done, static_cast<size_t>(size - done), offsets[i] + done);
      if (read < 0 && errno == EINTR) continue;
      if (read < 0) return errno;
      if (read == 0) return -1;
      done += read;
    }
    i = next;
  }
  return 0;
}

}  // namespace sparsenet
