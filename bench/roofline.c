/* Measures the peak rates of this machine: multiply-adds, streamed reads, gathered rows and updated rows.
 *
 *     roofline THREADS MEGABYTES ROUNDS
 *
 * prints a JSON object with the "best" and the "median" over ROUNDS. Each has GFLOP/s of multiply-adds from registers,
 * for float32 and bfloat16 (0 if the CPU has no instruction for it), and GB/s of
 *     read:         a sum over an array much larger than the caches,
 *     gather:       sums of random 512-byte rows, prefetched 16 rows ahead into the first- or second-level cache,
 *     update:       such rows read, changed and written back; bytes read and written both count.
 * Rates are for all threads together, by the CPU time of the slowest thread. Other load therefore lowers the best rate
 * only through its use of memory. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__AVX512BF16__)
#include <immintrin.h>
#if defined(__AMX_BF16__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#define HAS_TILES
#endif
#elif defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#include <arm_neon.h>
#endif

#if defined(__AVX512F__)
#define LANES 16
#define IN_VECTOR_REGISTER "+v"
#elif defined(__aarch64__)
#define LANES 4
#define IN_VECTOR_REGISTER "+w"
#else
#define LANES 8
#define IN_VECTOR_REGISTER "+x"
#endif
typedef float Vector __attribute__((vector_size(LANES * 4)));

/* Operations per bfloat16 instruction: a pair of products in each lane, or 2 x 4 times 4 x 2 numbers. Tiles, if the
 * operating system grants them, multiply 16 x 32 by 32 x 16 numbers. */
#if defined(__AVX512BF16__)
enum { kBf16Flop = 2 * 2 * LANES };
#elif defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
enum { kBf16Flop = 2 * 16 };
#else
enum { kBf16Flop = 0 };
#endif

enum { kTileFlop = 2 * 16 * 32 * 16 };
static int tiles = 0;

enum { kRow = 128, kAhead = 16, kSums = 24, kMostRounds = 1000 };
enum Work { kFma, kBf16, kRead, kGather, kGatherFar, kUpdate, kUpdateFar, kWorks };

typedef struct {
  pthread_barrier_t* barrier;
  float* data;      /* the part of this thread */
  int32_t* order;   /* its rows, shuffled */
  int64_t n_rows;
  int rounds;
  double* seconds; /* [kWorks][rounds] */
  volatile float sink;
} Part;

static const int64_t kFmaLoops = 1000000;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

static float fma_peak(void) {
  Vector sum[kSums], a, b;
  for (int i = 0; i < LANES; ++i) a[i] = 1.0f + 1e-7f * i, b[i] = 1e-7f * i;
  for (int s = 0; s < kSums; ++s) {
    sum[s] = b * (float)s;
    __asm__("" : IN_VECTOR_REGISTER(sum[s])); /* stops the compiler from merging equal sums */
  }
  for (int64_t loop = 0; loop < kFmaLoops; ++loop) {
#pragma GCC unroll 24
    for (int s = 0; s < kSums; ++s) sum[s] = sum[s] * a + b;
  }
  float total = 0;
  for (int s = 0; s < kSums; ++s) total += sum[s][0];
  return total;
}

#if defined(HAS_TILES)
static float tile_peak(void) {
  struct {
    uint8_t palette, first_row, reserved[14];
    uint16_t bytes_of_row[16];
    uint8_t rows[16];
  } shape __attribute__((aligned(64))) = {.palette = 1};
  for (int tile = 0; tile < 6; ++tile) shape.bytes_of_row[tile] = 64, shape.rows[tile] = 16;
  static const float zeros[256];
  float sums[256];
  _tile_loadconfig(&shape);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, zeros, 64);
  _tile_loadd(5, zeros, 64);
  for (int64_t loop = 0; loop < kFmaLoops * kSums / 4; ++loop) {
    _tile_dpbf16ps(0, 4, 5);
    _tile_dpbf16ps(1, 4, 5);
    _tile_dpbf16ps(2, 4, 5);
    _tile_dpbf16ps(3, 4, 5);
  }
  _tile_stored(0, sums, 64);
  _tile_release();
  return sums[0];
}
#endif

