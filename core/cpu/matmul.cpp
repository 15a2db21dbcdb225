// f32 and bf16 matrix products through oneDNN, which selects its own vector code (AVX2 … AMX).
// Supports versions 2.6 and 3.x.
#include <dnnl.hpp>

#include <algorithm>
#include <array>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/cpu/parallel.h"
#include "core/kernels.h"
#include "core/tensor.h"

namespace nystrom::kernels::cpu {
namespace {

using dnnl::memory;

const dnnl::engine& engine() {
  static const dnnl::engine instance(dnnl::engine::kind::cpu, 0);
  return instance;
}

dnnl::stream& stream() {
  thread_local dnnl::stream instance(engine());
  return instance;
}

memory::data_type type_of(DType dtype) {
  if (dtype != DType::bf16 && dtype != DType::f32) throw_not_a_float(dtype);
  return dtype == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
}

/// Shape and strides with the rank of the result; missing leading axes have size 1. oneDNN derives
/// the layout from all strides, even of axes of size 1. So their strides are made canonical.
memory::desc describe(const ViewBase& view, int rank) {
  memory::dims sizes(static_cast<std::size_t>(rank), 1), strides(static_cast<std::size_t>(rank), 1);
  for (int i = 1; i <= view.rank; ++i) {
    sizes[static_cast<std::size_t>(rank - i)] = view.dim(-i);
    strides[static_cast<std::size_t>(rank - i)] = view.step(-i);
  }
  const auto column = static_cast<std::size_t>(rank - 1), row = static_cast<std::size_t>(rank - 2);
  if (sizes[column] == 1) strides[column] = 1;
  if (sizes[row] == 1) strides[row] = strides[column] == 1 ? sizes[column] : 1;
  for (std::size_t axis = row; axis-- > 0;) {
    if (sizes[axis] == 1)
      strides[axis] =
          std::max(sizes[axis + 1] * strides[axis + 1], sizes[column] * strides[column]);
  }
  return {sizes, type_of(view.dtype), strides};
}

struct Product {
  memory::desc a, b, c, bias, scratchpad;
  dnnl::matmul primitive;
};

Product make_product(const CView& a, const CView& b, const CView& bias, const View& c,
                     bool accumulate) {
  Product p{describe(a, c.rank), describe(b, c.rank), describe(c, c.rank), {}, {}, {}};
  dnnl::primitive_attr attributes;
  // The library's own scratchpad belongs to the thread that created the primitive. Ours is
  // allocated for each call.
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (accumulate) {
    dnnl::post_ops operations;
    operations.append_sum(1.0f);
    attributes.set_post_ops(operations);
  }
  if (bias) {
    p.bias = describe(bias, c.rank);
  }
#if DNNL_VERSION_MAJOR >= 3
  const auto description =
      bias ? dnnl::matmul::primitive_desc(engine(), p.a, p.b, p.bias, p.c, attributes)
           : dnnl::matmul::primitive_desc(engine(), p.a, p.b, p.c, attributes);
#else
  const auto operation =
      bias ? dnnl::matmul::desc(p.a, p.b, p.bias, p.c) : dnnl::matmul::desc(p.a, p.b, p.c);
  const dnnl::matmul::primitive_desc description(operation, attributes, engine());
#endif
  p.scratchpad = description.scratchpad_desc();
  p.primitive = dnnl::matmul(description);
  return p;
}

void append_key(std::string& key, const ViewBase& view) {
  key.push_back(static_cast<char>(view.dtype));
  key.push_back(static_cast<char>(view.rank));
  key.append(reinterpret_cast<const char*>(view.shape),
             sizeof(view.shape[0]) * static_cast<std::size_t>(view.rank));
  key.append(reinterpret_cast<const char*>(view.stride),
             sizeof(view.stride[0]) * static_cast<std::size_t>(view.rank));
}

/// Creating a primitive costs more than a small product. Primitives are cached by shape, strides,
/// types and number of threads.
Product cached_product(const CView& a, const CView& b, const CView& bias, const View& c,
                       bool accumulate) {
  static auto& cache = *new std::unordered_map<std::string, Product>;
  static std::mutex mutex;
  constexpr std::size_t most = 4096;  // batches of varying size always have new shapes
  std::string key = std::to_string(num_threads()) + (accumulate ? '+' : '=');
  append_key(key, a);
  append_key(key, b);
  append_key(key, c);
  if (bias) append_key(key, bias);
  const std::lock_guard lock(mutex);
  auto found = cache.find(key);
  if (found == cache.end()) {
    if (cache.size() >= most) cache.clear();
    found = cache.emplace(std::move(key), make_product(a, b, bias, c, accumulate)).first;
  }
  return found->second;
}

void run_product(const CView& a, const CView& b, const CView& bias, const View& c,
                 bool accumulate) {
  thread_local const bool whole_teams = (disable_dynamic_threads(), true);
  static_cast<void>(whole_teams);
  const Product p = cached_product(a, b, bias, c, accumulate);
  std::unordered_map<int, memory> arguments{
      {DNNL_ARG_SRC, memory(p.a, engine(), const_cast<void*>(a.data))},
      {DNNL_ARG_WEIGHTS, memory(p.b, engine(), const_cast<void*>(b.data))},
      {DNNL_ARG_DST, memory(p.c, engine(), c.data)}};
  if (bias)
    arguments.emplace(DNNL_ARG_BIAS, memory(p.bias, engine(), const_cast<void*>(bias.data)));
  const auto scratchpad =
      Arena::of(cpu_device).allocate(static_cast<std::int64_t>(p.scratchpad.get_size()));
  arguments.emplace(DNNL_ARG_SCRATCHPAD, memory(p.scratchpad, engine(), scratchpad.get()));
  p.primitive.execute(stream(), arguments);
  stream().wait();
}

/// oneDNN multiplies bf16 only with AVX-512.
bool has_bf16() { return cpu_level() >= CpuLevel::avx512; }

Tensor copy_of(const CView& x, DType dtype) {
  if (!x) return {};
  Tensor result = Tensor::empty(Shape(x), dtype);
  kernels::copy(x, result);
  return result;
}

/// Whether different indices share an element, as in a sliding window, other than along axes that
/// repeat it: oneDNN takes no such matrix.
bool overlaps(const CView& x) {
  if (x.is_contiguous()) return false;
  std::array<std::pair<std::int64_t, std::int64_t>, max_rank> axes;  // stride and size, ascending
  auto end = axes.begin();
  for (int i = 0; i < x.rank; ++i) {
    if (x.dim(i) <= 1 || x.step(i) <= 0) continue;
    auto place = end++;
    for (; place != axes.begin() && place[-1].first > x.step(i); --place) *place = place[-1];
    *place = {x.step(i), x.dim(i)};
  }
  std::int64_t span = 0;  // elements up to the last one of the axes so far
  for (auto axis = axes.begin(); axis != end; ++axis) {
    if (axis->first <= span) return true;
    span += axis->first * (axis->second - 1);
  }
  return false;
}

void run_as_f32(const CView& a, const CView& b, const CView& bias, const View& c, bool accumulate) {
  const Tensor wide_a = copy_of(a, DType::f32), wide_b = copy_of(b, DType::f32),
               wide_bias = copy_of(bias, DType::f32);
  if (c.dtype == DType::f32) return run_product(wide_a, wide_b, wide_bias, c, accumulate);
  Tensor wide_c = accumulate ? copy_of(c, DType::f32) : Tensor::empty(Shape(c), DType::f32);
  run_product(wide_a, wide_b, wide_bias, wide_c, accumulate);
  kernels::copy(wide_c, c);
}

}  // namespace

void matmul_unary(CView a, CView b, CView bias, Unary op, View c, View y) {
  kernels::matmul(a, b, bias, c, false, Precision::full);
  kernels::unary(op, c, y);
}

void matmul(CView a, CView b, CView bias, View c, bool accumulate, Precision precision) {
  if (c.numel() == 0) return;
  if (a.dtype == DType::f64 || a.dim(-1) == 0)
    return kernels::matmul_plain(a, b, bias, c, accumulate);
  if (overlaps(a)) return matmul(copy_of(a, a.dtype), b, bias, c, accumulate, precision);
  if (overlaps(b)) return matmul(a, copy_of(b, b.dtype), bias, c, accumulate, precision);
  if (a.dtype == DType::bf16 && !has_bf16()) return run_as_f32(a, b, bias, c, accumulate);
  run_product(a, b, bias, c, accumulate);
}

}  // namespace nystrom::kernels::cpu
