// Softmax, cross-entropy, argmax and drawing over rows: one warp a row if rows are short, else one
// block a row.
#include <cmath>

#include "core/cuda/device.cuh"
#include "core/cuda/launch.cuh"
#include "core/kernels.h"
#include "core/math.h"

namespace nystrom::kernels::cuda {
namespace {

using namespace nystrom::cuda;

constexpr int block = 256;
constexpr std::int64_t longest_of_warp = 1024;

/// The threads that share a row: a warp (of the block's eight) or the whole block.
template <bool WholeBlock>
struct Team {
  static constexpr int rows_per_block = WholeBlock ? 1 : block / warp_size;
  static constexpr int size = WholeBlock ? block : warp_size;
  NYSTROM_DEVICE static int index() {
    return WholeBlock ? static_cast<int>(threadIdx.x) : lane_index();
  }
  NYSTROM_DEVICE static std::int64_t row() {
    return static_cast<std::int64_t>(blockIdx.x) * rows_per_block + (WholeBlock ? 0 : warp_index());
  }
  template <class A>
  NYSTROM_DEVICE static A sum(A value) {
    if constexpr (WholeBlock) return block_sum(value);
    return warp_sum(value);
  }
  template <class A>
  NYSTROM_DEVICE static A max(A value) {
    if constexpr (WholeBlock) return block_max(value);
    return warp_max(value);
  }
};

template <class T, class Group>
NYSTROM_DEVICE accumulate_t<T> row_max(const T* row, std::int64_t n) {
  accumulate_t<T> largest = load(row[0]);
  for (std::int64_t i = Group::index(); i < n; i += Group::size)
    largest = larger(largest, load(row[i]));
  return Group::max(largest);
}

template <class T, class Group>
NYSTROM_DEVICE accumulate_t<T> sum_of_exponentials(const T* row, accumulate_t<T> largest,
                                                   std::int64_t n) {
  accumulate_t<T> sum = 0;
  for (std::int64_t i = Group::index(); i < n; i += Group::size)
    sum += math::exp(load(row[i]) - largest);
  return Group::sum(sum);
}

// A warp after the last row returns as a whole, and so does a block: no other thread waits for it.
template <class T, bool WholeBlock>
__global__ void softmax_kernel(const T* x, std::int64_t rows, std::int64_t n, T* y) {
  using Group = Team<WholeBlock>;
  const std::int64_t r = Group::row();
  if (r >= rows) return;
  const T* row = x + r * n;
  const auto largest = row_max<T, Group>(row, n);
  const auto scale = 1 / sum_of_exponentials<T, Group>(row, largest, n);
  for (std::int64_t i = Group::index(); i < n; i += Group::size)
    y[r * n + i] = convert<T>(math::exp(load(row[i]) - largest) * scale);
}

template <class T, bool WholeBlock>
__global__ void softmax_grad_kernel(const T* y, const T* dy, std::int64_t rows, std::int64_t n,
                                    T* dx) {
  using Group = Team<WholeBlock>;
  const std::int64_t r = Group::row();
  if (r >= rows) return;
  accumulate_t<T> inner = 0;
  for (std::int64_t i = Group::index(); i < n; i += Group::size)
    inner += load(y[r * n + i]) * load(dy[r * n + i]);
  inner = Group::sum(inner);
  for (std::int64_t i = Group::index(); i < n; i += Group::size)
    dx[r * n + i] = convert<T>(load(y[r * n + i]) * (load(dy[r * n + i]) - inner));
}

template <class T, bool WholeBlock>
__global__ void argmax_kernel(const T* x, std::int64_t rows, std::int64_t n, std::int64_t* y) {
  using Group = Team<WholeBlock>;
  const std::int64_t r = Group::row();
  if (r >= rows) return;
  const T* row = x + r * n;
  const auto largest = row_max<T, Group>(row, n);
  // The first index that is not smaller, as a maximum of negated indices, which doubles hold
  // exactly. For a row of NaNs it is the last index, as on the CPU.
  double first = -static_cast<double>(n - 1);
  for (std::int64_t i = Group::index(); i < n; i += Group::size)
    if (load(row[i]) >= largest) first = larger(first, -static_cast<double>(i));
  first = Group::max(first);
  if (Group::index() == 0) y[r] = static_cast<std::int64_t>(-first);
}

template <class T, bool WholeBlock>
__global__ void sample_kernel(const T* x, const double* uniform, std::int64_t rows, std::int64_t n,
                              std::int64_t* y) {
  using Group = Team<WholeBlock>;
  using A = accumulate_t<T>;
  const std::int64_t r = Group::row();
  if (r >= rows) return;
  const T* row = x + r * n;
  const A largest = row_max<T, Group>(row, n);
  A rest = static_cast<A>(uniform[r]) * sum_of_exponentials<T, Group>(row, largest, n);
  std::int64_t begin = 0;
  for (; begin + Group::size < n; begin += Group::size) {
    const A sum = Group::sum(math::exp(load(row[begin + Group::index()]) - largest));
    if (rest < sum) break;
    rest -= sum;
  }
  if (Group::index() != 0) return;
  const std::int64_t last = (begin + Group::size < n ? begin + Group::size : n) - 1;
  while (begin < last && (rest -= math::exp(load(row[begin]) - largest)) >= 0) ++begin;
  y[r] = begin;
}

/// The largest number so far with its place, and the sum of exp(number − largest).
template <class A>
struct Online {
  A largest, sum;
  std::int64_t place;

