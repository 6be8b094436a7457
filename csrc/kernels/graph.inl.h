// A temporal graph network: messages, gated memory, and attention over the last links of a node. The exponential and
// the logistic function are in loss.inl.h.

struct Wave {
  float cosine, sine;
};

// Both functions of an angle, with an absolute error below 1e-6; magnitudes beyond 3e9 count as 3e9. The quarter turns
// are taken off in double precision, because elapsed seconds make large angles.
inline Wave wave(float angle) {
  constexpr double kQuartersPerRadian = 0.63661977236758134, kRadiansPerQuarter = 1.5707963267948966;
  angle = angle > 3e9f ? 3e9f : angle < -3e9f ? -3e9f : angle;
  const double turns = static_cast<double>(angle) * kQuartersPerRadian;
  const int32_t quarters = static_cast<int32_t>(turns + (turns < 0 ? -0.5 : 0.5));
  const auto r = static_cast<float>(static_cast<double>(angle) - static_cast<double>(quarters) * kRadiansPerQuarter);
  const float q = r * r;
  const float sine = r + r * q * (-1.66666667e-1f + q * (8.33333333e-3f + q * (-1.98412698e-4f + q * 2.75573192e-6f)));
  const float cosine = 1.0f + q * (-0.5f + q * (4.16666667e-2f + q * (-1.38888889e-3f + q * 2.48015873e-5f)));
  const bool is_odd = (quarters & 1) != 0;
  const float first = is_odd ? sine : cosine, second = is_odd ? cosine : sine;
  return {((quarters + 1) & 2) != 0 ? -first : first, (quarters & 2) != 0 ? -second : second};
}

// Encodes an elapsed time: cos(rate * elapsed + shift) for each of `width` rates; the sines only if wanted.
inline void encode_time(float elapsed, const float* rates, const float* shifts, int64_t width, float* cosines) {
  for (int64_t t = 0; t < width; ++t) cosines[t] = wave(rates[t] * elapsed + shifts[t]).cosine;
}

inline void encode_time(float elapsed, const float* rates, const float* shifts, int64_t width, float* cosines,
                        float* sines) {
  for (int64_t t = 0; t < width; ++t) {
    const Wave at = wave(rates[t] * elapsed + shifts[t]);
    cosines[t] = at.cosine;
    sines[t] = at.sine;
  }
}

inline void copy_floats(const float* from, int64_t count, float* to) {
  memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
}

void message_rows(const GraphMessages& in, float* messages, float* states, float* sines, int64_t begin, int64_t end) {
  constexpr int64_t kAhead = 8;
  const int64_t m = in.memory_width, f = in.n_features, t = in.n_times, width = 2 * m + f + t + 1;
  const auto prefetch_row = [&](int64_t i) {
    prefetch(in.memory + in.nodes[i] * m, m);
    if (in.partners[i] >= 0) prefetch(in.memory + in.partners[i] * m, m);
  };
  for (int64_t i = begin; i < end && i < begin + kAhead; ++i) prefetch_row(i);
  for (int64_t i = begin; i < end; ++i) {
    if (i + kAhead < end) prefetch_row(i + kAhead);
    float *message = messages + i * width, *state = states + i * (m + 1);
    copy_floats(in.memory + in.nodes[i] * m, m, state);
    state[m] = 1;
    if (in.partners[i] >= 0) {
      copy_floats(state, m, message);
      copy_floats(in.memory + in.partners[i] * m, m, message + m);
      copy_floats(in.features + i * f, f, message + 2 * m);
      encode_time(in.elapsed[i], in.times, in.times + t, t, message + 2 * m + f, sines + i * t);
    } else {
      memset(message, 0, static_cast<size_t>(width) * sizeof(float));
      memset(sines + i * t, 0, static_cast<size_t>(t) * sizeof(float));
    }
    message[width - 1] = 1;
  }
}

inline float sigmoid(float x) {
  const float e = exp_negative(x < 0 ? x : -x);
  const float larger = 1.0f / (1.0f + e);
  return x < 0 ? e * larger : larger;
}

