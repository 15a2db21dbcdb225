// The fused forward pass. A block holds 64 queries of one head and iterates over the keys. If few
// queries would leave the GPU idle, it takes a part of the keys, and the parts are merged in order.
// Of few keys it holds all, and iterates over the queries. Within a reach it skips what is outside.
#include <algorithm>

#include "core/cuda/attention/attention_forms.h"
#include "core/cuda/attention/conv_band.cuh"
#include "core/cuda/shared.cuh"

namespace nystrom::cuda {
namespace {

constexpr float infinity = INFINITY;

/// The results: out, and the log-sum-exp of each query.
struct Results {
  Heads<float, false> out;
  PerQuery<float> log_sum_exp;
};

/// The state of the online softmax, for the two rows that a lane holds.
struct Online {
  float largest[2] = {-infinity, -infinity};  // of scores times log2 e
  float sum[2] = {0, 0};                      // over this lane's columns
};

/// Replaces scores by exponentials, updates the running maxima and sums, and rescales earlier sums.
/// sees(query's row, key's row) says which keys of the tile count besides.
template <int Width, class Sees>
NYSTROM_DEVICE void online_softmax(Accumulator<tile_rows>& scores, const std::uint8_t* valid,
                                   const Sees& sees, float scale, Online& state,
                                   Accumulator<Width>& sum_v) {
  float block_max[2] = {-infinity, -infinity};
  NYSTROM_UNROLL
  for (int n = 0; n < tile_rows / 8; ++n) {
    const auto kept = load_pack<2>(valid + column_of(n, 0));
    NYSTROM_UNROLL
    for (int i = 0; i < 4; ++i) {
      float& score = scores.part[n][i];
      const bool counts = kept.value[i % 2] && sees(row_of(i), column_of(n, i));
      score = counts ? score * scale : -infinity;
      block_max[i / 2] = larger(block_max[i / 2], score);
    }
  }
  float shrink[2], shift[2];
  NYSTROM_UNROLL
  for (int r = 0; r < 2; ++r) {
    const float updated = larger(state.largest[r], row_max(block_max[r]));
    shift[r] = updated == -infinity
                   ? 0.0f
                   : updated;  // in a row without a key so far, every exponential is 0
    shrink[r] = approximate_exp2(state.largest[r] - shift[r]);
    state.largest[r] = updated;
    state.sum[r] *= shrink[r];
  }
  NYSTROM_UNROLL
  for (int n = 0; n < tile_rows / 8; ++n) {
    NYSTROM_UNROLL
    for (int i = 0; i < 4; ++i) {
      scores.part[n][i] = approximate_exp2(scores.part[n][i] - shift[i / 2]);
      state.sum[i / 2] += scores.part[n][i];
    }
  }
  NYSTROM_UNROLL
  for (int n = 0; n < Width / 8; ++n) {
    NYSTROM_UNROLL
    for (int i = 0; i < 4; ++i) sum_v.part[n][i] *= shrink[i / 2];
  }
}

/// Divides the sums by those of their rows, and stores the log-sum-exp of rows first + row ….
template <int Width>
NYSTROM_DEVICE void normalise(const Online& state, Accumulator<Width>& sum_v, int first, int rows,
                              float* log_sum_exp) {
  NYSTROM_UNROLL
  for (int r = 0; r < 2; ++r) {
    const float sum = row_sum(state.sum[r]), norm = sum > 0 ? 1 / sum : 0.0f;
    NYSTROM_UNROLL
    for (int n = 0; n < Width / 8; ++n) {
      sum_v.part[n][2 * r] *= norm;
      sum_v.part[n][2 * r + 1] *= norm;
    }
    const int row = first + row_of(2 * r);
    if (lane_index() % 4 == 0 && row < rows)
      log_sum_exp[row] = sum > 0 ? state.largest[r] * ln_2 + logf(sum) : -infinity;
  }
}

/// Adds the values of a tile of keys to the sums of a tile of queries.
template <class T, int Width, class Sees>
NYSTROM_DEVICE void attend(const T* queries, const T* keys, const T* values,
                           const std::uint8_t* valid, const Sees& sees, float scale, Online& state,
                           Accumulator<Width>& sum) {
  LeftOperand<Width> q;
  load_left<Width>(q, queries);
  Accumulator<tile_rows> scores;
  scores.clear();
  multiply_by_rows<Width>(scores, q, keys);
  online_softmax(scores, valid, sees, scale * log2_e, state, sum);
  LeftOperand<tile_rows> weights;
  as_left<T>(weights, scores);
  multiply_by_columns<Width>(sum, weights, values);
}

/// A tile of keys and values in shared memory, and which of them count.
template <class T, int Width>
struct KeyTile {
  T* memory;
  NYSTROM_DEVICE T* k() const { return memory; }
  NYSTROM_DEVICE T* v() const { return memory + tile_size<Width>; }
  NYSTROM_DEVICE std::uint8_t* valid() const {
    return reinterpret_cast<std::uint8_t*>(memory + 2 * tile_size<Width>);
  }
  /// The memory behind it.
  NYSTROM_DEVICE T* end() const { return reinterpret_cast<T*>(valid() + tile_rows); }