static float bf16_peak(void) {
#if defined(HAS_TILES)
  if (tiles) return tile_peak();
#endif
#if defined(__AVX512BF16__)
  __m512 sum[kSums];
  __m512bh a = (__m512bh)_mm512_set1_epi16(0x3f80), b = (__m512bh)_mm512_set1_epi16(0x3080);
  for (int s = 0; s < kSums; ++s) {
    sum[s] = _mm512_set1_ps((float)s);
    __asm__("" : IN_VECTOR_REGISTER(sum[s]));
  }
  for (int64_t loop = 0; loop < kFmaLoops; ++loop) {
#pragma GCC unroll 24
    for (int s = 0; s < kSums; ++s) sum[s] = _mm512_dpbf16_ps(sum[s], a, b);
  }
  float total = 0;
  for (int s = 0; s < kSums; ++s) total += _mm512_reduce_add_ps(sum[s]);
  return total;
#elif defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
  float32x4_t sum[kSums];
  bfloat16x8_t a = vreinterpretq_bf16_u16(vdupq_n_u16(0x3f80)), b = vreinterpretq_bf16_u16(vdupq_n_u16(0x3080));
  for (int s = 0; s < kSums; ++s) {
    sum[s] = vdupq_n_f32((float)s);
    __asm__("" : IN_VECTOR_REGISTER(sum[s]));
  }
  for (int64_t loop = 0; loop < kFmaLoops; ++loop) {
#pragma GCC unroll 24
    for (int s = 0; s < kSums; ++s) sum[s] = vbfmmlaq_f32(sum[s], a, b);
  }
  float total = 0;
  for (int s = 0; s < kSums; ++s) total += vaddvq_f32(sum[s]);
  return total;
#else
  return 0;
#endif
}

static float read_all(const float* data, int64_t n) {
  Vector sum[8];
  memset(sum, 0, sizeof(sum));
  for (int64_t i = 0; i < n; i += 8 * LANES)
    for (int s = 0; s < 8; ++s) sum[s] += *(const Vector*)(data + i + s * LANES);
  float total = 0;
  for (int s = 0; s < 8; ++s) total += sum[s][0];
  return total;
}

/* Prefetches a row into the first- or second-level cache. */
static inline void fetch(const float* row, int near) {
  for (int c = 0; c < kRow; c += 16) {
    if (near)
      __builtin_prefetch(row + c, 0, 3);
    else
      __builtin_prefetch(row + c, 0, 2);
  }
}

static inline float gather(const float* data, const int32_t* order, int64_t n_rows, int near) {
  Vector sum[kRow / LANES];
  memset(sum, 0, sizeof(sum));
  for (int64_t r = 0; r < n_rows; ++r) {
    fetch(data + (int64_t)order[r + kAhead < n_rows ? r + kAhead : r] * kRow, near);
    const float* row = data + (int64_t)order[r] * kRow;
    for (int c = 0; c < kRow; c += LANES) sum[c / LANES] += *(const Vector*)(row + c);
  }
  float total = 0; /* used below, or the compiler would remove the sums */
  for (int v = 0; v < kRow / LANES; ++v) total += sum[v][0];
  return total;
}

static inline void update(float* data, const int32_t* order, int64_t n_rows, int near) {
  for (int64_t r = 0; r < n_rows; ++r) {
    fetch(data + (int64_t)order[r + kAhead < n_rows ? r + kAhead : r] * kRow, near);
    float* row = data + (int64_t)order[r] * kRow;
    for (int c = 0; c < kRow; c += LANES) *(Vector*)(row + c) = *(const Vector*)(row + c) * 0.999f + 1e-3f;
  }
}

static void run(Part* part, enum Work work) {
  const int64_t n = part->n_rows * kRow;
  if (work == kFma) part->sink = fma_peak();
  if (work == kBf16) part->sink = bf16_peak();
  if (work == kRead) part->sink = read_all(part->data, n);
  if (work == kGather) part->sink = gather(part->data, part->order, part->n_rows, 1);
  if (work == kGatherFar) part->sink = gather(part->data, part->order, part->n_rows, 0);
  if (work == kUpdate) update(part->data, part->order, part->n_rows, 1);
  if (work == kUpdateFar) update(part->data, part->order, part->n_rows, 0);
}

