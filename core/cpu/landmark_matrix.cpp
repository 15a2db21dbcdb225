// The landmarks of a head and their softmax, and their gradient. Heads are processed one by one, in
// cache.
#include "core/cpu/level.h"

#include "core/cpu/parallel.h"
#include "core/cpu/tile_gemm.h"
#include "core/kernels.h"

namespace nystrom::kernels::NYSTROM_LEVEL {
namespace {

/// x is [b, m, parts, h, d], landmarks are [b, parts, h, m, d].
struct Sizes {
  std::int64_t batch, m, parts, heads, d;
  explicit Sizes(const CView& landmarks)
      : batch(landmarks.shape[0]),
        m(landmarks.shape[3]),
        parts(landmarks.shape[1]),
        heads(landmarks.shape[2]),
        d(landmarks.shape[4]) {}
  std::int64_t of_x(std::int64_t b, std::int64_t h, std::int64_t part, std::int64_t row) const {
    return ((b * m + row) * parts + part) * heads * d + h * d;
  }
  std::int64_t of_landmarks(std::int64_t b, std::int64_t h, std::int64_t part) const {
    return ((b * parts + part) * heads + h) * m * d;
  }
};

}  // namespace

void landmark_matrix(CView x, CView bias, double scale, View landmarks, View a) {
  const Sizes size(landmarks);
  const std::int64_t m = size.m, d = size.d;
  visit_accumulate(x.dtype, [&]<class A>(TypeTag<A>) {
    parallel_ranges(size.batch * size.heads, 1, [&](std::int64_t begin, std::int64_t end) {
      const Scratch<A> rows(2 * m * d), keys(m * d), shift(d);
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t b = i / size.heads, h = i % size.heads;
        for (std::int64_t part = 0; part < size.parts; ++part) {
          load_row(bias, (part * size.heads + h) * d, shift.get(), d);
          const std::int64_t first = size.of_landmarks(b, h, part);
          for (std::int64_t r = 0; r < m; ++r) {
            A* row = rows.get() + (part * m + r) * d;
            for (std::int64_t c = 0; c < d; ++c)
              row[c] = x.as<A>()[size.of_x(b, h, part, r) + c] + shift[c];
            store_row(landmarks, first + r * d, row, d);
            load_row(landmarks, first + r * d, row, d);  // rounded
          }
        }
        A* own = a.as<A>() + i * m * m;
        transpose_block(rows.get() + (size.parts - 1) * m * d, m, d, d, keys.get(), m);
        tile_gemm<A>(m, m, d, static_cast<A>(scale), {rows.get(), d, 1}, keys.get(), m, own, m,
                     false);
      }
    });
  });
  softmax(a, a);
}

void landmark_matrix_grad(CView landmarks, CView a, CView da, double scale, CView dqueries,
                          CView dkeys, View dx) {
  const Sizes size(landmarks);
  const std::int64_t m = size.m, d = size.d;
  visit_accumulate(a.dtype, [&]<class A>(TypeTag<A>) {
    parallel_ranges(size.batch * size.heads, 1, [&](std::int64_t begin, std::int64_t end) {
      const Scratch<A> rows(2 * m * d), ds(m * m), grads(2 * m * d);
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t b = i / size.heads, h = i % size.heads;
        for (std::int64_t part = 0; part < size.parts; ++part)
          load_row(landmarks, size.of_landmarks(b, h, part), rows.get() + part * m * d, m * d);
        const A *weight = a.as<A>() + i * m * m, *dweight = da.as<A>() + i * m * m;
        for (std::int64_t r = 0; r < m; ++r) {
          A inner = 0;
          for (std::int64_t j = 0; j < m; ++j) inner += weight[r * m + j] * dweight[r * m + j];
          for (std::int64_t j = 0; j < m; ++j)
            ds[r * m + j] =
                static_cast<A>(scale) * weight[r * m + j] * (dweight[r * m + j] - inner);
        }
        const A* keys = rows.get() + (size.parts - 1) * m * d;
        A *dq = grads.get(), *dk = dq + m * d;
        const auto load_grad = [&](const CView& from, A* to) {
          for (std::int64_t r = 0; r < m; ++r)
            load_row(from, b * from.stride[0] + h * from.stride[1] + r * from.stride[2], to + r * d,
                     d);
        };
        load_grad(dqueries, dq);
        load_grad(dkeys, dk);
        tile_gemm<A>(m, d, m, A(1), {ds.get(), m, 1}, keys, d, dq, d, true);
        tile_gemm<A>(m, d, m, A(1), {ds.get(), 1, m}, rows.get(), d, dk, d, true);
        for (std::int64_t r = 0; r < m; ++r) {
          A* target = dx.as<A>() + size.of_x(b, h, 0, r);
          if (size.parts == 2) {
            convert_row(dq + r * d, target, d);
            convert_row(dk + r * d, dx.as<A>() + size.of_x(b, h, 1, r), d);
          } else {
            for (std::int64_t c = 0; c < d; ++c) target[c] = dq[r * d + c] + dk[r * d + c];
          }
        }
      }
    });
  });
}

}  // namespace nystrom::kernels::NYSTROM_LEVEL
