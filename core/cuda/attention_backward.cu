// The fused backward pass. With P = softmax(s q kᵀ): dv = Pᵀ dout; dP = dout vᵀ; dS = s P ∘ (dP −
// ⟨dout, out⟩); dq = dS k; dk = dSᵀ q.
//
// A block owns 64 rows of one side and iterates over the other side's rows. The gradients of its
// own rows stay in registers. Sums over both sides need two kernels, unless one side fits into a
// single tile, as landmarks do. Then the block that owns it computes the other side's gradients
// too, and everything is read once. If it owns the queries, it may add the gradient of a
// convolution of the values, and sum that of the taps. There are no atomics: if a loop is divided
// into parts, these are summed in order.
#include "core/cuda/attention_backward_tiles.cuh"
#include "core/cuda/attention_fused.cuh"
#include "core/cuda/reduce.cuh"

#include <optional>

namespace nystrom::cuda {
namespace {

static_assert(few_keys <= tile_rows);

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

/// The gradients of the convolution for a tile of keys: that of the values, and of the taps.
template <int Width, class T>
NYSTROM_DEVICE void convolve_back(const Tiles<T, Width>& s, const Tile<T>& keys,
                                  const Convolution& conv, std::int64_t b, std::int64_t first,
                                  Accumulator<Width>& dv) {
  const bool seen[2] = {conv.sees(b, first + row_of(0)), conv.sees(b, first + row_of(2))};
  multiply_by_band(dv, s.band(), spans_of(conv.taps), keys.dy);
  LeftOperand<Width> values;
  load_left<Width>(values, keys.second);
  NYSTROM_UNROLL
  for (int i = 0; i < 4; ++i) {
    NYSTROM_UNROLL
    for (int n = 0; n < Width / 8; ++n)
      if (!seen[i / 2]) dv.part[n][i] = 0;
    NYSTROM_UNROLL
    for (int k = 0; k < Width / 16; ++k)
      if (!seen[i % 2]) values.part[k][i] = 0;
  }
  s.tap_sums().add(values, keys.dy);
}

/// The gradients of the other side's rows, first + …, if the own side has one tile.
template <Side Own, int Width, class T>
NYSTROM_DEVICE void store_other_side(const Tiles<T, Width>& s, const Tile<T>& mine,
                                     const Tile<T>& other, const Accumulator<tile_rows>& weights,
                                     const Accumulator<tile_rows>& ds, const Gradients& g,
                                     std::int64_t b, std::int64_t h, std::int64_t first) {
  store_tile(ds, s.ds);
  if constexpr (Own == Side::queries) store_tile(weights, s.p);
  __syncthreads();
  LeftOperand<tile_rows> left;
  Accumulator<Width> sum;
  sum.clear();
  load_left_transposed<tile_rows>(left, s.ds);
  multiply_by_columns<Width>(sum, left, mine.first);
  store_rows<T>(sum, Own == Side::keys ? g.dq : g.dk, b, h, first);
  if constexpr (Own == Side::queries) {
    sum.clear();
    if (g.conv.taps > 0) convolve_back(s, other, g.conv, b, first, sum);
    load_left_transposed<tile_rows>(left, s.p);
    multiply_by_columns<Width>(sum, left, mine.second);
    store_rows<T>(sum, g.dv, b, h, first);
  }
}

/// A block for each head, part of the loop and own tile; the head varies fastest. OneTile: the own
/// side has a single tile, and the loop's rows are computed too. The convolution's gradient has the
/// taps in reverse order.
template <class T, int Width, Side Own, bool OneTile>
__global__ __launch_bounds__(fused_block) void backward_kernel(AttentionProblem<float> p,
                                                               Gradients g, std::int64_t splits,
                                                               int stages) {
  constexpr bool owns_keys = Own == Side::keys, convolves = !owns_keys && OneTile;
  const Tiles<T, Width> s(stages, convolves ? g.conv.taps : 0);
  const std::int64_t heads = p.batch * p.heads, head = blockIdx.x % heads, b = head / p.heads,
                     h = head % p.heads;
  const std::int64_t split = blockIdx.x / heads % splits,
                     first_own = blockIdx.x / heads / splits * tile_rows;
  const std::int64_t loop_tiles = ((owns_keys ? p.q.rows : p.k.rows) + tile_rows - 1) / tile_rows;
  const Keys<float> keys(p, b);
  const Tile<T> mine = s[0];
  if constexpr (owns_keys) {
    load_keys<Width, convolves>(p, g, keys, b, h, first_own, mine);
  } else {
    load_queries<Width, Own, OneTile>(p, g, b, h, first_own, mine);
  }
  if (convolves && g.conv.taps > 0) {
    fill_band(static_cast<const T*>(g.conv.w) + h * g.conv.taps, g.conv.taps, true, s.band());
    s.tap_sums().clear();
  }
  Accumulator<Width> sum1, sum2;  // dk and dv of own keys, or dq of own queries
  sum1.clear();
  sum2.clear();
  const auto load = [&](int tile, int stage) {
    if constexpr (owns_keys) {
      load_queries<Width, Own, OneTile>(p, g, b, h, std::int64_t{tile} * tile_rows, s[1 + stage]);
    } else {
      load_keys<Width, convolves>(p, g, keys, b, h, std::int64_t{tile} * tile_rows, s[1 + stage]);
    }
  };
  const auto use = [&](int tile, int stage) {
    const Tile<T> other = s[1 + stage];
    Accumulator<tile_rows> weights, ds;
    weights_of<Own, Width>(mine, other, keys.scale * log2_e, weights, ds);
    score_gradient<Own, OneTile>(s, Own == Side::queries ? mine : other, p.scale, weights, ds);
    LeftOperand<tile_rows> left;
    as_left<T>(left, ds);
    multiply_by_columns<Width>(sum1, left, other.first);
    if constexpr (owns_keys) {
      as_left<T>(left, weights);
      multiply_by_columns<Width>(sum2, left, other.second);
    }
    if constexpr (OneTile)
      store_other_side<Own>(s, mine, other, weights, ds, g, b, h, std::int64_t{tile} * tile_rows);
  };
  for_each_tile(static_cast<int>(split * loop_tiles / splits),
                static_cast<int>((split + 1) * loop_tiles / splits), stages, load, use);
  // Parts are written as consecutive samples.
  store_rows<T>(sum1, owns_keys ? g.dk : g.dq, split * p.batch + b, h, first_own);
  if constexpr (owns_keys) store_rows<T>(sum2, g.dv, split * p.batch + b, h, first_own);
  if constexpr (convolves) {
    float* const of_block = g.tap_parts + (split * heads + head) * g.conv.taps;
    for (int j = static_cast<int>(threadIdx.x); j < g.conv.taps; j += fused_block)
      of_block[g.conv.taps - 1 - j] = s.tap_sums().total(j);
  }
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
void backward_of(const AttentionProblem<float>& p, Gradients g, const View& dw,
                 const ViewBase& like) {
  const std::int64_t heads = p.batch * p.heads;
  const std::int64_t own = divide_up(Own == Side::keys ? p.k.rows : p.q.rows, tile_rows),
                     other = divide_up(Own == Side::keys ? p.q.rows : p.k.rows, tile_rows);
  const std::int64_t splits = splits_of(heads * own, other);
  const Destination first(like, p, Own == Side::keys ? g.dk : g.dq, splits);
  std::optional<Destination> second;
  if (Own == Side::keys) second.emplace(like, p, g.dv, splits);
  const Workspace<float> tap_parts(like, splits * heads * g.conv.taps);
  g.tap_parts = tap_parts.get();
  const auto bytes = [&](int stages) { return bytes_of_backward(Width, stages, g.conv.taps); };
  const int stages = stages_of(divide_up(other, splits), bytes);
  launch(backward_kernel<T, Width, Own, OneTile>, dim3(static_cast<unsigned>(own * splits * heads)),
         dim3(fused_block), bytes(stages), p, g, splits, stages);
  first.finish();
  if (second) second->finish();
  if (g.conv.taps > 0)
    sum_pieces(tap_parts.get(), 1, splits * p.batch, p.heads * g.conv.taps, true, dw.as<float>());
}

template <class T, int Width>
void backward(const AttentionProblem<float>& p, const Gradients& g, const View& dw,
              const ViewBase& like) {
  if (p.k.rows <= tile_rows && g.conv.taps == 0)
    return backward_of<T, Width, Side::keys, true>(p, g, dw, like);
  if (p.q.rows <= tile_rows) return backward_of<T, Width, Side::queries, true>(p, g, dw, like);
  backward_of<T, Width, Side::keys, false>(p, g, dw, like);
  backward_of<T, Width, Side::queries, false>(p, g, dw, like);
}

}  // namespace

bool fused_attention_grad_fits(std::initializer_list<CView> operands) {
  return fused_attention_fits(operands) &&
         bytes_of_backward(operands.begin()->shape[3], 1, 0) <= shared_memory_of_a_block();
}

bool fused_attention_grad_with_conv_fits(std::initializer_list<CView> operands, CView w, CView dy) {
  const CView& q = *operands.begin();
  return fused_attention_grad_fits(operands) && fused_attention_fits({q, dy}) &&
         is_half(dy.dtype) && w.dtype == dy.dtype && half_of(operands) == dy.dtype &&
         q.shape[2] <= tile_rows &&
         bytes_of_backward(q.shape[3], 1, w.shape[1]) <= shared_memory_of_a_block();
}

void attention_fused_grad(CView q, CView k, CView v, CView key_mask, EmptyRows empty, double scale,
                          CView out, CView log_sum_exp, CView dout, CView w, CView conv_mask,
                          CView dy, View dq, View dk, View dv, View dw) {
  const AnyKey any(q, key_mask, empty);
  const auto problem = problem_of<float>(q, k, v, key_mask, any, scale);
  // One tile on either side: each query is loaded once.
  const bool once = q.shape[2] <= tile_rows || k.shape[2] <= tile_rows;
  const std::int64_t rows = q.shape[0] * q.shape[1] * q.shape[2];
  const Workspace<float> inner(dq, once ? 0 : rows);
  if (!once)
    launch(inner_kernel, dim3(static_cast<unsigned>(divide_up(rows, 4))), dim3(4 * warp_size), 0,
           heads_of<float>(out), heads_of<float>(dout), q.shape[0], q.shape[1], inner.get());
  const Gradients gradients{heads_of<float>(out),
                            heads_of<float>(dout),
                            log_sum_exp.as<float>(),
                            inner.get(),
                            heads_of<float>(dq),
                            heads_of<float>(dk),
                            heads_of<float>(dv),
                            convolution_of(dy, w, conv_mask),
                            nullptr};
  const auto run = [&]<class T>(TypeTag<T>) {
    switch (q.shape[3]) {
      case 32: return backward<T, 32>(problem, gradients, dw, dq);
      case 64: return backward<T, 64>(problem, gradients, dw, dq);
      default: return backward<T, 128>(problem, gradients, dw, dq);
    }
  };
  half_of({q, k, v, out, dout, dq, dk, dv}) == DType::f16 ? run(TypeTag<f16>{})
                                                          : run(TypeTag<bf16>{});
}

}  // namespace nystrom::cuda
