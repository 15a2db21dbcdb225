// Layer normalisation (Ba et al., arXiv 1607.06450) of one input or of a residual sum: one warp a
// row, with statistics in the accumulate type. Rows of up to 1024 numbers stay in registers between
// the passes.
#include <cmath>

#include "core/cuda/rows/dropout_mask.cuh"
#include "core/cuda/rows/reduce.cuh"
#include "core/cuda/shared.cuh"
#include "core/kernels.h"

namespace nystrom::kernels::cuda {
namespace {

using namespace nystrom::cuda;

constexpr int block = 256;
constexpr int warps = block / warp_size;
// Two blocks of the backward pass on a multiprocessor have room for 170 registers a thread.
constexpr int grad_block = 192;
constexpr int grad_warps = grad_block / warp_size;
template <class T, int Packs>
constexpr int forward_blocks = sizeof(T) == 2 && Packs < 4 ? 4 : 1;
template <class T, int Packs>
constexpr int grad_blocks = sizeof(T) == 2 && Packs < 4 ? 2 : 1;

/// A row in a warp's registers: Packs times V neighbours a lane. Rows may be shorter.
template <class T, int V, int Packs>
struct Row {
  using A = accumulate_t<T>;
  A value[Packs][V] = {};  // zeros after the end

  /// Calls f(numbers, the first one's column) for each pack that this lane holds.
  template <class F>
  NYSTROM_DEVICE void each_pack(std::int64_t n, const F& f) {
    NYSTROM_UNROLL
    for (int p = 0; p < Packs; ++p) {
      const std::int64_t first = (p * warp_size + lane_index()) * V;
      if (first < n) f(value[p], first);
    }
  }
  /// Calls f(number) for each number that this lane holds.
  template <class F>
  NYSTROM_DEVICE void each(std::int64_t n, const F& f) {
    each_pack(n, [&](A(&numbers)[V], std::int64_t) {
      NYSTROM_UNROLL
      for (int i = 0; i < V; ++i) f(numbers[i]);
    });
  }
  NYSTROM_DEVICE void load_from(const T* row, std::int64_t n) {
    each_pack(n, [&](A(&numbers)[V], std::int64_t first) {
      const auto pack = load_pack<V>(row + first);
      NYSTROM_UNROLL
      for (int i = 0; i < V; ++i) numbers[i] = load(pack.value[i]);
    });
  }
  NYSTROM_DEVICE void store_to(T* row, std::int64_t n) {
    each_pack(n, [&](A(&numbers)[V], std::int64_t first) {
      Pack<T, V> pack;
      NYSTROM_UNROLL
      for (int i = 0; i < V; ++i) pack.value[i] = convert<T>(numbers[i]);
      store_pack(row + first, pack);
    });
  }
};

/// The dropout of rows; none without samples.
template <class A>
struct RowMask {
  SampleRows samples;
  DropoutMask<A> mask;
  std::int64_t rows_per_sample;

  /// The factor of element `column` of row r, which has n elements. `words` caches the Philox words
  /// of four neighbouring elements.
  NYSTROM_DEVICE A operator()(std::int64_t r, std::int64_t n, std::int64_t column,
                              std::int64_t& quad, PhiloxBlock& words) const {
    const std::int64_t b = r / rows_per_sample;
    const std::int64_t element = (samples.first_row(b) + r % rows_per_sample) * n + column;
    if (element / 4 != quad) {
      quad = element / 4;
      words = mask.words(samples.sample(b), quad);
    }
    // Selected by conditions: an index would place the words in memory.
    const std::uint32_t low = element & 1 ? words.word[1] : words.word[0],
                        high = element & 1 ? words.word[3] : words.word[2];
    return mask.factor(element & 2 ? high : low);
  }
  /// Multiplies V neighbours of row r, from `column` on, by their factors.
  template <int V>
  NYSTROM_DEVICE void apply(A (&value)[V], std::int64_t r, std::int64_t n,
                            std::int64_t column) const {
    const auto drop = [&](A& number, A factor) { number = factor == 0 ? A(0) : factor * number; };
    std::int64_t quad = -1;
    PhiloxBlock words{};
    if constexpr (V % 4 == 0) {  // packs are whole Philox blocks
      const std::int64_t b = r / rows_per_sample, sample = samples.sample(b);
      const std::int64_t base = (samples.first_row(b) + r - b * rows_per_sample) * n;
      NYSTROM_UNROLL
      for (int i = 0; i < V; ++i) {
        if (i % 4 == 0) words = mask.words(sample, (base + column + i) / 4);
        drop(value[i], mask.factor(words.word[i % 4]));
      }
    } else {
      NYSTROM_UNROLL
      for (int i = 0; i < V; ++i) drop(value[i], (*this)(r, n, column + i, quad, words));
    }
  }
};

/// The mean of a row and 1 / its standard deviation. The second pass finds the rounding of the
/// first mean too, which large numbers with small differences would show.
template <class A>
struct Moments {
  std::int64_t n;
  A rough;

