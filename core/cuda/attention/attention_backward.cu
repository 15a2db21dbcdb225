// The fused backward pass. With P = softmax(s q kᵀ): dv = Pᵀ dout; dP = dout vᵀ; dS = s P ∘ (dP −
// ⟨dout, out⟩); dq = dS k; dk = dSᵀ q.
//
// A block owns 64 rows of one side and iterates over the other side's rows. The gradients of its
// own rows stay in registers. Sums over both sides need two kernels, unless one side fits into a
// single tile, as landmarks do. Then the block that owns it computes the other side's gradients
// too, and everything is read once. If it owns the queries, it may add the gradient of a
// convolution of the values, and sum that of the taps. There are no atomics: if a loop is divided
// into parts, these are summed in order.
#include "core/cuda/attention/attention_forms.h"
#include "core/cuda/attention/conv_band.cuh"
#include "core/cuda/rows/reduce.cuh"
#include "core/cuda/shared.cuh"

#include <optional>

namespace nystrom::cuda {
namespace {

static_assert(few_keys <= tile_rows);

// ---- Tiles in shared memory, and the gradient of a tile of scores -------------------------------

constexpr float infinity = INFINITY;

enum class Side { queries, keys };

struct Gradients {
  Heads<float, true> out, dout;
  PerQuery<const float> log_sum_exp;
  PerQuery<float> inner;  ///< ⟨dout, out⟩, where several blocks need it
  Heads<float, false> dq, dk, dv;
  Convolution conv;  ///< of dy: its gradient is added to dv
  float* tap_parts;  ///< [split, span, h, taps]
};

/// Rows of the two operands of one side, and data of the queries or keys that they belong to.
template <class T>
struct Tile {
  T *first, *second;     // queries and their dout, or keys and values
  float *shift, *inner;  // of queries: log-sum-exp times log2 e, and ⟨dout, out⟩
  std::uint8_t* valid;   // of keys
  T* dy;                 // the rows that the convolution of these keys' rows reads
};

/// The block's shared memory (bytes_of_backward). It holds its own tile, and the loop's tiles of
/// one or two stages. It also holds P and dS for transposed products, and the band and the taps'
/// gradients of the convolution.
template <class T, int Width>
class Tiles {
 public:
  T *p, *ds;
  NYSTROM_DEVICE Tiles(int stages, int taps)
      : p(dynamic_shared<T>()),
        ds(p + tile_size<tile_rows>),
        begin_(reinterpret_cast<unsigned char*>(ds + tile_size<tile_rows>)),
        dy_bytes_(taps > 0 ? bytes_of_rows(conv_rows(tile_rows, taps), Width) : 0),
        stages_(stages),
        taps_(taps) {}
  /// The own tile (0), or the loop's tile of a stage (1, 2).
  NYSTROM_DEVICE Tile<T> operator[](int which) const {
    unsigned char* begin = at(which);
    Tile<T> tile;
    tile.first = reinterpret_cast<T*>(begin);
    tile.second = tile.first + tile_size<Width>;
    tile.shift = reinterpret_cast<float*>(tile.second + tile_size<Width>);
    tile.inner = tile.shift + tile_rows;
    tile.valid = reinterpret_cast<std::uint8_t*>(tile.inner + tile_rows);
    tile.dy = reinterpret_cast<T*>(begin + bytes_of_tile(Width));
    return tile;
  }
  NYSTROM_DEVICE TapSums<fused_block / warp_size> tap_sums() const {
    return {reinterpret_cast<float*>(at(1 + stages_)), taps_};
  }
  NYSTROM_DEVICE T* band() const {
    return reinterpret_cast<T*>(at(1 + stages_) +
                                bytes_of_tap_sums(fused_block / warp_size, taps_));
  }