  NYSTROM_DEVICE void load(const AttentionProblem<float>& p, const Place& at,
                           const Keys<float>& keys, int first) const {
    load_tile<Width>(p.k.of(at.keys, at.head), first, keys, k());
    load_tile<Width>(p.v.of(at.keys, at.head), first, keys, v());
    if (threadIdx.x < tile_rows) valid()[threadIdx.x] = keys(first + static_cast<int>(threadIdx.x));
  }
};

/// A block for each head, part of the keys and tile of queries. Tiles vary fastest: blocks that
/// read the same keys run at the same time.
template <class T, int Width, bool Local>
__global__ __launch_bounds__(fused_block,
                             Width <= 64 ? 3 : 2) void forward_kernel(AttentionProblem<float> p,
                                                                      std::int64_t splits,
                                                                      int stages, Results results) {
  const Block block(p.all_heads(), splits);
  const Place at = p.place(block.head);
  const int first_query = block.tile * tile_rows;
  if (first_query >= at.queries.rows) return;
  const Keys<float> keys(p, at);
  const SeenTiles<Local> seen(first_query, at.keys.rows, p.reach);
  T* const queries = dynamic_shared<T>();
  const auto key_tile = [&](int stage) {
    const KeyTile<T, Width> first{queries + tile_size<Width>};
    return stage == 0 ? first : KeyTile<T, Width>{first.end()};
  };

  load_tile<Width>(
      p.q.of(at.queries, at.head), first_query, [&](int r) { return r < at.queries.rows; },
      queries);
  Online state;
  Accumulator<Width> sum;
  sum.clear();
  for_each_tile(
      seen.begin(block.split, splits), seen.begin(block.split + 1, splits), stages,
      [&](int tile, int stage) { key_tile(stage).load(p, at, keys, tile * tile_rows); },
      [&](int tile, int stage) {
        const auto s = key_tile(stage);
        const auto sees = [&](int row, int key) { return seen(row, tile, key); };
        attend<T>(queries, s.k(), s.v(), s.valid(), sees, keys.scale, state, sum);
      });
  const Span target = p.part(at.queries, at, block.split, splits);
  normalise(state, sum, first_query, target.rows, results.log_sum_exp.of(target, at.head));
  store_rows<T>(sum, results.out.of(target, at.head), first_query);
}

/// The shared memory of few_keys_kernel: the keys; queries of each stage, and the rows that their
/// convolution reads; its band.
template <class T, int Width>
struct FewKeys {
  int stages, taps;
  NYSTROM_DEVICE KeyTile<T, Width> keys() const { return {dynamic_shared<T>()}; }
  NYSTROM_DEVICE T* queries(int stage) const {
    const int rows = tile_rows + (taps > 0 ? conv_rows(tile_rows, taps) : 0);
    return keys().end() + stage * rows * tile_stride<Width>;
  }
  NYSTROM_DEVICE T* x(int stage) const { return queries(stage) + tile_size<Width>; }
  NYSTROM_DEVICE T* band() const { return queries(stages); }
};

/// Where all keys are one tile, as landmarks are: a block keeps them and iterates over tiles of
/// queries. A convolution of other rows may be added to the result.
template <class T, int Width>
__global__ __launch_bounds__(fused_block, Width <= 64 ? 3 : 1) void few_keys_kernel(
    AttentionProblem<float> p, Convolution conv, int tiles_of_block, int stages, Results results) {
  const FewKeys<T, Width> s{stages, conv.taps};
  const Block block(p.all_heads(), 1);
  const Place at = p.place(block.head);
  const int first = block.tile * tiles_of_block, end = first + tiles_of_block,
            tiles = (at.queries.rows + tile_rows - 1) / tile_rows;
  if (first >= tiles) return;
  const Keys<float> keys(p, at);
  const auto inside = [&](int r) { return r >= 0 && r < at.queries.rows; };
  s.keys().load(p, at, keys, 0);
  if (conv.taps > 0)
    fill_band(static_cast<const T*>(conv.w) + at.head * conv.taps, conv.taps, false, s.band());
  const auto load = [&](int tile, int stage) {
    const int row = tile * tile_rows;
    load_tile<Width>(p.q.of(at.queries, at.head), row, inside, s.queries(stage));
    if (conv.taps > 0)
      load_rows<Width>(conv.x.of(at.queries, at.head), row - conv.taps / 2,
                       conv_rows(tile_rows, conv.taps), inside, s.x(stage));
  };
  const auto use = [&](int tile, int stage) {
    const auto k = s.keys();
    Online state;
    Accumulator<Width> sum;
    sum.clear();
    const auto all = [](int, int) { return true; };
    attend<T>(s.queries(stage), k.k(), k.v(), k.valid(), all, keys.scale, state, sum);
    const int row = tile * tile_rows;
    normalise(state, sum, row, at.queries.rows, results.log_sum_exp.of(at.queries, at.head));
    if (conv.taps > 0) multiply_by_band(sum, s.band(), groups_of(conv.taps), s.x(stage));
    store_rows<T>(sum, results.out.of(at.queries, at.head), row);
  };
  for_each_tile(first, end < tiles ? end : tiles, stages, load, use);
}

/// out = Σ over parts of exp(part's log-sum-exp − total log-sum-exp) · part. One warp a row.
__global__ void merge_kernel(Results parts, std::int64_t splits, DeviceSpans queries,
                             std::int64_t heads, Results results) {
  const std::int64_t index =
      static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / warp_size) + warp_index();
  const std::int64_t b = index / queries.longest / heads, h = index / queries.longest % heads;
  const int r = static_cast<int>(index % queries.longest);
  if (b >= queries.count) return;
  const Span span = queries[b];
  if (r >= span.rows) return;
  const auto of_part = [&](std::int64_t s) { return Span{s * queries.count + b, span.rows}; };
  const auto log_sum_exp = [&](std::int64_t s) { return parts.log_sum_exp.of(of_part(s), h)[r]; };
  float largest = -infinity;
  for (std::int64_t s = 0; s < splits; ++s) largest = larger(largest, log_sum_exp(s));
  float sum = 0;
  for (std::int64_t s = 0; s < splits && largest > -infinity; ++s)
    sum += expf(log_sum_exp(s) - largest);
  const auto out = results.out.of(span, h);
  for (std::int64_t c = lane_index(); c < out.width; c += warp_size) {
    float value = 0;
    for (std::int64_t s = 0; s < splits && sum > 0; ++s) {
      const auto part = parts.out.of(of_part(s), h);
      value += expf(log_sum_exp(s) - largest) / sum * part.numbers.get(part.at(r) + c);
    }
    out.numbers.set(out.at(r) + c, value);
  }
  if (lane_index() == 0)
    results.log_sum_exp.of(span, h)[r] = sum > 0 ? largest + logf(sum) : -infinity;
}

/// Tiles of queries for a block of few_keys_kernel, so that blocks fill a GPU.
int tiles_of_block(std::int64_t heads, std::int64_t tiles) {
  constexpr std::int64_t enough = 132 * 6, most = 8;
  return static_cast<int>(std::clamp<std::int64_t>(heads * tiles / enough, 1, most));
}

template <class T, int Width>
void forward(const AttentionProblem<float>& p, const Convolution& conv, const ViewBase& like,
             const Results& results) {
  const std::int64_t heads = p.queries.count * p.heads,
                     query_tiles = divide_up(p.queries.longest, tile_rows),
                     key_tiles = divide_up(p.keys.longest, tile_rows);
  const bool local = is_local(p);
  if (key_tiles <= 1 && !local) {
    const int of_block = tiles_of_block(heads, query_tiles);
    const auto bytes = [&](int stages) { return bytes_of_few_keys(Width, stages, conv.taps); };
    const int stages = stages_of(of_block, bytes);
    const std::int64_t blocks = heads * divide_up(query_tiles, of_block);
    return launch(few_keys_kernel<T, Width>, dim3(static_cast<unsigned>(blocks)), dim3(fused_block),
                  bytes(stages), p, conv, of_block, stages, results);
  }
  const std::int64_t splits = local ? 1 : splits_of(heads * query_tiles, key_tiles);
  const dim3 grid(static_cast<unsigned>(query_tiles * splits * heads));
  const auto bytes = [&](int stages) { return bytes_of_forward(Width, stages); };
  const int stages = stages_of(divide_up(key_tiles, splits), bytes);
  const std::size_t shared = bytes(stages);
  if (local)
    return launch(forward_kernel<T, Width, true>, grid, dim3(fused_block), shared, p, splits,
                  stages, results);
  if (splits == 1)
    return launch(forward_kernel<T, Width, false>, grid, dim3(fused_block), shared, p, splits,
                  stages, results);
  const std::int64_t rows = heads * p.queries.longest;
  const Workspace<float> work(like, splits * rows * (Width + 1));
  const Results parts{
      parts_in(work.get(), p.heads, p.queries.longest, Width),
      {work.get() + splits * rows * Width, p.heads * p.queries.longest, p.queries.longest}};
  launch(forward_kernel<T, Width, false>, grid, dim3(fused_block), shared, p, splits, stages,
         parts);
  launch(merge_kernel, dim3(static_cast<unsigned>(divide_up(rows, 4))), dim3(4 * warp_size), 0,
         parts, splits, p.queries, p.heads, results);
}

}  // namespace

