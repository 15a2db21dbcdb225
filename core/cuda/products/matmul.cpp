// f32, bf16 and f16 matrix products through cuBLASLt, which is column-major. The row-major C = A B
// is the column-major Cᵀ = Bᵀ Aᵀ. So b is the first operand, and the bias, one number a row of Cᵀ,
// is an epilogue.
#include <algorithm>
#include <bit>
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/check.h"
#include "core/cuda/products/cublaslt.h"
#include "core/cuda/runtime.h"
#include "core/cuda/stream.h"
#include "core/kernels.h"
#include "core/strides.h"
#include "core/tensor.h"

namespace nystrom::kernels::cuda {
namespace {

using namespace nystrom::cuda;

constexpr std::size_t max_workspace = std::size_t{32} << 20;  // NVIDIA's advice for Hopper

void check_blas(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw Error(fmt::format("{}: {}", what, cublaslt().status_string(status)));
}

cublasLtHandle_t handle() {
  static const cublasLtHandle_t instance = [] {
    cublasLtHandle_t made = nullptr;
    check_blas(cublaslt().create(&made), "starting cuBLASLt");
    return made;
  }();
  return instance;
}

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::bf16: return CUDA_R_16BF;
    case DType::f16: return CUDA_R_16F;
    default: return CUDA_R_32F;
  }
}

/// The form of matrices that the library multiplies without a copy: a batch of matrices in
/// column-major form, rows × columns, with one stride between matrices. A row-major matrix is the
/// transpose of a column-major one.
struct MatrixLayout {
  bool transposed;  ///< whether a row-major product transposes it
  std::int64_t rows, columns, leading, batch_stride;
};

/// The stride between matrices of the result's batch, if a single number expresses it. 0 repeats
/// the matrix.
std::optional<std::int64_t> batch_stride_of(const ViewBase& view, const ViewBase& result) {
  std::optional<std::int64_t> stride;
  std::int64_t inner = 1;
  for (int axis = result.rank - 3; axis >= 0; --axis) {
    if (result.shape[axis] == 1) continue;
    const int own = axis - result.rank + view.rank;
    const std::int64_t step = own >= 0 && view.shape[own] != 1 ? view.stride[own] : 0;
    if (!stride) {
      stride = step;
    } else if (step != *stride * inner) {
      return {};
    }
    inner *= result.shape[axis];
  }
  return stride.value_or(0);
}

/// The layout of `view` as an operand of `result`; nothing if no axis has unit stride, if strides
/// overlap, or if no single stride leads through the batch.
std::optional<MatrixLayout> matrix_layout(const ViewBase& view, const ViewBase& result) {
  const std::int64_t rows = view.dim(-2), columns = view.dim(-1);
  const auto stride = batch_stride_of(view, result);
  if (!stride) return {};
  if ((columns == 1 || view.step(-1) == 1) && (rows == 1 || view.step(-2) >= columns))
    return MatrixLayout{false, columns, rows, rows == 1 ? columns : view.step(-2), *stride};
  if ((rows == 1 || view.step(-2) == 1) && (columns == 1 || view.step(-1) >= rows))
    return MatrixLayout{true, rows, columns, columns == 1 ? rows : view.step(-1), *stride};
  return {};
}

/// An operand in cuBLASLt's form.
struct Matrix : MatrixLayout {
  const void* data;
  cudaDataType_t type;
};

/// cuBLASLt's form of `view`; nothing if it has none (matrix_layout).
std::optional<Matrix> matrix_of(const CView& view, const ViewBase& result) {
  const auto layout = matrix_layout(view, result);
  if (!layout) return {};
  return Matrix{*layout, view.data, type_of(view.dtype)};
}

/// An operand in cuBLASLt's form: `view` itself, or a contiguous copy that this object owns.
class Operand {
 public:
  Operand(const CView& view, const ViewBase& result) {
    if (const auto direct = matrix_of(view, result)) {
      matrix_ = *direct;
      return;
    }
    copy_ = Tensor::empty(Shape(view), view.dtype, view.device);
    kernels::copy(view, copy_);
    const auto contiguous = matrix_of(copy_, result);
    if (!contiguous) {  // some batch axes repeat and others do not
      CView wide = view;
      static_cast<ViewBase&>(wide) = broadcast_batch(view, result);
      copy_ = Tensor::empty(Shape(wide), view.dtype, view.device);
      kernels::copy(wide, copy_);
    }
    matrix_ = contiguous ? *contiguous : *matrix_of(copy_, result);
  }
  const Matrix& matrix() const { return matrix_; }

