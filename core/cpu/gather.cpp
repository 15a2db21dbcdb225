// Rows by index: embeddings, selected positions, and means over the segments of a sequence.
#include "core/cpu/level.h"

#include "core/cpu/convert.h"
#include "core/cpu/parallel.h"
#include "core/kernels.h"

namespace nystrom::kernels::NYSTROM_LEVEL {

void gather_rows(CView x, CView index, View y) {
  const std::int64_t width = y.dim(-1);
  const auto* id = index.as<std::int64_t>();
  visit_float(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    parallel_ranges(index.numel(), elementwise_grain / (width + 1) + 1,
                    [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t r = begin; r < end; ++r) {
                        T* target = y.as<T>() + r * width;
                        if (id[r] < 0) {
                          for (std::int64_t i = 0; i < width; ++i) target[i] = convert<T>(0.0f);
                        } else {
                          const T* source = x.as<T>() + id[r] * width;
                          for (std::int64_t i = 0; i < width; ++i) target[i] = source[i];
                        }
                      }
                    });
  });
}

void scatter_add_rows(CView x, CView index, std::int64_t skip, View y) {
  const std::int64_t width = x.dim(-1), rows = index.numel();
  const auto* id = index.as<std::int64_t>();
  visit_float(x.dtype, [&](auto from) {
    using T = typename decltype(from)::type;
    visit_float(y.dtype, [&](auto to) {
      using Out = typename decltype(to)::type;
      // Threads divide the columns and add the rows in order. So no two threads write the same
      // element, and sums are deterministic.
      parallel_ranges(width, 64, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = 0; r < rows; ++r) {
          if (id[r] < 0 || id[r] == skip) continue;
          const T* __restrict source = x.as<T>() + r * width;
          Out* __restrict target = y.as<Out>() + id[r] * width;
          for (std::int64_t i = begin; i < end; ++i) {
            target[i] =
                convert<Out>(load(target[i]) + static_cast<accumulate_t<Out>>(load(source[i])));
          }
        }
      });
    });
  });
}

namespace {

/// The positions of each sample's valid tokens in order, and their number.
class ValidTokens {
 public:
  ValidTokens(const CView& mask, std::int64_t batch, std::int64_t length)
      : length_(length), position_(batch * length), count_(batch) {
    const auto* valid = mask.as<std::uint8_t>();
    for (std::int64_t b = 0; b < batch; ++b) {
      std::int64_t count = 0;
      for (std::int64_t t = 0; t < length; ++t)
        if (!valid || valid[b * length + t]) position_[b * length + count++] = t;
      count_[b] = count;
    }
  }
  NYSTROM_INLINE std::int64_t count(std::int64_t b) const { return count_[b]; }
  NYSTROM_INLINE std::int64_t position(std::int64_t b, std::int64_t i) const {
    return position_[b * length_ + i];
  }

 private:
  std::int64_t length_;
  Scratch<std::int64_t> position_, count_;
};

}  // namespace

void segment_means(CView x, CView mask, View y) {
  const std::int64_t batch = x.shape[0], length = x.shape[1], width = x.shape[2],
                     segments = y.shape[1];
  const ValidTokens tokens(mask, batch, length);
  visit_float(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = accumulate_t<T>;
    parallel_ranges(batch * segments, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t s = begin; s < end; ++s) {
        const std::int64_t b = s / segments, i = s % segments, count = tokens.count(b);
        const std::int64_t first = i * count / segments, last = (i + 1) * count / segments;
        A* __restrict mean = y.as<A>() + s * width;
        for (std::int64_t c = 0; c < width; ++c) mean[c] = 0;
        for (std::int64_t k = first; k < last; ++k) {
          const T* __restrict row = x.as<T>() + (b * length + tokens.position(b, k)) * width;
          for (std::int64_t c = 0; c < width; ++c) mean[c] += load(row[c]);
        }
        const A scale = last > first ? A(1) / static_cast<A>(last - first) : A(0);
        for (std::int64_t c = 0; c < width; ++c) mean[c] *= scale;
      }
    });
  });
}

void segment_means_grad(CView dy, CView mask, View dx) {
  const std::int64_t batch = dx.shape[0], length = dx.shape[1], width = dx.shape[2],
                     segments = dy.shape[1];
  const ValidTokens tokens(mask, batch, length);
  visit_float(dx.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = accumulate_t<T>;
    parallel_ranges(batch * segments, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t s = begin; s < end; ++s) {
        const std::int64_t b = s / segments, i = s % segments, count = tokens.count(b);
        const std::int64_t first = i * count / segments, last = (i + 1) * count / segments;
        const A* __restrict grad = dy.as<A>() + s * width;
        for (std::int64_t k = first; k < last; ++k) {
          T* __restrict row = dx.as<T>() + (b * length + tokens.position(b, k)) * width;
          const A scale = A(1) / static_cast<A>(last - first);
          for (std::int64_t c = 0; c < width; ++c)
            row[c] = convert<T>(load(row[c]) + scale * grad[c]);
        }
      }
    });
  });
}

}  // namespace nystrom::kernels::NYSTROM_LEVEL