 private:
  NYSTROM_DEVICE unsigned char* at(int which) const {
    if (which == 0) return begin_;
    return begin_ + bytes_of_tile(Width) + (which - 1) * (bytes_of_tile(Width) + dy_bytes_);
  }
  unsigned char* begin_;
  std::size_t dy_bytes_;
  int stages_, taps_;
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
NYSTROM_DEVICE void compute_inner(const Gradients& g, const Place& at, int first, float* inner) {
  const int row = static_cast<int>(threadIdx.x) / 2, half = static_cast<int>(threadIdx.x) % 2;
  float sum = 0;
  if (first + row < at.queries.rows) {
    const auto out = g.out.of(at.queries, at.head), dout = g.dout.of(at.queries, at.head);
    NYSTROM_UNROLL_1
    for (int c = half * 8; c < Width; c += 16)
      sum += dot_eight<T>(out.numbers, out.at(first + row) + c, dout.numbers,
                          dout.at(first + row) + c);
  }
  sum += __shfl_xor_sync(whole_warp, sum, 1);
  if (half == 0) inner[row] = sum;
}

/// Loads a tile of queries. ⟨dout, out⟩ is computed here if one block owns the queries, and later
/// if it owns all keys.
template <int Width, Side Own, bool OneTile, class T>
NYSTROM_DEVICE void load_queries(const AttentionProblem<float>& p, const Gradients& g,
                                 const Place& at, int first, const Tile<T>& s) {
  const auto inside = [&](int r) { return r < at.queries.rows; };
  load_tile<Width>(p.q.of(at.queries, at.head), first, inside, s.first);
  load_tile<Width>(g.dout.of(at.queries, at.head), first, inside, s.second);
  if constexpr (OneTile && Own == Side::queries) compute_inner<T, Width>(g, at, first, s.inner);
  if (threadIdx.x >= tile_rows) return;
  const int row = first + static_cast<int>(threadIdx.x);
  const float lse = inside(row) ? g.log_sum_exp.of(at.queries, at.head)[row] : -infinity;
  // exp2(score − ∞) = 0: queries that do not exist, or have no key, have weight 0.
  s.shift[threadIdx.x] = lse == -infinity ? infinity : lse * log2_e;
  if constexpr (!OneTile)
    s.inner[threadIdx.x] = inside(row) ? g.inner.of(at.queries, at.head)[row] : 0.0f;
}

/// Loads a tile of keys; for the convolution also the values of masked keys, and the rows of dy
/// that the values' gradient reads.
template <int Width, bool Convolves, class T>
NYSTROM_DEVICE void load_keys(const AttentionProblem<float>& p, const Gradients& g,
                              const Keys<float>& keys, const Place& at, int first,
                              const Tile<T>& s) {
  const bool convolves = Convolves && g.conv.taps > 0;
  const auto inside = [&](int j) { return j >= 0 && j < keys.count; };
  load_tile<Width>(p.k.of(at.keys, at.head), first, keys, s.first);
  load_tile<Width>(
      p.v.of(at.keys, at.head), first, [&](int j) { return convolves ? inside(j) : keys(j); },
      s.second);
  if (threadIdx.x < tile_rows) s.valid[threadIdx.x] = keys(first + static_cast<int>(threadIdx.x));
  if (convolves)
    load_rows<Width>(g.conv.x.of(at.keys, at.head), first - g.conv.taps / 2,
                     conv_rows(tile_rows, g.conv.taps), inside, s.dy);
}

/// The numbers of the rows, or of the columns, of a fragment's four elements.
template <bool OfRows, class From, class To>
NYSTROM_DEVICE void of_fragment(const From* numbers, int n, To (&target)[4]) {
  const auto pair = load_pack<2>(numbers + column_of(n, 0));
  NYSTROM_UNROLL
  for (int i = 0; i < 4; ++i) target[i] = OfRows ? numbers[row_of(i)] : pair.value[i % 2];
}

/// P and dP of the rows of the own tile and of the other side's. sees(own row, other row) says
/// which of them see each other.
template <Side Own, int Width, class T, class Sees>
NYSTROM_DEVICE void weights_of(const Tile<T>& mine, const Tile<T>& other, const Sees& sees,
                               float score_scale, Accumulator<tile_rows>& p,
                               Accumulator<tile_rows>& dp) {
  LeftOperand<Width> own;
  p.clear();
  dp.clear();
  load_left<Width>(own, mine.first);
  multiply_by_rows<Width>(p, own, other.first);
  load_left<Width>(own, mine.second);
  multiply_by_rows<Width>(dp, own, other.second);
  constexpr bool rows_are_queries = Own == Side::queries;
  const float* const shifts = (rows_are_queries ? mine : other).shift;
  const std::uint8_t* const valid = (rows_are_queries ? other : mine).valid;
  NYSTROM_UNROLL
  for (int n = 0; n < tile_rows / 8; ++n) {
    float shift[4];
    bool kept[4];
    of_fragment<rows_are_queries>(shifts, n, shift);
    of_fragment<!rows_are_queries>(valid, n, kept);
    NYSTROM_UNROLL
    for (int i = 0; i < 4; ++i) {
      float& weight = p.part[n][i];
      const bool counts = kept[i] && sees(row_of(i), column_of(n, i));
      weight = counts ? approximate_exp2(weight * score_scale - shift[i]) : 0.0f;
    }
  }
}

/// sums[warp][column] = Σ over the warp's 16 rows of a ∘ b.
NYSTROM_DEVICE void column_sums(const Accumulator<tile_rows>& a, const Accumulator<tile_rows>& b,
                                float* sums) {
  float part[tile_rows / 8][2];
  NYSTROM_UNROLL
  for (int n = 0; n < tile_rows / 8; ++n) {
    NYSTROM_UNROLL
    for (int i = 0; i < 2; ++i)
      part[n][i] = a.part[n][i] * b.part[n][i] + a.part[n][i + 2] * b.part[n][i + 2];
  }
  // Of the fragments left, each of two lanes adds up one half. Lane 4 g + t ends with fragment g.
  NYSTROM_UNROLL
  for (int count = 4; count >= 1; count /= 2) {
    const bool upper = lane_index() & 4 * count;
    NYSTROM_UNROLL
    for (int n = 0; n < count; ++n) {
      NYSTROM_UNROLL
      for (int i = 0; i < 2; ++i) {
        const float low = part[n][i], high = part[n + count][i];
        part[n][i] =
            (upper ? high : low) + __shfl_xor_sync(whole_warp, upper ? low : high, 4 * count);
      }
    }
  }
  *reinterpret_cast<Pack<float, 2>*>(sums + warp_index() * tile_rows +
                                     column_of(lane_index() / 4, 0)) = {{part[0][0], part[0][1]}};
}

/// The sums for a fragment's columns of what column_sums left.
NYSTROM_DEVICE void sums_of_warps(const float* sums, int n, float (&target)[4]) {
  float total[4] = {};
  NYSTROM_UNROLL
  for (int warp = 0; warp < fused_block / warp_size; ++warp) {
    const auto pair = load_pack<2>(sums + warp * tile_rows + column_of(n, 0));
    NYSTROM_UNROLL
    for (int i = 0; i < 2; ++i) total[i] += pair.value[i];
  }
  NYSTROM_UNROLL
  for (int i = 0; i < 4; ++i) target[i] = total[i % 2];
}

/// Replaces dP by dS. Where the own tile has all keys, ⟨dout, out⟩ is the sum over them of P ∘ dP.
template <Side Own, bool OneTile, int Width, class T>
NYSTROM_DEVICE void score_gradient(const Tiles<T, Width>& s, const Tile<T>& queries, float scale,
                                   const Accumulator<tile_rows>& p, Accumulator<tile_rows>& ds) {
  constexpr bool all_keys = OneTile && Own == Side::keys;
  auto* sums = reinterpret_cast<float*>(s.p);  // P itself is not stored then
  if constexpr (all_keys) {
    column_sums(p, ds, sums);
    __syncthreads();
  }
  NYSTROM_UNROLL
  for (int n = 0; n < tile_rows / 8; ++n) {
    float inner[4];
    if constexpr (all_keys) {
      sums_of_warps(sums, n, inner);
    } else {
      of_fragment<Own == Side::queries>(queries.inner, n, inner);
    }
    NYSTROM_UNROLL
    for (int i = 0; i < 4; ++i) {
      const float weight = p.part[n][i];
      // A masked key's value may be anything.
      ds.part[n][i] = weight == 0 ? 0.0f : scale * weight * (ds.part[n][i] - inner[i]);
    }
  }
}

// ---- The kernels --------------------------------------------------------------------------------

/// ⟨dout, out⟩ of each query, one warp a row, where several blocks need it.
__global__ void inner_kernel(Gradients g, DeviceSpans queries, std::int64_t heads) {
  const std::int64_t index =
      static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / warp_size) + warp_index();
  const std::int64_t b = index / queries.longest / heads, h = index / queries.longest % heads;
  const int r = static_cast<int>(index % queries.longest);
  if (b >= queries.count) return;
  const Span span = queries[b];
  if (r >= span.rows) return;
  const auto out = g.out.of(span, h), dout = g.dout.of(span, h);
  float sum = 0;
  for (std::int64_t c = lane_index(); c < out.width; c += warp_size)
    sum += out.numbers.get(out.at(r) + c) * dout.numbers.get(dout.at(r) + c);
  sum = warp_sum(sum);
  if (lane_index() == 0) g.inner.of(span, h)[r] = sum;
}

/// The gradients of the convolution for a tile of keys: that of the values, and of the taps.
template <int Width, class T>
NYSTROM_DEVICE void convolve_back(const Tiles<T, Width>& s, const Tile<T>& keys,
                                  const Convolution& conv, Accumulator<Width>& dv) {
  multiply_by_band(dv, s.band(), groups_of(conv.taps), keys.dy);
  LeftOperand<Width> values;
  load_left<Width>(values, keys.second);
  s.tap_sums().add(values, keys.dy);
}

/// The gradients of the other side's rows, first + …, if the own side has one tile.
template <Side Own, int Width, class T>
NYSTROM_DEVICE void store_other_side(const Tiles<T, Width>& s, const Tile<T>& mine,
                                     const Tile<T>& other, const Accumulator<tile_rows>& weights,
                                     const Accumulator<tile_rows>& ds, const Gradients& g,
                                     const Place& at, int first) {
  store_tile(ds, s.ds);
  if constexpr (Own == Side::queries) store_tile(weights, s.p);
  __syncthreads();
  LeftOperand<tile_rows> left;
  Accumulator<Width> sum;
  sum.clear();
  load_left_transposed<tile_rows>(left, s.ds);
  multiply_by_columns<Width>(sum, left, mine.first);
  store_rows<T>(sum, Own == Side::keys ? g.dq.of(at.queries, at.head) : g.dk.of(at.keys, at.head),
                first);
  if constexpr (Own == Side::queries) {
    sum.clear();
    if (g.conv.taps > 0) convolve_back(s, other, g.conv, sum);
    load_left_transposed<tile_rows>(left, s.p);
    multiply_by_columns<Width>(sum, left, mine.second);
    store_rows<T>(sum, g.dv.of(at.keys, at.head), first);
  }
}

/// The blocks of a multiprocessor that registers are to leave room for, as shared memory does.
template <int Width, Side Own, bool OneTile>
constexpr int backward_blocks = OneTile&& Width == 64 && Own == Side::keys ? 3 : 1;

/// A block for each head, part of the loop and own tile. OneTile: the own side has a single tile,
/// and the loop's rows are computed too. The convolution's gradient has the taps in reverse order.
template <class T, int Width, Side Own, bool OneTile>
__global__ __launch_bounds__(
    fused_block,
    backward_blocks<Width, Own, OneTile>) void backward_kernel(AttentionProblem<float> p,
                                                               Gradients g, std::int64_t splits,
                                                               int stages) {
  constexpr bool owns_keys = Own == Side::keys, convolves = !owns_keys && OneTile;
  const Tiles<T, Width> s(stages, convolves ? g.conv.taps : 0);
  const std::int64_t heads = p.all_heads();
  const Block block(heads, splits);
  const Place at = p.place(block.head);
  const std::int64_t split = block.split;
  const int first_own = block.tile * tile_rows;
  const Span own = owns_keys ? at.keys : at.queries, loop = owns_keys ? at.queries : at.keys;
  if (!OneTile && first_own >= own.rows) return;
  const SeenTiles<!OneTile> seen(first_own, loop.rows, p.reach);
  const Keys<float> keys(p, at);
  const Tile<T> mine = s[0];
  if constexpr (owns_keys) {
    load_keys<Width, convolves>(p, g, keys, at, first_own, mine);
  } else {
    load_queries<Width, Own, OneTile>(p, g, at, first_own, mine);
  }
  if (convolves && g.conv.taps > 0) {
    fill_band(static_cast<const T*>(g.conv.w) + at.head * g.conv.taps, g.conv.taps, true, s.band());
    s.tap_sums().clear();
  }
  Accumulator<Width> sum1, sum2;  // dk and dv of own keys, or dq of own queries
  sum1.clear();
  sum2.clear();
  const auto load = [&](int tile, int stage) {
    if constexpr (owns_keys) {
      load_queries<Width, Own, OneTile>(p, g, at, tile * tile_rows, s[1 + stage]);
    } else {
      load_keys<Width, convolves>(p, g, keys, at, tile * tile_rows, s[1 + stage]);
    }
  };
  const auto use = [&](int tile, int stage) {
    const Tile<T> other = s[1 + stage];
    Accumulator<tile_rows> weights, ds;
    const auto sees = [&](int row, int other_row) { return seen(row, tile, other_row); };
    weights_of<Own, Width>(mine, other, sees, keys.scale * log2_e, weights, ds);
    score_gradient<Own, OneTile>(s, Own == Side::queries ? mine : other, p.scale, weights, ds);
    LeftOperand<tile_rows> left;
    as_left<T>(left, ds);
    multiply_by_columns<Width>(sum1, left, other.first);
    if constexpr (owns_keys) {
      as_left<T>(left, weights);
      multiply_by_columns<Width>(sum2, left, other.second);
    }
    if constexpr (OneTile)
      store_other_side<Own>(s, mine, other, weights, ds, g, at, tile * tile_rows);
  };
  for_each_tile(seen.begin(split, splits), seen.begin(split + 1, splits), stages, load, use);
  const Span target = p.part(own, at, split, splits);
  store_rows<T>(sum1, (owns_keys ? g.dk : g.dq).of(target, at.head), first_own);
  if constexpr (owns_keys) store_rows<T>(sum2, g.dv.of(target, at.head), first_own);
  if constexpr (convolves) {
    float* const of_block = g.tap_parts + (split * heads + block.head) * g.conv.taps;
    for (int j = static_cast<int>(threadIdx.x); j < g.conv.taps; j += fused_block)
      of_block[g.conv.taps - 1 - j] = s.tap_sums().total(j);
  }
}

/// target = Σ over parts, in order.
__global__ void sum_parts_kernel(const float* parts, std::int64_t splits, DeviceSpans spans,
                                 std::int64_t heads, Heads<float, false> target) {
  const std::int64_t count = spans.count * heads * spans.longest * target.width;
  for (std::int64_t i = grid_index(); i < count; i += grid_size()) {
    const std::int64_t row = i / target.width, head = row / spans.longest;
    const int r = static_cast<int>(row % spans.longest);
    const Span span = spans[head / heads];
    if (r >= span.rows) continue;
    float sum = 0;
    for (std::int64_t s = 0; s < splits; ++s) sum += parts[s * count + i];
    const auto rows = target.of(span, head % heads);
    rows.numbers.set(rows.at(r) + i % target.width, sum);
  }
}

/// A gradient of the own side: the output itself, or parts that are summed after the kernel.
class Destination {
 public:
  Destination(const ViewBase& like, const DeviceSpans& spans, std::int64_t heads,
              Heads<float, false>& target, std::int64_t splits)
      : spans_(spans),
        heads_(heads),
        splits_(splits),
        final_(target),
        parts_(like, splits == 1 ? 0 : splits * count()) {
    if (splits > 1) target = parts_in(parts_.get(), heads, spans.longest, target.width);
  }
  void finish() const {
    if (splits_ > 1)
      launch(sum_parts_kernel, dim3(blocks_for(count(), 256)), dim3(256), 0, parts_.get(), splits_,
             spans_, heads_, final_);
  }