 private:
  /// `view` with the batch axes of the result; repeated axes have stride 0.
  static ViewBase broadcast_batch(const ViewBase& view, const ViewBase& result) {
    ViewBase wide = result;
    wide.dtype = view.dtype;
    for (int i = 1; i <= 2; ++i) wide.shape[result.rank - i] = view.dim(-i);
    return broadcast_view(view, wide);
  }

  Tensor copy_;
  Matrix matrix_;
};

std::uint32_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  return static_cast<std::uint32_t>(std::min<std::uintptr_t>(address & (~address + 1), 256));
}

/// A plan for products of given shapes, made once and run often.
struct Plan {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t first = nullptr, second = nullptr, result = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  std::size_t workspace = 0;
  bool possible = false;  ///< whether cuBLASLt has an algorithm
  bool borrowed = false;  ///< whether it was offered to a problem like this one
};

/// Protects all below, and a plan from the choice of its epilogue's pointer to the call.
std::mutex products_mutex;
bool timing = false;  ///< whether new plans time their algorithms
/// Every product that a plan was made for, by its text.
std::unordered_map<std::string, Product>& known_products() {
  static auto& instance = *new std::unordered_map<std::string, Product>;
  return instance;
}

template <class T>
void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check_blas(cublaslt().set_product(operation, attribute, &value, sizeof(value)),
             "describing a product");
}

cublasLtMatrixLayout_t layout_of(const Matrix& m, std::int32_t batch) {
  cublasLtMatrixLayout_t layout = nullptr;
  check_blas(cublaslt().create_layout(&layout, m.type, static_cast<std::uint64_t>(m.rows),
                                      static_cast<std::uint64_t>(m.columns), m.leading),
             "describing a matrix");
  check_blas(
      cublaslt().set_layout(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof(batch)),
      "describing a batch");
  check_blas(cublaslt().set_layout(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                   &m.batch_stride, sizeof(m.batch_stride)),
             "describing a batch");
  return layout;
}

struct Problem {
  Matrix first, second, result;
  std::int32_t batch;
  Precision precision;
  const void* bias = nullptr;
  cudaDataType_t bias_type = CUDA_R_32F;
  void* before_gelu = nullptr;  ///< if there is one: where the result without it goes
};

/// Multiplies into `d`, to which `beta` times its numbers are added.
cublasStatus_t multiply_by(const Plan& plan, const Problem& p,
                           const cublasLtMatmulAlgo_t& algorithm, float beta, void* d,
                           void* workspace, std::size_t bytes) {
  const float one = 1;
  return cublaslt().multiply(handle(), plan.operation, &one, p.first.data, plan.first,
                             p.second.data, plan.second, &beta, d, plan.result, d, plan.result,
                             &algorithm, workspace, bytes, stream());
}

std::string text_of(const Problem& p) {
  const auto name = [](cudaDataType_t type) {
    return type == CUDA_R_16BF ? "bf16" : type == CUDA_R_16F ? "f16" : "f32";
  };
  const auto rows = p.second.transposed ? p.second.rows : p.second.columns,
             depth = p.second.transposed ? p.second.columns : p.second.rows;
  std::string text = fmt::format("{} {}x{}x{} to {}, {}{}", name(p.first.type), rows, depth,
                                 p.result.rows, name(p.result.type), p.first.transposed ? 'T' : 'N',
                                 p.second.transposed ? 'T' : 'N');
  if (p.batch > 1) text += fmt::format(", batch {}", p.batch);
  if (p.precision == Precision::tf32) text += ", tf32";
  if (p.bias) text += ", bias";
  if (p.before_gelu) text += ", gelu";
  return text;
}

template <class T>
T setting_of(const cublasLtMatmulHeuristicResult_t& found,
             cublasLtMatmulAlgoConfigAttributes_t setting) {
  T value{};
  std::size_t written = 0;
  const bool known = cublaslt().get_setting(&found.algo, setting, &value, sizeof value, &written) ==
                     CUBLAS_STATUS_SUCCESS;
  return known ? value : T{};
}

std::string text_of(const cublasLtMatmulHeuristicResult_t& found) {
  constexpr std::pair<cublasLtMatmulAlgoConfigAttributes_t, const char*> settings[] = {
      {CUBLASLT_ALGO_CONFIG_ID, "id"},
      {CUBLASLT_ALGO_CONFIG_TILE_ID, "tile"},
      {CUBLASLT_ALGO_CONFIG_STAGES_ID, "stages"},
      {CUBLASLT_ALGO_CONFIG_SPLITK_NUM, "splits"},
      {CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, "reduction"},
      {CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, "swizzle"},
      {CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, "custom"}};
  std::string text;
  for (const auto& [setting, name] : settings) {
    text += fmt::format("{} {}, ", name, setting_of<std::int32_t>(found, setting));
  }
  return text + fmt::format("waves {:.2f}, workspace {}", found.wavesCount, found.workspaceSize);
}