  /// Adds the numbers of a pack that begins at `first`.
  template <class T, int V>
  NYSTROM_DEVICE void add(const Pack<T, V>& pack, std::int64_t first) {
    const A before = largest;
    NYSTROM_UNROLL
    for (int i = 0; i < V; ++i) {
      const A x = load(pack.value[i]);
      if (x > largest) {
        largest = x;
        place = first + i;
      }
    }
    if (largest > before) sum *= math::exp(before - largest);
    NYSTROM_UNROLL
    for (int i = 0; i < V; ++i) {
      const A x = load(pack.value[i]);
      // Numbers of −∞ alone have the weight 0, and their difference would be NaN.
      if (!(x == largest && x == -static_cast<A>(INFINITY))) sum += math::exp(x - largest);
    }
  }
};

/// One pass over the logits: losses, and the first place of the largest, if asked for.
template <class T, int V, bool WholeBlock>
__global__ void cross_entropy_kernel(const T* logits, const std::int64_t* labels, double z_loss,
                                     std::int64_t rows, std::int64_t n, accumulate_t<T>* loss,
                                     double* log_sum_exp, std::int64_t* argmax) {
  using Group = Team<WholeBlock>;
  using A = accumulate_t<T>;
  const std::int64_t r = Group::row();
  if (r >= rows) return;
  const T* row = logits + r * n;
  Online<A> mine{-static_cast<A>(INFINITY), 0, n - 1};
  for (std::int64_t i = Group::index() * V; i < n; i += Group::size * V)
    mine.add(load_pack<V>(row + i), i);
  const A largest = Group::max(mine.largest);
  // The maximum of negated places, which doubles hold exactly.
  const double first = Group::max(mine.largest == largest ? -static_cast<double>(mine.place)
                                                          : -static_cast<double>(n - 1));
  const A sum =
      Group::sum(mine.largest == largest ? mine.sum : mine.sum * math::exp(mine.largest - largest));
  if (Group::index() != 0) return;
  const double total = largest + log(static_cast<double>(sum));
  log_sum_exp[r] = total;
  loss[r] =
      labels[r] < 0 ? A(0) : static_cast<A>(total - load(row[labels[r]]) + z_loss * total * total);
  if (argmax) argmax[r] = static_cast<std::int64_t>(-first);
}

// dlogits may be logits, where both have one type: each thread reads and writes its own entries
// only.
template <class T, int V, bool WholeBlock>
__global__ void cross_entropy_grad_kernel(const T* logits, const std::int64_t* labels,
                                          double z_loss, const double* log_sum_exp,
                                          const accumulate_t<T>* dloss, std::int64_t rows,
                                          std::int64_t n, Mixed<accumulate_t<T>, false> dlogits) {
  using Group = Team<WholeBlock>;
  using A = accumulate_t<T>;
  const std::int64_t r = Group::row();
  if (r >= rows) return;
  const std::int64_t label = labels[r];
  const double total = log_sum_exp[r];
  const A high = static_cast<A>(total), low = static_cast<A>(total - high);
  const A weight = static_cast<A>(1 + 2 * z_loss * total), scale = dloss[r];
  for (std::int64_t i = Group::index() * V; i < n; i += Group::size * V) {
    const Pack<T, V> pack = load_pack<V>(logits + r * n + i);
    Pack<A, V> gradient;
    NYSTROM_UNROLL
    for (int k = 0; k < V; ++k) {
      const A p = weight * math::exp(load(pack.value[k]) - high - low);
      gradient.value[k] = label < 0 ? A(0) : scale * (i + k == label ? p - 1 : p);
    }
    dlogits.set_pack(r * n + i, gradient);
  }
}

/// Launches the kernel for the length of its rows.
template <class... Parameters, class... Arguments>
void launch_rows(std::int64_t rows, std::int64_t n, void (*warp)(Parameters...),
                 void (*whole)(Parameters...), Arguments&&... arguments) {
  if (n <= longest_of_warp) {
    launch(warp, dim3(static_cast<unsigned>(divide_up(rows, Team<false>::rows_per_block))),
           dim3(block), 0, arguments...);
  } else {
    launch(whole, dim3(static_cast<unsigned>(rows)), dim3(block), 0, arguments...);
  }
}

}  // namespace

void softmax(CView x, View y) {
  visit_any_float(x.dtype, [&]<class T>(TypeTag<T>) {
    launch_rows(x.rows(), x.dim(-1), softmax_kernel<T, false>, softmax_kernel<T, true>, x.as<T>(),
                x.rows(), x.dim(-1), y.as<T>());
  });
}

void softmax_grad(CView y, CView dy, View dx) {
  visit_any_float(y.dtype, [&]<class T>(TypeTag<T>) {
    launch_rows(y.rows(), y.dim(-1), softmax_grad_kernel<T, false>, softmax_grad_kernel<T, true>,
                y.as<T>(), dy.as<T>(), y.rows(), y.dim(-1), dx.as<T>());
  });
}

void argmax_rows(CView x, View y) {
  visit_any_float(x.dtype, [&]<class T>(TypeTag<T>) {
    launch_rows(x.rows(), x.dim(-1), argmax_kernel<T, false>, argmax_kernel<T, true>, x.as<T>(),
                x.rows(), x.dim(-1), y.as<std::int64_t>());
  });
}

void sample_rows(CView x, CView uniform, View y) {
  visit_any_float(x.dtype, [&]<class T>(TypeTag<T>) {
    launch_rows(x.rows(), x.dim(-1), sample_kernel<T, false>, sample_kernel<T, true>, x.as<T>(),
                uniform.as<double>(), x.rows(), x.dim(-1), y.as<std::int64_t>());
  });
}

void cross_entropy(CView logits, CView labels, double z_loss, View loss, View log_sum_exp,
                   View argmax) {
  visit_any_float(logits.dtype, [&]<class T>(TypeTag<T>) {
    using A = accumulate_t<T>;
    with_pack<T>(logits.dim(-1), {logits.data}, [&](auto pack) {
      launch_rows(logits.rows(), logits.dim(-1), cross_entropy_kernel<T, pack(), false>,
                  cross_entropy_kernel<T, pack(), true>, logits.as<T>(), labels.as<std::int64_t>(),
                  z_loss, logits.rows(), logits.dim(-1), loss.as<A>(), log_sum_exp.as<double>(),
                  argmax.as<std::int64_t>());
    });
  });
}

void cross_entropy_grad(CView logits, CView labels, double z_loss, CView log_sum_exp, CView dloss,
                        View dlogits) {
  visit_any_float(logits.dtype, [&]<class T>(TypeTag<T>) {
    using A = accumulate_t<T>;
    with_pack<T>(logits.dim(-1), {logits.data, dlogits.data}, [&](auto pack) {
      launch_rows(logits.rows(), logits.dim(-1), cross_entropy_grad_kernel<T, pack(), false>,
                  cross_entropy_grad_kernel<T, pack(), true>, logits.as<T>(),
                  labels.as<std::int64_t>(), z_loss, log_sum_exp.as<double>(), dloss.as<A>(),
                  logits.rows(), logits.dim(-1), mixed<A>(dlogits));
    });
  });
}

}  // namespace nystrom::kernels::cuda