void gru_rows(float* gates, const float* states, const float* before, int64_t width, float* after, int64_t begin,
              int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    float* __restrict reset = gates + i * 3 * width;
    float* __restrict update = reset + width;
    float* __restrict proposal = update + width;
    const float* __restrict state = states + i * 3 * width;
    const float* __restrict old = before + i * (width + 1);
    float* __restrict out = after + i * (width + 1);
    for (int64_t c = 0; c < width; ++c) {
      reset[c] = sigmoid(reset[c] + state[c]);
      update[c] = sigmoid(update[c] + state[width + c]);
      proposal[c] = 2.0f * sigmoid(2.0f * (proposal[c] + reset[c] * state[2 * width + c])) - 1.0f;
      out[c] = proposal[c] + update[c] * (old[c] - proposal[c]);
    }
    out[width] = 1;
  }
}

void gru_gradient(float* gates, float* states, const float* before, const float* slopes, int64_t width, int64_t begin,
                  int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    float* __restrict gate = gates + i * 3 * width;
    float* __restrict state = states + i * 3 * width;
    const float* __restrict old = before + i * (width + 1);
    const float* __restrict slope = slopes + i * (width + 1);
    for (int64_t c = 0; c < width; ++c) {
      const float reset = gate[c], update = gate[width + c], proposal = gate[2 * width + c];
      const float of_proposal = slope[c] * (1.0f - update) * (1.0f - proposal * proposal);
      const float of_update = slope[c] * (old[c] - proposal) * update * (1.0f - update);
      const float of_reset = of_proposal * state[2 * width + c] * reset * (1.0f - reset);
      gate[c] = state[c] = of_reset;
      gate[width + c] = state[width + c] = of_update;
      gate[2 * width + c] = of_proposal;
      state[2 * width + c] = of_proposal * reset;
    }
  }
}

inline float product_of(const float* __restrict x, const float* __restrict y, int64_t width) {
  float sum = 0;
  for (int64_t c = 0; c < width; ++c) sum += x[c] * y[c];
  return sum;
}

inline void add_scaled(float factor, const float* __restrict x, int64_t width, float* __restrict sum) {
  for (int64_t c = 0; c < width; ++c) sum[c] += factor * x[c];
}

inline float attention_scale(const LastLinks& in) { return 1.0f / __builtin_sqrtf(static_cast<float>(in.n_channels)); }

// `scratch` has room for the encoded links of a seed.
void attend_last(const LastLinks& in, float* out, float* out_edges, float* weights, float* scratch, int64_t begin,
                 int64_t end) {
  const int64_t heads = in.n_heads, c = in.n_channels, links = in.n_links, e = in.n_times + in.n_features;
  const float scale = attention_scale(in);
  for (int64_t s = begin; s < end; ++s) {
    float* own = weights + s * links * heads;
    for (int64_t j = 0; j < links; ++j) {
      const int64_t link = s * links + j, row = in.links[link];
      float* edge = scratch + j * e;
      if (row < 0) continue;
      encode_time(in.ages[link], in.times, in.times + in.n_times, in.n_times, edge);
      copy_floats(in.features + link * in.n_features, in.n_features, edge + in.n_times);
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t query = h * in.n_seeds + s;
        own[j * heads + h] = scale * (product_of(in.queries + query * c, in.rows + (row * 2 * heads + h) * c, c) +
                                      product_of(in.edge_queries + query * e, edge, e));
      }
    }
    for (int64_t h = 0; h < heads; ++h) {
      float highest = -__builtin_inff(), total = 0;
      for (int64_t j = 0; j < links; ++j) {
        const float score = own[j * heads + h];
        if (in.links[s * links + j] >= 0 && score > highest) highest = score;
      }
      for (int64_t j = 0; j < links; ++j) {
        float* weight = own + j * heads + h;
        *weight = in.links[s * links + j] < 0 ? 0.0f : exp_negative(*weight - highest);
        total += *weight;
      }
      float *sum = out + (s * heads + h) * c, *edge_sum = out_edges + (h * in.n_seeds + s) * e;
      memset(sum, 0, static_cast<size_t>(c) * sizeof(float));
      memset(edge_sum, 0, static_cast<size_t>(e) * sizeof(float));
      for (int64_t j = 0; j < links; ++j) {
        const int64_t link = s * links + j, row = in.links[link];
        if (row < 0) continue;
        own[j * heads + h] /= total;
        const float weight = own[j * heads + h] * in.keep[link * heads + h];
        add_scaled(weight, in.rows + (row * 2 * heads + heads + h) * c, c, sum);
        add_scaled(weight, scratch + j * e, e, edge_sum);
      }
    }
  }
}