DType half_of(std::initializer_list<CView> operands) {
  DType half = DType::f32;
  for (const CView& x : operands) {
    if (!is_half(x.dtype)) continue;
    if (is_half(half) && half != x.dtype) return DType::f32;
    half = x.dtype;
  }
  return half;
}

bool fused_attention_fits(std::initializer_list<CView> operands) {
  const std::int64_t width = operands.begin()->dim(-1);
  const DType half = half_of(operands);
  for (const CView& x : operands)
    if (x.dtype == DType::f64 || x.dim(-1) != width || !has_aligned_rows(x)) return false;
  return is_half(half) && tensor_cores_take(half, operands.begin()->device.index) &&
         (width == 32 || width == 64 || width == 128);
}

bool fused_attention_with_conv_fits(const AttentionOperands& o, CView x, CView w, View out) {
  return fused_attention_fits({o.q, o.k, o.v, x, out}) && is_half(x.dtype) && w.dtype == x.dtype &&
         device_spans(o.keys, o.k).longest <= tile_rows &&
         bytes_of_few_keys(o.q.dim(-1), 1, w.shape[1]) <= shared_memory_of_a_block();
}

void attention_fused(const AttentionOperands& o, CView x, CView w, View out, View log_sum_exp) {
  const AnyKey any(o);
  const auto problem = problem_of<float>(o, any);
  const Convolution conv = convolution_of(x, w);
  const Results results{heads_of<float>(out), per_query<float>(log_sum_exp)};
  const auto run = [&]<class T>(TypeTag<T>) {
    switch (o.q.dim(-1)) {
      case 32: return forward<T, 32>(problem, conv, o.q, results);
      case 64: return forward<T, 64>(problem, conv, o.q, results);
      default: return forward<T, 128>(problem, conv, o.q, results);
    }
  };
  half_of({o.q, o.k, o.v, x, out}) == DType::f16 ? run(TypeTag<f16>{}) : run(TypeTag<bf16>{});
}

}  // namespace nystrom::cuda
