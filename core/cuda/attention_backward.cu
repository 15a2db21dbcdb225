// The fused backward pass. With P = softmax(s q kᵀ): dv = Pᵀ dout; dP = dout vᵀ; dS = s P ∘ (dP −
// ⟨dout, out⟩); dq = dS k; dk = dSᵀ q.
//
// A block owns 64 rows of one side and iterates over the other side's rows. The gradients of its
// own rows stay in registers. Sums over both sides need two kernels, unless one side fits into a
// single tile, as landmarks do. Then the block that owns it computes the other side's gradients
// too, and everything is read once. There are no atomics: if a loop is divided into parts, these
// are summed in order.
#include "core/cuda/attention_fused.cuh"
#include "core/cuda/attention_tiles.cuh"
#include "core/cuda/reduce.cuh"
#include "core/cuda/shared.cuh"

#include <optional>

namespace nystrom::cuda {
namespace {

constexpr float infinity = INFINITY;

enum class Side { queries, keys };

struct Gradients {
  Heads<float, true> out, dout;
  const float* log_sum_exp;  ///< [b · h, queries]
  const float* inner;        ///< ⟨dout, out⟩ of each query; null: the kernel computes it
  Heads<float, false> dq, dk, dv;
};

/// ⟨dout, out⟩ of each query, one warp a row, where several blocks need it.
__global__ void inner_kernel(Heads<float, true> out, Heads<float, true> dout, std::int64_t batch,
                             std::int64_t heads, float* inner) {
  const std::int64_t row =
      static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / warp_size) + warp_index();
  if (row >= batch * heads * out.rows) return;
  const std::int64_t b = row / out.rows / heads, h = row / out.rows % heads, r = row % out.rows;
  float sum = 0;
  for (std::int64_t c = lane_index(); c < out.width; c += warp_size)
    sum += out.numbers.get(out.at(b, h, r) + c) * dout.numbers.get(dout.at(b, h, r) + c);
  sum = warp_sum(sum);
  if (lane_index() == 0) inner[row] = sum;
}

/// Rows of the two operands of one side, and data of the queries or keys that they belong to.
template <class T>
struct Tile {
  T *first, *second;     // queries and their dout, or keys and values
  float *shift, *inner;  // of queries: log-sum-exp times log2 e, and ⟨dout, out⟩
  std::uint8_t* valid;   // of keys
};

/// The block's shared memory. It holds its own tile, and the loop's tiles of one or two stages. It
/// also holds P and dS for transposed products.
template <class T, int Width>
struct Tiles {
  T *p, *ds;
  NYSTROM_DEVICE Tiles() {
    p = dynamic_shared<T>();
    ds = p + tile_size<tile_rows>;
  }
  /// The own tile (0), or the loop's tile of a stage (1, 2).
  NYSTROM_DEVICE Tile<T> operator[](int which) const {
    auto* begin =
        reinterpret_cast<unsigned char*>(ds + tile_size<tile_rows>) + which * bytes_of_tile;
    Tile<T> tile;
    tile.first = reinterpret_cast<T*>(begin);
    tile.second = tile.first + tile_size<Width>;
    tile.shift = reinterpret_cast<float*>(tile.second + tile_size<Width>);
    tile.inner = tile.shift + tile_rows;
    tile.valid = reinterpret_cast<std::uint8_t*>(tile.inner + tile_rows);
    return tile;
  }
  static constexpr std::size_t bytes_of_tile =
      2 * tile_size<Width> * sizeof(T) + 2 * tile_rows * sizeof(float) + tile_rows;
  static std::size_t bytes(int stages) {
    return 2 * tile_size<tile_rows> * sizeof(T) +
           static_cast<std::size_t>(1 + stages) * bytes_of_tile;
  }
};

/// Adds the products of eight numbers each.
template <class T>
NYSTROM_DEVICE float dot_eight(const Mixed<float, true>& x, std::int64_t at_x,
                               const Mixed<float, true>& y, std::int64_t at_y) {
  float sum = 0;
  const auto add = [&](const auto& p, const auto& q) {
    NYSTROM_UNROLL
    for (int i = 0; i < 8; ++i) sum += load(p.value[i]) * load(q.value[i]);
  };
  const auto with = [&](const Mixed<float, true>& numbers, std::int64_t at, const auto& f) {
    numbers.dtype == DType::f32 ? f(load_pack<8>(static_cast<const float*>(numbers.data) + at))
                                : f(load_pack<8>(static_cast<const T*>(numbers.data) + at));
  };
  with(x, at_x, [&](const auto& p) { with(y, at_y, [&](const auto& q) { add(p, q); }); });
  return sum;
}

/// ⟨dout, out⟩ of 64 queries, by two threads each.
template <class T, int Width>
NYSTROM_DEVICE void compute_inner(const AttentionProblem<float>& p, const Gradients& g,
                                  std::int64_t b, std::int64_t h, std::int64_t first,
                                  float* inner) {
  const int row = static_cast<int>(threadIdx.x) / 2, half = static_cast<int>(threadIdx.x) % 2;
  float sum = 0;
  if (first + row < p.q.rows) {
    const std::int64_t at_out = g.out.at(b, h, first + row), at_dout = g.dout.at(b, h, first + row);
    NYSTROM_UNROLL_1
    for (int c = half * 8; c < Width; c += 16)
      sum += dot_eight<T>(g.out.numbers, at_out + c, g.dout.numbers, at_dout + c);
  }
  sum += __shfl_xor_sync(whole_warp, sum, 1);
  if (half == 0) inner[row] = sum;
}

template <int Width, class T>
NYSTROM_DEVICE void load_queries(const AttentionProblem<float>& p, const Gradients& g,
                                 std::int64_t b, std::int64_t h, std::int64_t first,
                                 const Tile<T>& s) {
  const auto inside = [&](std::int64_t r) { return r < p.q.rows; };
  load_tile<Width>(p.q, b, h, first, inside, s.first);
  load_tile<Width>(g.dout, b, h, first, inside, s.second);
  if (!g.inner) compute_inner<T, Width>(p, g, b, h, first, s.inner);
  if (threadIdx.x >= tile_rows) return;
  const std::int64_t row = (b * p.heads + h) * p.q.rows + first + threadIdx.x;
  const float lse = inside(first + threadIdx.x) ? g.log_sum_exp[row] : -infinity;
  // exp2(score − ∞) = 0: queries that do not exist, or have no key, have weight 0.
  s.shift[threadIdx.x] = lse == -infinity ? infinity : lse * log2_e;
  if (g.inner) s.inner[threadIdx.x] = inside(first + threadIdx.x) ? g.inner[row] : 0.0f;
}

template <int Width, class T>
NYSTROM_DEVICE void load_keys(const AttentionProblem<float>& p, const Keys<float>& keys,
                              std::int64_t b, std::int64_t h, std::int64_t first,
                              const Tile<T>& s) {
  load_tile<Width>(p.k, b, h, first, keys, s.first);
  load_tile<Width>(p.v, b, h, first, keys, s.second);
  if (threadIdx.x < tile_rows) s.valid[threadIdx.x] = keys(first + threadIdx.x);
}

/// Replaces the scores and dP of a tile by P and dS.
template <Side Own, class T>
NYSTROM_DEVICE void score_gradient(Accumulator<tile_rows>& p, Accumulator<tile_rows>& ds,
                                   const Tile<T>& queries, const Tile<T>& keys, float score_scale,
                                   float scale) {
  NYSTROM_UNROLL
  for (int n = 0; n < tile_rows / 8; ++n) {
    NYSTROM_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int own = row_of(i), other = column_of(n, i);
      const int query = Own == Side::queries ? own : other,
                key = Own == Side::queries ? other : own;
      const float weight =
          keys.valid[key] ? exp2f(p.part[n][i] * score_scale - queries.shift[query]) : 0.0f;
      p.part[n][i] = weight;
      ds.part[n][i] = scale * weight * (ds.part[n][i] - queries.inner[query]);
    }
  }
}