/// The seconds of an algorithm, which multiplies into memory of its own.
double seconds_of(const Plan& plan, const Problem& p, const ViewBase& like,
                  const cublasLtMatmulHeuristicResult_t& found) {
  constexpr int runs = 5;
  const std::int64_t numbers =
      (p.batch - 1) * p.result.batch_stride + p.result.leading * p.result.columns;
  const Workspace<char> result(like, 4 * numbers),
      workspace(like, static_cast<std::int64_t>(found.workspaceSize));
  std::chrono::steady_clock::time_point start;
  for (int i = -1; i < runs; ++i) {
    if (i == 0) {
      synchronize(like.device.index);
      start = std::chrono::steady_clock::now();
    }
    if (multiply_by(plan, p, found.algo, 0, result.get(), workspace.get(), found.workspaceSize) !=
        CUBLAS_STATUS_SUCCESS)
      return -1;
  }
  synchronize(like.device.index);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / runs;
}

/// The algorithm to use, of those in cuBLASLt's order. On an H100 its first choice for results in
/// 16 bits was 3 to 20 % slower than these tiles. Measuring each product instead would give other
/// bits in other runs.
int preferred(const Problem& p, const cublasLtMatmulHeuristicResult_t* found, int count,
              int device) {
  if (p.result.type == CUDA_R_32F || compute_capability(device) != 90) return 0;
  std::vector<cublasLtMatmulTile_t> tiles{CUBLASLT_MATMUL_TILE_128x128,
                                          CUBLASLT_MATMUL_TILE_128x160};
  if (p.before_gelu) tiles = {CUBLASLT_MATMUL_TILE_96x128};
  for (const cublasLtMatmulTile_t tile : tiles) {
    for (int i = 0; i < count; ++i) {
      if (setting_of<std::uint32_t>(found[i], CUBLASLT_ALGO_CONFIG_TILE_ID) == tile &&
          setting_of<std::int32_t>(found[i], CUBLASLT_ALGO_CONFIG_SPLITK_NUM) == 1)
        return i;
    }
  }
  return 0;
}

/// The algorithms that cuBLASLt offers for a described problem, the one to use first.
std::vector<cublasLtMatmulHeuristicResult_t> offered(const Plan& plan, const Problem& p,
                                                     const ViewBase& view) {
  cublasLtMatmulPreference_t preference = nullptr;
  check_blas(cublaslt().create_preference(&preference), "choosing an algorithm");
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    check_blas(cublaslt().set_preference(preference, attribute, &value, sizeof(value)),
               "choosing an algorithm");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, max_workspace);
  // Parts of a long sum are added in f32, not in the result's type.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(p.first.data));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(p.second.data));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(p.result.data));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(p.result.data));
  std::vector<cublasLtMatmulHeuristicResult_t> found(8);
  int count = 0;
  const cublasStatus_t status = cublaslt().get_heuristic(
      handle(), plan.operation, plan.first, plan.second, plan.result, plan.result, preference,
      static_cast<int>(found.size()), found.data(), &count);
  cublaslt().destroy_preference(preference);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) check_blas(status, "choosing an algorithm");
  found.resize(static_cast<std::size_t>(count));
  if (count > 0) std::swap(found[0], found[preferred(p, found.data(), count, view.device.index)]);
  Product& product = known_products()[text_of(p)];
  product = {text_of(p), {}};
  for (const cublasLtMatmulHeuristicResult_t& each : found)
    product.algorithms.push_back({text_of(each), timing ? seconds_of(plan, p, view, each) : 0});
  return found;
}