 private:
  std::int64_t count() const { return spans_.count * heads_ * spans_.longest * final_.width; }
  DeviceSpans spans_;
  std::int64_t heads_, splits_;
  Heads<float, false> final_;
  Workspace<float> parts_;
};

template <class T, int Width, Side Own, bool OneTile>
void backward_of(const AttentionProblem<float>& p, Gradients g, const View& dw,
                 const ViewBase& like) {
  const DeviceSpans &own = Own == Side::keys ? p.keys : p.queries,
                    &other = Own == Side::keys ? p.queries : p.keys;
  const std::int64_t heads = own.count * p.heads, loop_tiles = divide_up(other.longest, tile_rows);
  // Of no rows there is one tile too: its block leaves gradients of 0 on the other side.
  const std::int64_t own_tiles = OneTile ? 1 : divide_up(own.longest, tile_rows);
  const std::int64_t splits = is_local(p) ? 1 : splits_of(heads * own_tiles, loop_tiles);
  const Destination first(like, own, p.heads, Own == Side::keys ? g.dk : g.dq, splits);
  std::optional<Destination> second;
  if (Own == Side::keys) second.emplace(like, own, p.heads, g.dv, splits);
  const Workspace<float> tap_parts(like, splits * heads * g.conv.taps);
  g.tap_parts = tap_parts.get();
  const auto bytes = [&](int stages) { return bytes_of_backward(Width, stages, g.conv.taps); };
  const int stages = stages_of(divide_up(loop_tiles, splits), bytes);
  launch(backward_kernel<T, Width, Own, OneTile>,
         dim3(static_cast<unsigned>(own_tiles * splits * heads)), dim3(fused_block), bytes(stages),
         p, g, splits, stages);
  first.finish();
  if (second) second->finish();
  if (g.conv.taps > 0)
    sum_pieces(tap_parts.get(), 1, splits * own.count, p.heads * g.conv.taps, true, dw.as<float>());
}

template <class T, int Width>
void backward(const AttentionProblem<float>& p, const Gradients& g, const View& dw,
              const ViewBase& like) {
  if (!is_local(p)) {
    if (p.keys.longest <= tile_rows && g.conv.taps == 0)
      return backward_of<T, Width, Side::keys, true>(p, g, dw, like);
    if (p.queries.longest <= tile_rows)
      return backward_of<T, Width, Side::queries, true>(p, g, dw, like);
  }
  backward_of<T, Width, Side::keys, false>(p, g, dw, like);
  backward_of<T, Width, Side::queries, false>(p, g, dw, like);
}

}  // namespace

bool fused_attention_grad_fits(std::initializer_list<CView> operands) {
  return fused_attention_fits(operands) &&
         bytes_of_backward(operands.begin()->dim(-1), 1, 0) <= shared_memory_of_a_block();
}

bool fused_attention_grad_with_conv_fits(const AttentionOperands& o, CView out, CView dout, CView w,
                                         CView dy, View dq, View dk, View dv) {
  const std::initializer_list<CView> operands{o.q, o.k, o.v, out, dout, dq, dk, dv};
  return out && fused_attention_grad_fits(operands) && fused_attention_fits({o.q, dy}) &&
         is_half(dy.dtype) && w.dtype == dy.dtype && half_of(operands) == dy.dtype &&
         device_spans(o.queries, o.q).longest <= tile_rows &&
         bytes_of_backward(o.q.dim(-1), 1, w.shape[1]) <= shared_memory_of_a_block();
}

void attention_fused_grad(const AttentionOperands& o, CView out, CView log_sum_exp, CView dout,
                          CView w, CView dy, View dq, View dk, View dv, View dw) {
  const AnyKey any(o);
  const auto problem = problem_of<float>(o, any);
  // One tile on either side: each query is loaded once.
  const bool once = !is_local(problem) &&
                    (problem.queries.longest <= tile_rows || problem.keys.longest <= tile_rows);
  const Workspace<float> inner(dq, once ? 0 : log_sum_exp.numel());
  const auto sums = per_query<const float>(log_sum_exp);
  const Gradients gradients{heads_of<float>(out),
                            heads_of<float>(dout),
                            sums,
                            {inner.get(), sums.first, sums.head},
                            heads_of<float>(dq),
                            heads_of<float>(dk),
                            heads_of<float>(dv),
                            convolution_of(dy, w),
                            nullptr};
  if (!once) {
    const std::int64_t rows = problem.queries.count * problem.heads * problem.queries.longest;
    launch(inner_kernel, dim3(static_cast<unsigned>(divide_up(rows, 4))), dim3(4 * warp_size), 0,
           gradients, problem.queries, problem.heads);
  }
  const auto run = [&]<class T>(TypeTag<T>) {
    switch (o.q.dim(-1)) {
      case 32: return backward<T, 32>(problem, gradients, dw, dq);
      case 64: return backward<T, 64>(problem, gradients, dw, dq);
      default: return backward<T, 128>(problem, gradients, dw, dq);
    }
  };
  half_of({o.q, o.k, o.v, out, dout, dq, dk, dv}) == DType::f16 ? run(TypeTag<f16>{})
                                                                : run(TypeTag<bf16>{});
}

}  // namespace nystrom::cuda