/// A block for each head, part of the loop and own tile; the head varies fastest. OneTile: the own
/// side has a single tile, and the loop's rows are computed too.
template <class T, int Width, Side Own, bool OneTile>
__global__ __launch_bounds__(fused_block) void backward_kernel(AttentionProblem<float> p,
                                                               Gradients g, std::int64_t splits,
                                                               int stages) {
  constexpr bool owns_keys = Own == Side::keys;
  const Tiles<T, Width> s;
  const std::int64_t heads = p.batch * p.heads, head = blockIdx.x % heads, b = head / p.heads,
                     h = head % p.heads;
  const std::int64_t split = blockIdx.x / heads % splits,
                     first_own = blockIdx.x / heads / splits * tile_rows;
  const std::int64_t loop_tiles = ((owns_keys ? p.q.rows : p.k.rows) + tile_rows - 1) / tile_rows;
  const Keys<float> keys(p, b);
  const Tile<T> mine = s[0];
  if constexpr (owns_keys) {
    load_keys<Width>(p, keys, b, h, first_own, mine);
  } else {
    load_queries<Width>(p, g, b, h, first_own, mine);
  }
  Accumulator<Width> sum1, sum2;  // dk and dv of own keys, or dq of own queries
  sum1.clear();
  sum2.clear();
  const auto load = [&](std::int64_t tile, int stage) {
    if constexpr (owns_keys) {
      load_queries<Width>(p, g, b, h, tile * tile_rows, s[1 + stage]);
    } else {
      load_keys<Width>(p, keys, b, h, tile * tile_rows, s[1 + stage]);
    }
  };
  const auto use = [&](std::int64_t tile, int stage) {
    const std::int64_t first = tile * tile_rows;
    const Tile<T> other_side = s[1 + stage];
    LeftOperand<Width> own;
    Accumulator<tile_rows> weights, ds;
    weights.clear();
    ds.clear();
    load_left<Width>(own, mine.first);
    multiply_by_rows<Width>(weights, own, other_side.first);
    load_left<Width>(own, mine.second);
    multiply_by_rows<Width>(ds, own, other_side.second);
    score_gradient<Own>(weights, ds, owns_keys ? other_side : mine, owns_keys ? mine : other_side,
                        keys.scale * log2_e, p.scale);
    LeftOperand<tile_rows> left;
    as_left<T>(left, ds);
    multiply_by_columns<Width>(sum1, left, other_side.first);
    if constexpr (owns_keys) {
      as_left<T>(left, weights);
      multiply_by_columns<Width>(sum2, left, other_side.second);
    }
    if constexpr (OneTile) {
      store_tile(ds, s.ds);
      if constexpr (!owns_keys) store_tile(weights, s.p);
      __syncthreads();
      Accumulator<Width> other;
      other.clear();
      load_left_transposed<tile_rows>(left, s.ds);
      multiply_by_columns<Width>(other, left, mine.first);
      store_rows<T>(other, owns_keys ? g.dq : g.dk, b, h, first);
      if constexpr (!owns_keys) {
        other.clear();
        load_left_transposed<tile_rows>(left, s.p);
        multiply_by_columns<Width>(other, left, mine.second);
        store_rows<T>(other, g.dv, b, h, first);
      }
    }
  };
  for_each_tile(split * loop_tiles / splits, (split + 1) * loop_tiles / splits, stages, load, use);
  // Parts are written as consecutive samples.
  store_rows<T>(sum1, owns_keys ? g.dk : g.dq, split * p.batch + b, h, first_own);
  if constexpr (owns_keys) store_rows<T>(sum2, g.dv, split * p.batch + b, h, first_own);
}