/// The descriptions of a problem, without an algorithm.
Plan described(const Problem& p) {
  Plan plan;
  const bool tf32 = p.precision == Precision::tf32 && p.first.type == CUDA_R_32F;
  const cublasComputeType_t compute = tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  check_blas(cublaslt().create_product(&plan.operation, compute, CUDA_R_32F),
             "describing a product");
  set(plan.operation, CUBLASLT_MATMUL_DESC_TRANSA, p.first.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(plan.operation, CUBLASLT_MATMUL_DESC_TRANSB, p.second.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (p.before_gelu) {
    set(plan.operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.before_gelu);
    set(plan.operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.result.leading);
  }
  if (p.bias) {
    set(plan.operation, CUBLASLT_MATMUL_DESC_EPILOGUE,
        p.before_gelu ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_BIAS);
    set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, p.bias_type);
    set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  }
  plan.first = layout_of(p.first, p.batch);
  plan.second = layout_of(p.second, p.batch);
  plan.result = layout_of(p.result, p.batch);
  return plan;
}

void destroy(Plan& plan) {
  for (cublasLtMatrixLayout_t layout : {plan.first, plan.second, plan.result})
    cublaslt().destroy_layout(layout);
  cublaslt().destroy_product(plan.operation);
}

std::string key_of(const Problem& p) {
  std::string key;
  const auto append = [&](const auto& value) {
    key.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  for (const Matrix* m : {&p.first, &p.second, &p.result}) {
    append(m->type);
    append(m->transposed);
    append(m->rows);
    append(m->columns);
    append(m->leading);
    append(m->batch_stride);
    append(alignment_of(m->data));
  }
  append(p.batch);
  append(p.precision);
  append(p.bias_type);
  append(alignment_of(p.bias));  // cuBLASLt looks at the pointers when it chooses
  append(alignment_of(p.before_gelu));
  return key;
}

/// The algorithms that cuBLASLt offers for a problem that stands for others, asked once.
const std::vector<cublasLtMatmulHeuristicResult_t>& offered_to_like(const Problem& like,
                                                                    const ViewBase& view) {
  static auto& cache =
      *new std::unordered_map<std::string, std::vector<cublasLtMatmulHeuristicResult_t>>;
  const std::string key = key_of(like);
  if (const auto found = cache.find(key); found != cache.end()) return found->second;
  Plan plan = described(like);
  auto algorithms = offered(plan, like, view);
  destroy(plan);
  return cache.emplace(key, std::move(algorithms)).first->second;
}

/// A number of rows for which an algorithm is chosen: multiples of 64 as they are, others with all
/// up to the next eighth of their power of two.
std::int64_t like_rows(std::int64_t rows) {
  if (rows <= 64 || rows % 64 == 0) return rows;
  const auto unit = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(rows)) / 8);
  return (rows + unit - 1) / unit * unit;
}

/// The problem that stands for `p` in the choice of its algorithm. Batches of texts have another
/// number of rows at each step, and each choice takes longer than many a product.
Problem like_problem(const Problem& p) {
  Problem like = p;
  if (p.batch > 1 || timing) return like;  // algorithms are timed on the numbers of a product
  if (!p.second.transposed) {
    like.second.columns = like.result.columns = like_rows(p.result.columns);
  } else if (!p.first.transposed) {  // a gradient of weights: a sum over the rows
    like.first.columns = like.second.columns = like_rows(p.first.columns);
  }
  return like;
}

/// Chooses the algorithm that cuBLASLt offers first for the problem itself.
void choose_own(Plan& plan, const Problem& p, const ViewBase& view) {
  const auto own = offered(plan, p, view);
  plan.possible = !own.empty();
  plan.borrowed = false;
  if (own.empty()) return;
  plan.algorithm = own.front().algo;
  plan.workspace = own.front().workspaceSize;
}

Plan make_plan(const Problem& p, const ViewBase& view) {
  Plan plan = described(p);
  const Problem like = like_problem(p);
  if (like.first.columns != p.first.columns || like.second.columns != p.second.columns) {
    for (const cublasLtMatmulHeuristicResult_t& found : offered_to_like(like, view)) {
      cublasLtMatmulHeuristicResult_t here{};
      if (cublaslt().check_algorithm(handle(), plan.operation, plan.first, plan.second, plan.result,
                                     plan.result, &found.algo, &here) != CUBLAS_STATUS_SUCCESS ||
          here.workspaceSize > max_workspace)
        continue;
      plan.algorithm = found.algo;
      plan.workspace = here.workspaceSize;
      plan.possible = plan.borrowed = true;
      return plan;
    }
  }
  choose_own(plan, p, view);
  return plan;
}

/// Plans are cached by shapes, strides, types and alignments.
Plan& cached_plan(const Problem& p, const ViewBase& like) {
  static auto& cache = *new std::unordered_map<std::string, Plan>;
  constexpr std::size_t most = 4096;  // batches of varying size always have new shapes
  std::string key = key_of(p);
  if (const auto found = cache.find(key); found != cache.end()) return found->second;
  if (cache.size() >= most) {
    for (auto& [shape, plan] : cache) destroy(plan);
    cache.clear();
  }
  return cache.emplace(std::move(key), make_plan(p, like)).first->second;
}

