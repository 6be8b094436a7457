// One-vs-rest linear classifiers by dual coordinate descent (Hsieh et al., 2008), a block of labels at a time. The
// scores of a point for all labels of the block are one vector, so a weight row is at most a cache line.

// Compiler vectors, so that scores stay in registers: for plain loops over 16 labels GCC stores and loads them for each
// feature.
template <int width>
struct DualLanes {
  typedef float Floats __attribute__((vector_size(width * sizeof(float)), aligned(4), may_alias));
};
template <>
struct DualLanes<1> {
  typedef float Floats;
};

// Visits the first `count` points in `order` once. Each moves the weights by the fraction `stride` of the way to its
// own optimum. Moves the points that violate optimality by more than `rest` for some label to the front of `order`, and
// returns their number. Within a pass no label depends on the others, so a wide block has the bits of narrow ones.
template <int width>
int64_t dual_visit(const DualProblem& p, int64_t count, int32_t* order, float rest, float stride, float* weight,
                   float* alpha, float* violation) {
  using Floats = typename DualLanes<width>::Floats;
  // Skip smaller moves. A point's move is in proportion to 1 / square, so the limit shrinks for very long points.
  constexpr float kStill = 1e-6f, kUsualSquare = 1024;
  float worst[width] = {};
  int64_t kept = 0;
  float* bias = weight + p.n_features * width;
  for (int64_t at = 0; at < count; ++at) {
    const int64_t i = order[at];
    float score[width], sign[width], move[width], next[width];
    for (int c = 0; c < width; ++c) sign[c] = -1;
    for (int64_t j = p.label_indptr[i]; j < p.label_indptr[i + 1]; ++j) {
      const int64_t c = p.labels[j] - p.first_label;
      if (c >= 0 && c < width) sign[c] = 1;
    }
    const int64_t stop = p.csr.indptr[i + 1];
    Floats sum = *reinterpret_cast<const Floats*>(bias);
    for (int64_t j = p.csr.indptr[i]; j < stop; ++j)
      sum += p.csr.data[j] * *reinterpret_cast<const Floats*>(weight + int64_t{p.csr.indices[j]} * width);
    memcpy(score, &sum, sizeof(score));
    const float* a = alpha + i * width;
    const float square = p.squares[i];
    const float still = square > kUsualSquare ? kStill * kUsualSquare / square : kStill;
    int32_t moved = 0, active = 0;  // flags, because the compiler would not vectorise a maximum
    for (int c = 0; c < width; ++c) {
      const float slack = sign[c] > 0 ? p.positive_slack[c] : p.negative_slack[c];
      const float before = a[c];
      const float gradient = sign[c] * score[c] - 1 + slack * before;
      const float free = before - stride * gradient / (square + slack);
      const float after = free > 0 ? free : 0;
      const float change = after - before;
      const float wrong = gradient < 0 ? -gradient : before > 0 ? gradient : 0;
      const bool moves = (change > still) | (change < -still);
      moved |= moves;
      active |= wrong > rest;
      worst[c] = wrong > worst[c] ? wrong : worst[c];
      move[c] = moves ? change * sign[c] : 0;
      next[c] = moves ? after : before;
    }
    if (moved) {
      Floats step;
      memcpy(&step, move, sizeof(step));
      for (int64_t j = p.csr.indptr[i]; j < stop; ++j)
        *reinterpret_cast<Floats*>(weight + int64_t{p.csr.indices[j]} * width) += p.csr.data[j] * step;
      *reinterpret_cast<Floats*>(bias) += step;
      memcpy(alpha + i * width, next, sizeof(next));
    }
    order[at] = order[kept];
    order[kept] = static_cast<int32_t>(i);
    kept += active;
  }
  *violation = 0;
  for (int c = 0; c < width; ++c) *violation = worst[c] > *violation ? worst[c] : *violation;
  return kept;
}

int64_t dual_epoch(const DualProblem& p, int64_t width, int64_t count, int32_t* order, float rest, float stride,
                   float* weight, float* alpha, float* violation) {
  switch (width) {
    case 1:
      return dual_visit<1>(p, count, order, rest, stride, weight, alpha, violation);
    case 4:
      return dual_visit<4>(p, count, order, rest, stride, weight, alpha, violation);
    case 8:
      return dual_visit<8>(p, count, order, rest, stride, weight, alpha, violation);
    default:
      return dual_visit<16>(p, count, order, rest, stride, weight, alpha, violation);
  }
}
