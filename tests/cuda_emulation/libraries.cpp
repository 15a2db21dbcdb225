// The emulated libraries: products of cuBLASLt and the sort of CUB, as plain loops.
#include <algorithm>
#include <bit>
#include <numeric>
#include <vector>

#include "core/cuda/products/cublaslt.h"
#include "core/cuda/rows/sort.cuh"
#include "core/cuda/stream.h"
#include "core/dtype.h"
#include "core/math.h"

struct EmulatedProduct {
  cublasOperation_t first = CUBLAS_OP_N, second = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  cudaDataType_t bias_type = CUDA_R_32F;
  void* aux = nullptr;
  std::int64_t aux_leading = 0;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
};

struct EmulatedLayout {
  cudaDataType_t type;
  std::uint64_t rows, columns;
  std::int64_t leading, stride = 0;
  std::int32_t batch = 1;

  bool valid() const {
    return leading >= static_cast<std::int64_t>(rows) && rows > 0 && columns > 0;
  }
  /// Whether no number belongs to two matrices of the batch, as a result needs.
  bool apart() const {
    return batch == 1 || stride >= leading * (static_cast<std::int64_t>(columns) - 1) +
                                       static_cast<std::int64_t>(rows);
  }
  std::int64_t at(std::int64_t b, std::int64_t row, std::int64_t column) const {
    return b * stride + column * leading + row;
  }
};

/// What the program promises of the operands when it asks for an algorithm.
struct EmulatedPreference {
  std::size_t workspace = 0;
  std::uint32_t reductions = 0, a = 256, b = 256, c = 256, d = 256;
};

namespace {

double read(const void* data, cudaDataType_t type, std::int64_t at) {
  switch (type) {
    case CUDA_R_16BF: return static_cast<float>(static_cast<const nystrom::bf16*>(data)[at]);
    case CUDA_R_16F: return static_cast<float>(static_cast<const nystrom::f16*>(data)[at]);
    case CUDA_R_32F: break;
  }
  return static_cast<const float*>(data)[at];
}

/// An operand as the product reads it.
double operand(const EmulatedProduct& p, const void* data, cudaDataType_t type, std::int64_t at) {
  const double value = read(data, type, at);
  if (p.compute != CUBLAS_COMPUTE_32F_FAST_TF32) return value;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) &
                              0xffffe000u);
}

void write(void* data, cudaDataType_t type, std::int64_t at, double value) {
  const auto number = static_cast<float>(value);
  switch (type) {
    case CUDA_R_16BF: static_cast<nystrom::bf16*>(data)[at] = nystrom::bf16(number); break;
    case CUDA_R_16F: static_cast<nystrom::f16*>(data)[at] = nystrom::f16(number); break;
    case CUDA_R_32F: static_cast<float*>(data)[at] = number; break;
  }
}

/// Bytes of a number.
std::uint32_t bytes_of(cudaDataType_t type) { return type == CUDA_R_32F ? 4 : 2; }

/// Whether cuBLASLt has the combination of types: the operands have one type, the result that or
/// f32, and the epilogue's vector the result's.
bool types_fit(const EmulatedProduct& p, const EmulatedLayout& a, const EmulatedLayout& b,
               const EmulatedLayout& d) {
  // Older tensor cores do not support bf16.
  if (a.type == CUDA_R_16BF && nystrom::emulation::compute_capability() < 80) return false;
  if (p.epilogue != CUBLASLT_EPILOGUE_DEFAULT && p.bias_type != d.type) return false;
  return a.type == b.type && (d.type == a.type || d.type == CUDA_R_32F);
}

bool fits(const EmulatedProduct& p, const EmulatedLayout& a, const EmulatedLayout& b,
          const EmulatedLayout& d) {
  const auto depth_a = p.first == CUBLAS_OP_N ? a.columns : a.rows,
             rows = p.first == CUBLAS_OP_N ? a.rows : a.columns;
  const auto depth_b = p.second == CUBLAS_OP_N ? b.rows : b.columns,
             columns = p.second == CUBLAS_OP_N ? b.columns : b.rows;
  return types_fit(p, a, b, d) && a.valid() && b.valid() && d.valid() && d.apart() &&
         depth_a == depth_b && rows == d.rows && columns == d.columns && a.batch == d.batch &&
         b.batch == d.batch &&
         (p.epilogue != CUBLASLT_EPILOGUE_GELU_AUX_BIAS ||
          (d.batch == 1 && p.aux_leading >= d.leading && p.aux_leading % 8 == 0));
}