/// target = Σ over parts, in order.
__global__ void sum_parts_kernel(const float* parts, std::int64_t splits, std::int64_t batch,
                                 std::int64_t heads, Heads<float, false> target) {
  const std::int64_t count = batch * heads * target.rows * target.width;
  for (std::int64_t i = grid_index(); i < count; i += grid_size()) {
    float sum = 0;
    for (std::int64_t s = 0; s < splits; ++s) sum += parts[s * count + i];
    const std::int64_t row = i / target.width;
    target.numbers.set(
        target.at(row / target.rows / heads, row / target.rows % heads, row % target.rows) +
            i % target.width,
        sum);
  }
}

/// A gradient of the own side: the output itself, or parts that are summed after the kernel.
class Destination {
 public:
  Destination(const ViewBase& like, const AttentionProblem<float>& p, Heads<float, false>& target,
              std::int64_t splits)
      : problem_(p),
        splits_(splits),
        final_(target),
        parts_(like, splits == 1 ? 0 : splits * count()) {
    if (splits > 1)
      target = {{parts_.get(), DType::f32},
                p.heads * target.rows * target.width,
                target.rows * target.width,
                target.width,
                target.rows,
                target.width};
  }
  void finish() const {
    if (splits_ > 1)
      launch(sum_parts_kernel, dim3(blocks_for(count(), 256)), dim3(256), 0, parts_.get(), splits_,
             problem_.batch, problem_.heads, final_);
  }