/// Runs a plan. The epilogue's pointers are set before each run, because plans have none.
/// Returns false if cuBLASLt has no algorithm.
bool run(const Problem& p, const ViewBase& like, bool accumulate) {
  const std::lock_guard lock(products_mutex);
  Plan& plan = cached_plan(p, like);
  if (!plan.possible) return false;
  if (p.bias) set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  if (p.before_gelu) set(plan.operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.before_gelu);
  const auto multiply_now = [&] {
    const Workspace<char> workspace(like, static_cast<std::int64_t>(plan.workspace));
    return multiply_by(plan, p, plan.algorithm, accumulate ? 1 : 0,
                       const_cast<void*>(p.result.data), workspace.get(), plan.workspace);
  };
  count_launch();
  cublasStatus_t status = multiply_now();
  if (status != CUBLAS_STATUS_SUCCESS && plan.borrowed) {  // what passes the check may fail here
    choose_own(plan, p, like);
    if (!plan.possible) return false;
    status = multiply_now();
  }
  check_blas(status, "matrix product");
  return true;
}

nystrom::cuda::SlowProducts slow;

/// Counts products that have the right types for the tensor cores and do not get there.
void count_slow(const CView& a, const CView& b) {
  if (size_of(a.dtype) != 2) return;
  const std::lock_guard lock(products_mutex);
  if (++slow.count > 1) return;
  slow.first = fmt::format("{} [{}, {}] x {} [{}, {}]", name_of(a.dtype), a.dim(-2), a.dim(-1),
                           name_of(b.dtype), b.dim(-2), b.dim(-1));
}

/// c (+)= a b + bias, or the GELU of that, if the sum itself is to go elsewhere. Returns false if
/// cuBLASLt cannot.
bool multiply(const CView& a, const CView& b, const CView& bias, const View& c, bool accumulate,
              Precision precision, void* before_gelu = nullptr) {
  if (a.dtype == DType::f64 || a.dim(-1) == 0) return false;
  const Operand first(b, c), second(a, c);
  const auto result = matrix_of(c, c);
  require(result && !result->transposed, "matmul: the result must lie row by row");
  const auto batch = static_cast<std::int32_t>(c.numel() / (c.dim(-1) * c.dim(-2)));
  const bool tf32 = precision == Precision::tf32 && tensor_cores_take(DType::f32, c.device.index);
  Problem problem{first.matrix(), second.matrix(), *result, batch,
                  tf32 ? Precision::tf32 : Precision::full};
  if (bias) {
    problem.bias = bias.data;
    problem.bias_type = type_of(bias.dtype);
  }
  problem.before_gelu = before_gelu;
  if (run(problem, c, accumulate)) return true;
  if (!before_gelu) count_slow(a, b);
  return false;
}

}  // namespace

void matmul(CView a, CView b, CView bias, View c, bool accumulate, Precision precision) {
  if (c.numel() == 0) return;
  if (!multiply(a, b, bias, c, accumulate, precision))
    kernels::matmul_plain(a, b, bias, c, accumulate);
}

void matmul_unary(CView a, CView b, CView bias, Unary op, View c, View y) {
  // The epilogue is the tanh form, with the hardware's tanh: exact enough for bf16. On an H100 it
  // takes 20 % less time than a product and a pass. That of the gradient takes more.
  if (op == Unary::gelu_tanh && c.dtype == DType::bf16 && bias && c.numel() > 0 &&
      multiply(a, b, bias, y, false, Precision::full, c.data))
    return;
  kernels::matmul(a, b, bias, c, false, Precision::full);
  kernels::unary(op, c, y);
}

}  // namespace nystrom::kernels::cuda

nystrom::cuda::SlowProducts nystrom::cuda::slow_products() {
  const std::lock_guard lock(kernels::cuda::products_mutex);
  return kernels::cuda::slow;
}
void nystrom::cuda::time_products() {
  const std::lock_guard lock(kernels::cuda::products_mutex);
  kernels::cuda::timing = true;
}
std::vector<nystrom::cuda::Product> nystrom::cuda::products() {
  const std::lock_guard lock(kernels::cuda::products_mutex);
  std::vector<Product> result;
  for (const auto& [text, product] : kernels::cuda::known_products()) result.push_back(product);
  std::ranges::sort(result, {}, &Product::text);
  return result;
}
