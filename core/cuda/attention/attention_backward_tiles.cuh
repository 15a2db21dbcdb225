// The backward kernel's tiles in shared memory: their layout, their loading, and the gradient of a
// tile of scores.
#pragma once

#include "core/cuda/attention/conv_band.cuh"
#include "core/cuda/shared.cuh"

namespace nystrom::cuda {

inline constexpr float infinity = INFINITY;

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

/// What belongs to the rows or the columns of a fragment's four numbers.
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

}  // namespace nystrom::cuda