// Writes the gradients of the queries and of the time encoding of each seed, and of each score. `scratch` has room for
// the encoded links of a seed, for the sines of one link and for the slopes of its encoding.
void attend_gradient(const LastLinks& in, const float* weights, const float* slopes, const float* edge_slopes,
                     float* out_queries, float* out_edge_queries, float* out_times, float* out_scores, float* scratch,
                     int64_t begin, int64_t end) {
  const int64_t heads = in.n_heads, c = in.n_channels, links = in.n_links, n_times = in.n_times;
  const int64_t e = n_times + in.n_features;
  const float scale = attention_scale(in);
  float *edges = scratch, *sines = scratch + links * e, *slope = sines + links * n_times;
  for (int64_t s = begin; s < end; ++s) {
    for (int64_t j = 0; j < links; ++j) {
      const int64_t link = s * links + j, row = in.links[link];
      float *edge = edges + j * e, *score = out_scores + link * heads;
      memset(score, 0, static_cast<size_t>(heads) * sizeof(float));
      if (row < 0) continue;
      encode_time(in.ages[link], in.times, in.times + n_times, n_times, edge, sines + j * n_times);
      copy_floats(in.features + link * in.n_features, in.n_features, edge + n_times);
      for (int64_t h = 0; h < heads; ++h)
        score[h] = in.keep[link * heads + h] *
                   (product_of(slopes + (s * heads + h) * c, in.rows + (row * 2 * heads + heads + h) * c, c) +
                    product_of(edge_slopes + (h * in.n_seeds + s) * e, edge, e));
    }
    float *of_rate = out_times + s * 2 * n_times, *of_shift = of_rate + n_times;
    memset(of_rate, 0, static_cast<size_t>(2 * n_times) * sizeof(float));
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t query = h * in.n_seeds + s;
      float *of_query = out_queries + query * c, *of_edge_query = out_edge_queries + query * e;
      memset(of_query, 0, static_cast<size_t>(c) * sizeof(float));
      memset(of_edge_query, 0, static_cast<size_t>(e) * sizeof(float));
      float mean = 0;
      for (int64_t j = 0; j < links; ++j) {
        const int64_t at = (s * links + j) * heads + h;
        mean += weights[at] * out_scores[at];
      }
      for (int64_t j = 0; j < links; ++j) {
        const int64_t link = s * links + j, row = in.links[link];
        if (row < 0) continue;
        float* score = out_scores + link * heads + h;
        *score = scale * weights[link * heads + h] * (*score - mean);
        add_scaled(*score, in.rows + (row * 2 * heads + h) * c, c, of_query);
        add_scaled(*score, edges + j * e, e, of_edge_query);
      }
    }
    for (int64_t j = 0; j < links; ++j) {
      const int64_t link = s * links + j;
      if (in.links[link] < 0) continue;
      memset(slope, 0, static_cast<size_t>(n_times) * sizeof(float));
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t query = (h * in.n_seeds + s) * e, at = link * heads + h;
        add_scaled(out_scores[at], in.edge_queries + query, n_times, slope);
        add_scaled(weights[at] * in.keep[at], edge_slopes + query, n_times, slope);
      }
      const float* sine = sines + j * n_times;
      const float age = in.ages[link];
      for (int64_t t = 0; t < n_times; ++t) {
        const float change = -sine[t] * slope[t];
        of_rate[t] += age * change;
        of_shift[t] += change;
      }
    }
  }
}

// Writes the gradients of keys and values of rows [begin, end): the sums over the links to a row, which are
// order[starts[row]] ... order[starts[row + 1] - 1].
void attend_row_gradient(const LastLinks& in, const float* weights, const float* slopes, const float* scores,
                         const int64_t* starts, const int64_t* order, float* out_rows, int64_t begin, int64_t end) {
  const int64_t heads = in.n_heads, c = in.n_channels;
  for (int64_t row = begin; row < end; ++row) {
    float* own = out_rows + row * 2 * heads * c;
    memset(own, 0, static_cast<size_t>(2 * heads * c) * sizeof(float));
    for (int64_t i = starts[row]; i < starts[row + 1]; ++i) {
      const int64_t link = order[i], s = link / in.n_links;
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t at = link * heads + h;
        add_scaled(scores[at], in.queries + (h * in.n_seeds + s) * c, c, own + h * c);
        add_scaled(weights[at] * in.keep[at], slopes + (s * heads + h) * c, c, own + (heads + h) * c);
      }
    }
  }
}