static void prepare(Part* part) {
  for (int64_t i = 0; i < part->n_rows * kRow; ++i) part->data[i] = 1.0f; /* touched by the thread that will use it */
  uint64_t state = 88172645463325252ull;
  for (int64_t r = 0; r < part->n_rows; ++r) part->order[r] = (int32_t)r;
  for (int64_t r = part->n_rows - 1; r > 0; --r) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    const int64_t other = (int64_t)(state % (uint64_t)(r + 1));
    const int32_t held = part->order[r];
    part->order[r] = part->order[other], part->order[other] = held;
  }
}

static void* serve(void* argument) {
  Part* part = argument;
  prepare(part);
  for (int work = 0; work < kWorks; ++work) {
    for (int round = 0; round < part->rounds; ++round) {
      pthread_barrier_wait(part->barrier); /* all threads start together, so that they share the memory */
      const double start = now();
      run(part, (enum Work)work);
      part->seconds[work * part->rounds + round] = now() - start;
    }
  }
  return NULL;
}

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

/* Seconds of the slowest thread in the round with this rank. */
static double ranked(const Part* parts, int threads, int rounds, enum Work work, int rank) {
  double slowest[kMostRounds] = {0};
  for (int round = 0; round < rounds; ++round) {
    for (int t = 0; t < threads; ++t) {
      const double took = parts[t].seconds[work * rounds + round];
      if (took > slowest[round]) slowest[round] = took;
    }
  }
  qsort(slowest, (size_t)rounds, sizeof(double), compare);
  return slowest[rank];
}

static double lesser(double a, double b) { return a < b ? a : b; }

static void print_limits(const Part* parts, int threads, int rounds, int rank, double bytes) {
  double took[kWorks];
  for (int work = 0; work < kWorks; ++work) took[work] = ranked(parts, threads, rounds, (enum Work)work, rank);
  const double instructions = 1e-9 * threads * (double)kFmaLoops * kSums;
  const double bf16_flop = tiles ? kTileFlop : kBf16Flop;
  printf("{\"fma_gflops\": %.1f, \"bf16_gflops\": %.1f, ", instructions * 2 * LANES / took[kFma],
         bf16_flop > 0 ? instructions * bf16_flop / took[kBf16] : 0);
  printf("\"read_gbs\": %.2f, \"gather_gbs\": %.2f, \"update_gbs\": %.2f}", 1e-9 * bytes / took[kRead],
         1e-9 * bytes / lesser(took[kGather], took[kGatherFar]),
         2e-9 * bytes / lesser(took[kUpdate], took[kUpdateFar]));
}

int main(int argc, char** argv) {
  if (argc != 4) return fprintf(stderr, "roofline THREADS MEGABYTES ROUNDS\n"), 2;
#if defined(HAS_TILES)
  tiles = syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18 /* XFEATURE_XTILEDATA */) == 0;
#endif
  const int threads = atoi(argv[1]), rounds = atoi(argv[3]);
  if (threads < 1 || atoi(argv[2]) < 1 || rounds < 1) return fprintf(stderr, "numbers above zero, please\n"), 2;
  if (rounds > kMostRounds) return fprintf(stderr, "at most %d rounds, please\n", kMostRounds), 2;
  const int64_t n_rows = (int64_t)atoi(argv[2]) * 1000000 / (4 * kRow) / threads;
  Part* parts = calloc((size_t)threads, sizeof(Part));
  pthread_t* handles = calloc((size_t)threads, sizeof(pthread_t));
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, NULL, (unsigned)threads);
  for (int t = 0; t < threads; ++t) {
    float* data = aligned_alloc(4096, ((size_t)n_rows * kRow * 4 + 4095) / 4096 * 4096);
    int32_t* order = malloc((size_t)n_rows * sizeof(int32_t));
    double* seconds = calloc((size_t)(kWorks * rounds), sizeof(double));
    if (!parts || !handles || !seconds || !data || !order) return fprintf(stderr, "out of memory\n"), 1;
    parts[t] = (Part){&barrier, data, order, n_rows, rounds, seconds, 0};
    if (pthread_create(&handles[t], NULL, serve, &parts[t]) != 0) return fprintf(stderr, "no thread\n"), 1;
  }
  for (int t = 0; t < threads; ++t) pthread_join(handles[t], NULL);
  const double bytes = (double)threads * (double)n_rows * kRow * 4;
  printf("{\"best\": ");
  print_limits(parts, threads, rounds, 0, bytes);
  printf(", \"median\": ");
  print_limits(parts, threads, rounds, rounds / 2, bytes);
  printf("}\n");
  return 0;
}