 private:
  std::int64_t count() const {
    return problem_.batch * problem_.heads * final_.rows * final_.width;
  }
  const AttentionProblem<float>& problem_;
  std::int64_t splits_;
  Heads<float, false> final_;
  Workspace<float> parts_;
};

template <class T, int Width, Side Own, bool OneTile>
void backward_of(const AttentionProblem<float>& p, Gradients g, const ViewBase& like) {
  const std::int64_t heads = p.batch * p.heads;
  const std::int64_t own = divide_up(Own == Side::keys ? p.k.rows : p.q.rows, tile_rows);
  const std::int64_t splits =
      splits_of(heads * own, divide_up(Own == Side::keys ? p.q.rows : p.k.rows, tile_rows));
  const Destination first(like, p, Own == Side::keys ? g.dk : g.dq, splits);
  std::optional<Destination> second;
  if (Own == Side::keys) second.emplace(like, p, g.dv, splits);
  const int stages = stages_of(&Tiles<T, Width>::bytes);
  launch(backward_kernel<T, Width, Own, OneTile>, dim3(static_cast<unsigned>(own * splits * heads)),
         dim3(fused_block), Tiles<T, Width>::bytes(stages), p, g, splits, stages);
  first.finish();
  if (second) second->finish();
}

template <class T, int Width>
void backward(const AttentionProblem<float>& p, const Gradients& g, const ViewBase& like) {
  if (p.k.rows <= tile_rows) return backward_of<T, Width, Side::keys, true>(p, g, like);
  if (p.q.rows <= tile_rows) return backward_of<T, Width, Side::queries, true>(p, g, like);
  backward_of<T, Width, Side::keys, false>(p, g, like);
  backward_of<T, Width, Side::queries, false>(p, g, like);
}

}  // namespace

bool fused_attention_grad_fits(std::initializer_list<CView> operands) {
  if (!fused_attention_fits(operands)) return false;
  const std::int64_t width = operands.begin()->shape[3];
  const std::size_t shared = width == 32   ? Tiles<f16, 32>::bytes(1)
                             : width == 64 ? Tiles<f16, 64>::bytes(1)
                                           : Tiles<f16, 128>::bytes(1);
  return shared <= shared_memory_of_a_block();
}

void attention_fused_grad(CView q, CView k, CView v, CView key_mask, EmptyRows empty, double scale,
                          CView out, CView log_sum_exp, CView dout, View dq, View dk, View dv) {
  const AnyKey any(q, key_mask, empty);
  const auto problem = problem_of<float>(q, k, v, key_mask, any, scale);
  // One tile on either side: each query is loaded once.
  const bool once = q.shape[2] <= tile_rows || k.shape[2] <= tile_rows;
  const std::int64_t rows = q.shape[0] * q.shape[1] * q.shape[2];
  const Workspace<float> inner(dq, once ? 0 : rows);
  if (!once)
    launch(inner_kernel, dim3(static_cast<unsigned>(divide_up(rows, 4))), dim3(4 * warp_size), 0,
           heads_of<float>(out), heads_of<float>(dout), q.shape[0], q.shape[1], inner.get());
  const Gradients gradients{heads_of<float>(out),    heads_of<float>(dout),
                            log_sum_exp.as<float>(), once ? nullptr : inner.get(),
                            heads_of<float>(dq),     heads_of<float>(dk),
                            heads_of<float>(dv)};
  const auto run = [&]<class T>(TypeTag<T>) {
    switch (q.shape[3]) {
      case 32: return backward<T, 32>(problem, gradients, dq);
      case 64: return backward<T, 64>(problem, gradients, dq);
      default: return backward<T, 128>(problem, gradients, dq);
    }
  };
  half_of({q, k, v, out, dout, dq, dk, dv}) == DType::f16 ? run(TypeTag<f16>{})
                                                          : run(TypeTag<bf16>{});
}

}  // namespace nystrom::cuda