bool aligned(const void* pointer, std::uint32_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
}

/// The largest power of two that divides the address, at most 256.
std::uint32_t alignment_of(const void* pointer) {
  const auto bits = reinterpret_cast<std::uintptr_t>(pointer) | 256;
  return static_cast<std::uint32_t>(bits & (~bits + 1));
}

/// The bytes that the parts of a split sum take.
std::size_t parts_of(const EmulatedLayout& d) {
  return 4 * d.rows * d.columns * static_cast<std::size_t>(d.batch);
}

/// One call of cublasLtMatmul, with copies of all that the program may change afterwards.
struct Call {
  EmulatedProduct p;
  EmulatedLayout la, lb, ld;
  double factor, keep;
  const void *a, *b, *c;
  void* d;

  double term(std::int64_t batch, std::int64_t row, std::int64_t column, std::int64_t k) const {
    const bool plain_a = p.first == CUBLAS_OP_N, plain_b = p.second == CUBLAS_OP_N;
    return operand(p, a, la.type, plain_a ? la.at(batch, row, k) : la.at(batch, k, row)) *
           operand(p, b, lb.type, plain_b ? lb.at(batch, k, column) : lb.at(batch, column, k));
  }
  std::int64_t depth() const {
    return static_cast<std::int64_t>(p.first == CUBLAS_OP_N ? la.columns : la.rows);
  }
  void run() const {
    for (std::int64_t batch = 0; batch < ld.batch; ++batch) {
      for (std::int64_t column = 0; column < static_cast<std::int64_t>(ld.columns); ++column) {
        for (std::int64_t row = 0; row < static_cast<std::int64_t>(ld.rows); ++row) {
          double sum = 0;
          for (std::int64_t k = 0; k < depth(); ++k) sum += term(batch, row, column, k);
          const std::int64_t at = ld.at(batch, row, column);
          double value = factor * sum;
          if (keep != 0) value += keep * read(c, ld.type, at);
          if (p.epilogue != CUBLASLT_EPILOGUE_DEFAULT) value += read(p.bias, p.bias_type, row);
          if (p.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) {
            write(p.aux, ld.type, column * p.aux_leading + row, value);
            value *= nystrom::math::gelu_tanh_gate(value);
          }
          write(d, ld.type, at, value);
        }
      }
    }
  }
};

