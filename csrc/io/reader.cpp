#include "reader.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "../core/threads.h"
#include "row_parser.h"

namespace sparsenet {
namespace {

// The approximate size of the chunks of a block that are parsed in parallel; it does not depend on the threads.
constexpr int64_t kChunkBytes = 256 << 10;

struct Chunk {
  const char* begin;
  const char* end;
  Marks before;  // of all earlier chunks: an upper bound of their output
  ParsedRows result;
};

std::vector<Chunk> split_at_lines(const char* text, int64_t size, int threads) {
  std::vector<Chunk> chunks;
  for (const char *p = text, *stop = text + size; p != stop;) {
    const char* end = stop;
    if (stop - p > kChunkBytes)
      end =
          static_cast<const char*>(std::memchr(p + kChunkBytes, '\n', static_cast<size_t>(stop - p - kChunkBytes))) + 1;
    chunks.push_back({p, end, {}, {}});
    p = end;
  }
  parallel_for(static_cast<int64_t>(chunks.size()), threads,
               [&](int64_t c) { chunks[c].before = count_marks(chunks[c].begin, chunks[c].end - chunks[c].begin); });
  Marks total;
  for (Chunk& chunk : chunks) {
    const Marks own = chunk.before;
    chunk.before = total;
    total = {total.lines + own.lines, total.colons + own.colons, total.commas + own.commas};
  }
  return chunks;
}

template <typename Label>
RowArrays<Label> arrays_from(const RowArrays<Label>& out, int64_t row, int64_t feature, int64_t label) {
  return {out.row_ends + row, out.indices + feature, out.values + feature, out.label_ends + row, out.labels + label};
}

template <typename T>
void close_gap(T* to, const T* from, int64_t n) {
  if (to != from && n > 0) std::memmove(to, from, static_cast<size_t>(n) * sizeof(T));
}

// Moves the rows of a chunk to the end of the previous rows, and makes row ends relative to the start of the block.
template <typename Label>
void append(const RowArrays<Label>& from, const ParsedRows& part, const RowArrays<Label>& out, ParsedRows& total) {
  const RowArrays<Label> to = arrays_from(out, total.rows, total.features, total.labels);
  close_gap(to.indices, from.indices, part.features);
  close_gap(to.values, from.values, part.features);
  close_gap(to.labels, from.labels, part.labels);
  for (int64_t r = 0; r < part.rows; ++r) {
    to.row_ends[r] = from.row_ends[r] + total.features;
    to.label_ends[r] = from.label_ends[r] + total.labels;
  }
  total.rows += part.rows;
  total.features += part.features;
  total.labels += part.labels;
}

template <typename Format>
ParsedRows parse_block(const char* text, int64_t size, int64_t first_line, const RowRules& rules,
                       const RowArrays<typename Format::Label>& out, int threads) {
  std::vector<Chunk> chunks = split_at_lines(text, size, threads);
  const auto arrays_of = [&](const Chunk& c) {
    return arrays_from(out, c.before.lines, c.before.colons, c.before.commas + c.before.lines);
  };
  parallel_for(static_cast<int64_t>(chunks.size()), threads, [&](int64_t c) {
    Chunk& chunk = chunks[c];
    ChunkParser<Format> parser(text, rules, arrays_of(chunk));
    chunk.result = parser.parse(chunk.begin, chunk.end, first_line + chunk.before.lines);
  });
  ParsedRows total;
  for (const Chunk& chunk : chunks) {
    ParsedRows sum = chunk.result;
    sum.rows = total.rows, sum.features = total.features, sum.labels = total.labels;
    append(arrays_of(chunk), chunk.result, out, sum);
    total = sum;
    if (total.error != RowError::kNone) break;
  }
  return total;
}

}  // namespace

Marks count_marks(const char* text, int64_t size) {
  Marks total;
  for (const char *p = text, *stop = text + size; p != stop;) {
    // Short runs, so that counts fit into bytes and the loop vectorises over sixteen or more of them.
    const int n = static_cast<int>(std::min<int64_t>(stop - p, 240));
    uint8_t lines = 0, colons = 0, commas = 0;
    for (int i = 0; i < n; ++i) {
      lines = static_cast<uint8_t>(lines + (p[i] == '\n'));
      colons = static_cast<uint8_t>(colons + (p[i] == ':'));
      commas = static_cast<uint8_t>(commas + (p[i] == ','));
    }
    total.lines += lines;
    total.colons += colons;
    total.commas += commas;
    p += n;
  }
  return total;
}

ParsedRows parse_xmc(const char* text, int64_t size, int64_t first_line, const RowRules& rules,
                     const RowArrays<int32_t>& out, int threads) {
  return parse_block<XmcFormat>(text, size, first_line, rules, out, threads);
}

ParsedRows parse_svmlight(const char* text, int64_t size, int64_t first_line, const RowRules& rules,
                          const RowArrays<double>& out, int threads) {
  return parse_block<SvmlightFormat>(text, size, first_line, rules, out, threads);
}

}  // namespace sparsenet