  /// `total`: this lane's sum.
  NYSTROM_DEVICE Moments(A total, std::int64_t count)
      : n(count), rough(warp_sum(total) / static_cast<A>(count)) {}
  NYSTROM_DEVICE void add(A value, A& rest, A& squares) const {
    rest += value - rough;
    squares += (value - rough) * (value - rough);
  }
  struct Result {
    A mean, rstd;
  };
  NYSTROM_DEVICE Result mean_and_rstd(A rest, A squares, A epsilon) const {
    const A shift = warp_sum(rest) / static_cast<A>(n);
    const A variance = warp_sum(squares) / static_cast<A>(n) - shift * shift;
    const A rstd = 1 / sqrt((variance < 0 ? A(0) : variance) + epsilon);
    return {rough + shift, rstd};
  }
};

template <class T>
struct Forward {
  using A = accumulate_t<T>;
  const T *x, *residual, *gamma, *beta;  ///< residual null: the norm of x alone
  A epsilon;
  std::int64_t rows, n;
  RowMask<A> mask;
  T *sum, *y;
  A *mean, *rstd;
};

template <class T, int V, int Packs>
__global__ void __launch_bounds__(block, forward_blocks<T, Packs>) forward_kernel(Forward<T> f) {
  using A = accumulate_t<T>;
  const std::int64_t r = static_cast<std::int64_t>(blockIdx.x) * warps + warp_index(), n = f.n;
  if (r >= f.rows) return;
  Row<T, V, Packs> row;
  row.load_from(f.x + r * n, n);
  if (f.residual) {
    if (f.mask.samples.ids)
      row.each_pack(
          n, [&](A(&numbers)[V], std::int64_t column) { f.mask.apply(numbers, r, n, column); });
    Row<T, V, Packs> residual;
    residual.load_from(f.residual + r * n, n);
    // The sum is rounded here, so that the backward pass uses the numbers that were normalised.
    NYSTROM_UNROLL
    for (int p = 0; p < Packs; ++p) {
      NYSTROM_UNROLL
      for (int i = 0; i < V; ++i)
        row.value[p][i] = load(convert<T>(row.value[p][i] + residual.value[p][i]));
    }
    row.store_to(f.sum + r * n, n);
  }
  A total = 0;
  row.each(n, [&](A& value) { total += value; });
  const Moments<A> moments(total, n);
  A rest = 0, squares = 0;
  row.each(n, [&](A& value) { moments.add(value, rest, squares); });
  const auto found = moments.mean_and_rstd(rest, squares, f.epsilon);
  const A m = found.mean, s = found.rstd;
  row.each_pack(n, [&](A(&numbers)[V], std::int64_t first) {
    const auto gamma = load_pack<V>(f.gamma + first), beta = load_pack<V>(f.beta + first);
    NYSTROM_UNROLL
    for (int i = 0; i < V; ++i)
      numbers[i] = (numbers[i] - m) * s * load(gamma.value[i]) + load(beta.value[i]);
  });
  row.store_to(f.y + r * n, n);
  if (lane_index() == 0) {
    f.mean[r] = m;
    f.rstd[r] = s;
  }
}

/// The kernel for rows of any length, which are read from memory in every pass.
template <class T>
__global__ void long_forward_kernel(Forward<T> f) {
  using A = accumulate_t<T>;
  const std::int64_t r = static_cast<std::int64_t>(blockIdx.x) * warps + warp_index(), n = f.n;
  if (r >= f.rows) return;
  const T* row = f.x + r * n;
  if (f.residual) {
    std::int64_t quad = -1;
    PhiloxBlock words{};
    for (std::int64_t i = lane_index(); i < n; i += warp_size) {
      const A factor = f.mask.samples.ids ? f.mask(r, n, i, quad, words) : A(1);
      f.sum[r * n + i] =
          convert<T>(load(f.residual[r * n + i]) + (factor == 0 ? A(0) : factor * load(row[i])));
    }
    row = f.sum + r * n;  // each lane reads what it wrote itself
  }
  A total = 0;
  for (std::int64_t i = lane_index(); i < n; i += warp_size) total += load(row[i]);
  const Moments<A> moments(total, n);
  A rest = 0, squares = 0;
  for (std::int64_t i = lane_index(); i < n; i += warp_size)
    moments.add(load(row[i]), rest, squares);
  const auto found = moments.mean_and_rstd(rest, squares, f.epsilon);
  const A m = found.mean, s = found.rstd;
  for (std::int64_t i = lane_index(); i < n; i += warp_size)
    f.y[r * n + i] = convert<T>((load(row[i]) - m) * s * load(f.gamma[i]) + load(f.beta[i]));
  if (lane_index() == 0) {
    f.mean[r] = m;
    f.rstd[r] = s;
  }
}

template <class T>
struct Backward {
  using A = accumulate_t<T>;
  const T *x, *gamma, *dy;
  const A *mean, *rstd;
  std::int64_t rows, n;
  RowMask<A> mask;
  T *dsum, *dx;  ///< dx null: no dropout
  A* partial;    ///< [pieces, 3 n]: sums of dgamma = dy ∘ x̂, of dbeta = dy, and of dx or dsum
};

// With x̂ = (x − mean) · rstd and g = dy ∘ gamma: dx = rstd (g − mean(g) − x̂ mean(g ∘ x̂)).
//
/// partial[piece, which, column] = the sum of the warps' sums.
template <class T, int V, int Packs>
NYSTROM_DEVICE void add_warps(const accumulate_t<T> (&sum)[Packs][V], int which,
                              const Backward<T>& f) {
  using A = accumulate_t<T>;
  A* sums = dynamic_shared<A>();  // [grad_warps, n]
  const std::int64_t n = f.n;
  __syncthreads();  // all threads have read the last sums
  NYSTROM_UNROLL
  for (int p = 0; p < Packs; ++p) {
    const std::int64_t column = (p * warp_size + lane_index()) * V;
    if (column >= n) continue;
    NYSTROM_UNROLL
    for (int i = 0; i < V; ++i) sums[warp_index() * n + column + i] = sum[p][i];
  }
  __syncthreads();
  for (std::int64_t c = threadIdx.x; c < n; c += grad_block) {
    A total = 0;
    for (int w = 0; w < grad_warps; ++w) total += sums[w * n + c];
    f.partial[(blockIdx.x * 3 + which) * n + c] = total;
  }
}

/// The values of a row that the backward pass reads.
template <class T, int V, int Packs>
struct GradRow {
  Pack<T, V> x[Packs], dy[Packs];
  accumulate_t<T> mean, rstd;
};

/// A block processes a piece of rows_per_piece rows. Each warp sums dgamma, dbeta and dx over its
/// rows in registers; the block adds the warps' sums. A row stays in registers as it was read, and
/// the next one of 16-bit numbers arrives meanwhile.
template <class T, int V, int Packs>
__global__ void __launch_bounds__(grad_block, grad_blocks<T, Packs>)
    backward_kernel(Backward<T> f) {
  using A = accumulate_t<T>;
  constexpr bool ahead = sizeof(T) == 2;
  const auto n = static_cast<int>(f.n);
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * rows_per_piece,
                     last = first + rows_per_piece < f.rows ? first + rows_per_piece : f.rows;
  A sum_gamma[Packs][V] = {}, sum_beta[Packs][V] = {}, sum_dx[Packs][V] = {};
  const auto each_pack = [&](const auto& use) {
    NYSTROM_UNROLL
    for (int p = 0; p < Packs; ++p) {
      const int column = (p * warp_size + lane_index()) * V;
      if (column < n) use(p, column);
    }
  };
  GradRow<T, V, Packs> row, next;
  const auto read = [&](std::int64_t r, GradRow<T, V, Packs>& into) {
    if (r >= last) return;
    each_pack([&](int p, int column) {
      into.x[p] = load_pack<V>(f.x + r * n + column);
      into.dy[p] = load_pack<V>(f.dy + r * n + column);
    });
    into.mean = f.mean[r];
    into.rstd = f.rstd[r];
  };
  if (ahead) read(first + warp_index(), next);
  for (std::int64_t r = first + warp_index(); r < last; r += grad_warps) {
    if (ahead) {
      row = next;
      read(r + grad_warps, next);
    } else {
      read(r, row);
    }
    const A m = row.mean, s = row.rstd;
    A mean_g = 0, mean_gx = 0;
    each_pack([&](int p, int column) {
      const auto gamma = load_pack<V>(f.gamma + column);
      NYSTROM_UNROLL
      for (int i = 0; i < V; ++i) {
        const A x = (load(row.x[p].value[i]) - m) * s, d = load(row.dy[p].value[i]);
        sum_gamma[p][i] += d * x;
        sum_beta[p][i] += d;
        mean_g += d * load(gamma.value[i]);
        mean_gx += d * load(gamma.value[i]) * x;
      }
    });
    mean_g = warp_sum(mean_g) / static_cast<A>(n);
    mean_gx = warp_sum(mean_gx) / static_cast<A>(n);
    each_pack([&](int p, int column) {
      const auto gamma = load_pack<V>(f.gamma + column);
      A grad[V];
      Pack<T, V> rounded;
      const auto store = [&](T* target) {
        NYSTROM_UNROLL
        for (int i = 0; i < V; ++i) rounded.value[i] = convert<T>(grad[i]);
        store_pack(target + r * n + column, rounded);
      };
      NYSTROM_UNROLL
      for (int i = 0; i < V; ++i) {
        const A x = (load(row.x[p].value[i]) - m) * s, d = load(row.dy[p].value[i]);
        grad[i] = s * (d * load(gamma.value[i]) - mean_g - x * mean_gx);
      }
      store(f.dsum);
      if (f.dx) {
        f.mask.apply(grad, r, n, column);
        store(f.dx);
      }
      NYSTROM_UNROLL
      for (int i = 0; i < V; ++i) sum_dx[p][i] += load(rounded.value[i]);
    });
  }
  add_warps(sum_gamma, 0, f);
  add_warps(sum_beta, 1, f);
  add_warps(sum_dx, 2, f);
}

template <class T>
__global__ void long_input_grad_kernel(Backward<T> f) {
  using A = accumulate_t<T>;
  const std::int64_t r = static_cast<std::int64_t>(blockIdx.x) * warps + warp_index(), n = f.n;
  if (r >= f.rows) return;
  const T *row = f.x + r * n, *grad = f.dy + r * n;
  const A m = f.mean[r], s = f.rstd[r];
  A mean_g = 0, mean_gx = 0;
  for (std::int64_t i = lane_index(); i < n; i += warp_size) {
    const A g = load(grad[i]) * load(f.gamma[i]);
    mean_g += g;
    mean_gx += g * (load(row[i]) - m) * s;
  }
  mean_g = warp_sum(mean_g) / static_cast<A>(n);
  mean_gx = warp_sum(mean_gx) / static_cast<A>(n);
  std::int64_t quad = -1;
  PhiloxBlock words{};
  for (std::int64_t i = lane_index(); i < n; i += warp_size) {
    const A d = s * (load(grad[i]) * load(f.gamma[i]) - mean_g - (load(row[i]) - m) * s * mean_gx);
    f.dsum[r * n + i] = convert<T>(d);
    if (!f.dx) continue;
    const A factor = f.mask(r, n, i, quad, words);
    f.dx[r * n + i] = convert<T>(factor == 0 ? A(0) : factor * d);
  }
}

/// Partial sums of dgamma, dbeta and dx for rows of any length, a thread a column.
template <class T>
__global__ void long_parameter_grad_kernel(Backward<T> f) {
  using A = accumulate_t<T>;
  const std::int64_t n = f.n, column = static_cast<std::int64_t>(blockIdx.x) * block + threadIdx.x;
  if (column >= n) return;
  const std::int64_t first = blockIdx.y * rows_per_piece,
                     last = first + rows_per_piece < f.rows ? first + rows_per_piece : f.rows;
  A sum_gamma = 0, sum_beta = 0, sum_dx = 0;
  for (std::int64_t r = first; r < last; ++r) {
    const A d = load(f.dy[r * n + column]);
    sum_gamma += d * (load(f.x[r * n + column]) - f.mean[r]) * f.rstd[r];
    sum_beta += d;
    sum_dx += load((f.dx ? f.dx : f.dsum)[r * n + column]);
  }
  A* partial = f.partial + blockIdx.y * 3 * n + column;
  partial[0] = sum_gamma;
  partial[n] = sum_beta;
  partial[2 * n] = sum_dx;
}

/// Calls f(Packs as a constant) for rows that fit into registers. Returns false for others.
template <int V, class F>
bool with_packs(std::int64_t n, std::initializer_list<const void*> pointers, const F& f) {
  // Shared memory of every GPU since 7.5, for the backward pass.
  constexpr std::int64_t max_shared = 64 << 10;
  constexpr std::int64_t bytes_of_sum = V == 2 ? 8 : 4;
  if (!are_aligned(pointers) || n % V != 0 || bytes_of_sum * warps * n > max_shared) return false;
  const std::int64_t packs = divide_up(n, V * warp_size);
  if (packs > 32 / V) return false;  // 32 numbers a lane
  if (packs == 1) return f(std::integral_constant<int, 1>{}), true;
  if (packs <= 32 / V / 2) return f(std::integral_constant<int, 32 / V / 2>{}), true;
  if (packs == 3 && V == 8) return f(std::integral_constant<int, 3>{}), true;
  return f(std::integral_constant<int, 32 / V>{}), true;
}

/// The number of values of T in 16 bytes.
template <class T>
inline constexpr int pack_size = 16 / static_cast<int>(sizeof(T));

template <class T>
void forward(const Forward<T>& f) {
  const dim3 grid(static_cast<unsigned>(divide_up(f.rows, warps)));
  const bool held = with_packs<pack_size<T>>(
      f.n, {f.x, f.residual, f.sum, f.y, f.gamma, f.beta}, [&](auto packs) {
        launch(forward_kernel<T, pack_size<T>, packs()>, grid, dim3(block), 0, f);
      });
  if (!held) launch(long_forward_kernel<T>, grid, dim3(block), 0, f);
}

/// dx_sums may be null.
template <class T>
void backward(Backward<T> f, const ViewBase& like, accumulate_t<T>* dgamma, accumulate_t<T>* dbeta,
              accumulate_t<T>* dx_sums) {
  using A = accumulate_t<T>;
  const std::int64_t pieces = divide_up(f.rows, rows_per_piece), n = f.n;
  const Workspace<A> partial(like, pieces * 3 * n);
  f.partial = partial.get();
  const bool held =
      with_packs<pack_size<T>>(n, {f.x, f.dy, f.dsum, f.dx, f.gamma}, [&](auto packs) {
        launch(backward_kernel<T, pack_size<T>, packs()>, dim3(static_cast<unsigned>(pieces)),
               dim3(grad_block), sizeof(A) * static_cast<std::size_t>(grad_warps * n), f);
      });
  if (!held) {
    launch(long_input_grad_kernel<T>, dim3(static_cast<unsigned>(divide_up(f.rows, warps))),
           dim3(block), 0, f);
    launch(long_parameter_grad_kernel<T>,
           dim3(static_cast<unsigned>(divide_up(n, block)), static_cast<unsigned>(pieces)),
           dim3(block), 0, f);
  }
  sum_pieces<A>(partial.get(), pieces, n, dx_sums ? 3 : 2, 3,
                {{dgamma, dbeta, dx_sums}, {true, true, false}});
}

std::int64_t rows_of(const CView& x, const CView& gamma) { return x.numel() / gamma.shape[0]; }

SampleRows samples_of(const CView& ids) { return {ids.as<std::int64_t>(), ids.rank == 2}; }

}  // namespace

void layer_norm(CView x, CView residual, CView sample_ids, DropoutKey key, double p, CView gamma,
                CView beta, double epsilon, View sum, View y, View mean, View rstd) {
  if (x.numel() == 0) return;
  visit_any_float(x.dtype, [&]<class T>(TypeTag<T>) {
    using A = accumulate_t<T>;
    forward<T>({x.as<T>(),
                residual.as<T>(),
                gamma.as<T>(),
                beta.as<T>(),
                static_cast<A>(epsilon),
                rows_of(x, gamma),
                gamma.shape[0],
                {samples_of(sample_ids), {key, p}, rows_of(x, gamma) / x.shape[0]},
                sum.as<T>(),
                y.as<T>(),
                mean.as<A>(),
                rstd.as<A>()});
  });
}

void layer_norm_grad(CView sum, CView sample_ids, DropoutKey key, double p, CView gamma, CView mean,
                     CView rstd, CView dy, View dsum, View dx, View dgamma, View dbeta,
                     View dx_sums) {
  if (sum.numel() == 0) {
    if (dx_sums) fill(dx_sums, 0);
    return;
  }
  visit_any_float(sum.dtype, [&]<class T>(TypeTag<T>) {
    using A = accumulate_t<T>;
    backward<T>({sum.as<T>(),
                 gamma.as<T>(),
                 dy.as<T>(),
                 mean.as<A>(),
                 rstd.as<A>(),
                 rows_of(sum, gamma),
                 gamma.shape[0],
                 {samples_of(sample_ids), {key, p}, rows_of(sum, gamma) / sum.shape[0]},
                 dsum.as<T>(),
                 dx.as<T>(),
                 nullptr},
                dsum, dgamma.as<A>(), dbeta.as<A>(), dx_sums.as<A>());
  });
}

}  // namespace nystrom::kernels::cuda