/// Sets an attribute, as cuBLASLt's setters do, to a value of the right size.
template <class T>
cublasStatus_t set_attribute(T& target, const void* value, std::size_t size) {
  if (size != sizeof target) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&target, value, size);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_INVALID_VALUE ? "CUBLAS_STATUS_INVALID_VALUE"
                                               : "CUBLAS_STATUS_NOT_SUPPORTED";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t*) { return CUBLAS_STATUS_SUCCESS; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* operation,
                                        cublasComputeType_t compute, cudaDataType_t) {
  *operation = new EmulatedProduct;
  (*operation)->compute = compute;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t size) {
  const auto assign = [&](auto& target) { return set_attribute(target, value, size); };
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return assign(operation->first);
    case CUBLASLT_MATMUL_DESC_TRANSB: return assign(operation->second);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return assign(operation->epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return assign(operation->bias);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return assign(operation->bias_type);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: return assign(operation->aux);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: return assign(operation->aux_leading);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) {
  delete operation;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t leading) {
  *layout = new EmulatedLayout{type, rows, columns, leading};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, std::size_t size) {
  return attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT
             ? set_attribute(layout->batch, value, size)
             : set_attribute(layout->stride, value, size);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new EmulatedPreference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t size) {
  const auto assign = [&](auto& target) { return set_attribute(target, value, size); };
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return assign(preference->workspace);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return assign(preference->reductions);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: return assign(preference->a);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: return assign(preference->b);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: return assign(preference->c);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: return assign(preference->d);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* found) {
  *found = 0;
  *results = {};
  const std::uint32_t number = bytes_of(a->type);
  if (!fits(*operation, *a, *b, *d) || preference->a < number || preference->b < number ||
      preference->d < bytes_of(d->type))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  *found = 1;
  // A sum that is longer than the result is split, if there is room for its parts.
  const auto depth = operation->first == CUBLAS_OP_N ? a->columns : a->rows;
  results->algo = {
      depth > d->rows && depth > d->columns && parts_of(*d) <= preference->workspace,
      {preference->a, preference->b, preference->c, preference->d, alignment_of(operation->bias)}};
  if (results->algo.splits) results->workspaceSize = parts_of(*d);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t operation,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  if (!fits(*operation, *a, *b, *d)) return CUBLAS_STATUS_NOT_SUPPORTED;
  *result = {*algorithm, algorithm->splits ? parts_of(*d) : 0, CUBLAS_STATUS_SUCCESS, 1};
  return CUBLAS_STATUS_SUCCESS;
}

/// Its one algorithm has no settings.
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t*,
                                                    cublasLtMatmulAlgoConfigAttributes_t,
                                                    void* value, std::size_t size,
                                                    std::size_t* written) {
  std::memset(value, 0, size);
  *written = size;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  const Call call{*operation,
                  *a_layout,
                  *b_layout,
                  *d_layout,
                  *static_cast<const float*>(alpha),
                  *static_cast<const float*>(beta),
                  a,
                  b,
                  c,
                  d};
  if (!fits(call.p, call.la, call.lb, call.ld)) return CUBLAS_STATUS_INVALID_VALUE;
  const void* pointers[] = {a, b, c, d, call.p.bias};
  for (int i = 0; i < 5; ++i)
    if (!aligned(pointers[i], algorithm->alignment[i])) return CUBLAS_STATUS_INVALID_VALUE;
  if (call.p.epilogue != CUBLASLT_EPILOGUE_DEFAULT &&
      (!call.p.bias || !aligned(call.p.bias, bytes_of(call.p.bias_type))))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (algorithm->splits && (workspace_bytes < parts_of(*d_layout) || !aligned(workspace, 16) ||
                            !nystrom::emulation::is_device_memory(workspace, workspace_bytes)))
    return CUBLAS_STATUS_INVALID_VALUE;
  nystrom::emulation::enqueue(stream, [=] {
    if (workspace_bytes > 0) std::memset(workspace, 0xff, workspace_bytes);
    call.run();
    return true;
  });
  return CUBLAS_STATUS_SUCCESS;
}

namespace nystrom::cuda {

const CublasLt& cublaslt() {
  static const CublasLt instance = {cublasLtGetStatusString,
                                    cublasLtCreate,
                                    cublasLtMatmulDescCreate,
                                    cublasLtMatmulDescSetAttribute,
                                    cublasLtMatmulDescDestroy,
                                    cublasLtMatrixLayoutCreate,
                                    cublasLtMatrixLayoutSetAttribute,
                                    cublasLtMatrixLayoutDestroy,
                                    cublasLtMatmulPreferenceCreate,
                                    cublasLtMatmulPreferenceSetAttribute,
                                    cublasLtMatmulPreferenceDestroy,
                                    cublasLtMatmulAlgoGetHeuristic,
                                    cublasLtMatmulAlgoCheck,
                                    cublasLtMatmulAlgoConfigGetAttribute,
                                    cublasLtMatmul};
  return instance;
}

void sort_pairs(const ViewBase&, const std::uint32_t* keys, const std::uint32_t* values,
                std::uint32_t* sorted_keys, std::uint32_t* sorted_values, std::int64_t count, int) {
  count_launch();
  emulation::enqueue(stream(), [=] {
    std::vector<std::int64_t> order(static_cast<std::size_t>(count));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int64_t i, std::int64_t j) { return keys[i] < keys[j]; });
    for (std::int64_t i = 0; i < count; ++i) {
      sorted_keys[i] = keys[order[static_cast<std::size_t>(i)]];
      sorted_values[i] = values[order[static_cast<std::size_t>(i)]];
    }
    return true;
  });
}

}  // namespace nystrom::cuda
