// Parameters: their storage and their names.
//
// A Scope is a path. Modules are constructed under a scope and extend it, so the path is the
// Hugging Face name of a parameter. For example
//   SelfAttention(const Scope& s, …) : query_(s / "query", …)
// declares
//   nystromformer.encoder.layer.0.attention.self.query.weight
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/var.h"

namespace nystrom {

/// The initial values of a parameter: N(0, initializer_range), optionally with one row of zeros;
/// all zeros; or all ones.
struct Init {
  enum class Kind { normal, zeros, ones };
  Kind kind = Kind::normal;
  std::int64_t zero_row = -1;
};

/// `count` values of N(0, scale²) from the random stream of `name` under `seed` (Box & Muller). A
/// shorter result is a prefix of a longer one.
std::vector<double> normal_values(std::uint64_t seed, std::string_view name, std::int64_t count,
                                  double scale = 1);

/// One parameter. Copies refer to the same tensor, which exists once the store is allocated.
class Parameter {
 public:
  Parameter() = default;
  /// The value, for ops. Throws before ParameterStore::allocate, and before the parameter was
  /// initialised, set or loaded.
  const Var& var() const;
  operator const Var&() const { return var(); }
  /// The Hugging Face name.
  const std::string& name() const { return entry_->name; }
  /// The shape.
  const Shape& shape() const { return entry_->shape; }
  /// Whether weight decay applies: not to biases and LayerNorm.
  bool decays() const { return entry_->decay; }
  /// Whether products with it are to be those of 8 bits: see ParameterStore::round_to_int8.
  bool is_int8() const { return entry_->int8; }
  /// Whether training leaves it as it is: see ParameterStore::freeze.
  bool is_frozen() const { return entry_->frozen; }
  /// Gives the parameter, a single number, f32 values also in a store of 16 bits. Call it before
  /// the store is allocated.
  void keep_exact();

 private:
  friend class ParameterStore;
  struct Entry {
    std::string name;
    Shape shape;
    Init init;
    bool decay;           ///< whether weight decay applies: not to biases and LayerNorm
    std::int64_t offset;  ///< first element in the slabs
    Var var;
    bool has_values = false;   ///< whether set() was called
    bool int8 = false;         ///< whether round_to_int8() was called
    bool frozen = false;       ///< whether freeze() was called
    bool keeps_exact = false;  ///< whether keep_exact() was called
  };
  explicit Parameter(std::shared_ptr<Entry> entry) : entry_(std::move(entry)) {}
  std::shared_ptr<Entry> entry_;
};

/// Elements begin … end − 1 of a slab.
struct SlabRange {
  std::int64_t begin, end;
  /// The number of elements.
  std::int64_t size() const { return end - begin; }
};

/// The slabs of a store. inference: values only. training: values, gradients and, under bf16 and
/// f16, f32 masters.
enum class StoreMode { inference, training };

/// All parameters of a model in one slab, and their gradients in another. One kernel launch updates
/// all parameters, and one range is reduced over the processes.
class ParameterStore {
 public:
  ParameterStore() = default;
  ParameterStore(const ParameterStore&) = delete;
  ParameterStore& operator=(const ParameterStore&) = delete;

  /// Declares a parameter. Throws if the name exists. Call it before allocate.
  Parameter add(std::string name, const Shape& shape, Init init, bool decay);
  /// Excludes a parameter from training. It is a constant for the tape, so the backward pass ends
  /// where all that lies below is frozen. Its gradient stays 0. Call it before allocate.
  void freeze(std::string_view name);
  /// Allocates the slabs. Parameters have no values until initialise or set. With `masters`, the
  /// store keeps f32 masters of that range only. Throws an InputError when `device` does not
  /// compute in `dtype`.
  void allocate(DType dtype, StoreMode mode, Device device = cpu_device,
                std::optional<SlabRange> masters = {});
  /// Sets fresh values: N(0, standard_deviation) from (seed, name, element). They do not depend on
  /// the order of declaration.
  void initialise(std::uint64_t seed, double standard_deviation);
  /// Sets fresh values of the named parameters only.
  void initialise(std::uint64_t seed, double standard_deviation,
                  std::span<const std::string> names);
  /// Copies `values`, a CPU tensor of the parameter's shape and any floating type, to parameter
  /// `name`. Throws an Error before allocate.
  void set(std::string_view name, const Tensor& values);
  /// Rounds a matrix with values by to_int8_rows. From then on layers round what they multiply with
  /// it by round_to_uint8, so that the model computes what an int8 file does (train/export). For
  /// f32 on the CPU, without gradients.
  void round_to_int8(std::string_view name);
  /// The name of a parameter that holds NaN or an infinity; empty if none does.
  std::string not_finite() const;
  /// The most exact copy of a parameter: the f32 master in bf16 and f16 training, and the values of
  /// Parameter::keep_exact. Throws if the store keeps masters of a range only.
  Tensor master(std::string_view name) const;
  /// Whether a parameter has this name.
  bool has(std::string_view name) const;
  /// The gradient of a parameter.
  Tensor gradient(std::string_view name) const;

  /// The part of `slab` that belongs to parameter `name`. `slab` is laid out as the store's slabs,
  /// as an optimizer's moment is.
  Tensor part_of(const Tensor& slab, std::string_view name) const;

  /// All parameters, in order of declaration.
  std::vector<Parameter> parameters() const;
  /// The number of values, without the padding between parameters.
  std::int64_t count() const;
  /// The number of values that are not frozen.
  std::int64_t trained_count() const;
  /// The number of elements of a slab, with that padding.
  std::int64_t slab_size() const { return slab_size_; }
  /// The offset of parameter `name` in the slabs.
  std::int64_t offset_of(std::string_view name) const { return find(name).offset; }
  /// The elements of parameter `name` in the slabs, with the padding behind them.
  SlabRange range_of(std::string_view name) const;
  /// The elements of `range` that belong to parameters that are not frozen, as the fewest ranges.
  std::vector<SlabRange> trained_ranges(SlabRange range) const;
  /// The type of the values.
  DType dtype() const { return dtype_; }

  /// The slab of all values.
  Tensor values() const { return values_; }
  /// The slab of all gradients.
  Tensor gradients() const { return gradients_; }
  /// The slab of f32 masters, or of the range of them that the store keeps. It is the slab of
  /// values itself unless these have 16 bits.
  Tensor masters() const { return masters_; }
  /// The masters of a range that the store keeps.
  Tensor masters(SlabRange range) const;
  /// Rounds changed masters into the values. Does nothing if the values are the masters.
  void round_masters();
  /// The f32 values of Parameter::keep_exact in a store of 16 bits, and their offsets in the slabs.
  /// Where the store keeps masters of a range they are copies, which its owner of the range renews.
  std::vector<std::pair<std::int64_t, Tensor>> exact_values() const;
  /// The number of the model's next dropout, by order of construction.
  std::uint32_t next_dropout_site() { return dropout_sites_++; }

 private:
  Parameter::Entry& find(std::string_view name) const;
  Tensor exact_of(const Parameter::Entry& entry) const;

  std::vector<std::shared_ptr<Parameter::Entry>> entries_;
  std::map<std::string, std::size_t, std::less<>> places_;  // of the names in entries_
  std::int64_t slab_size_ = 0;
  std::uint32_t dropout_sites_ = 0;
  DType dtype_ = DType::f32;
  Tensor values_, gradients_, masters_;
  SlabRange masters_range_{0, 0};
};

/// A path in the tree of parameter names.
class Scope {
 public:
  /// The root of the tree: an empty path.
  explicit Scope(ParameterStore& store) : store_(&store) {}

  /// The scope `name` below this one.
  Scope operator/(std::string_view name) const;
  /// The path, with dots between names.
  const std::string& path() const { return path_; }
  /// Declares parameter `name` of this scope in the store.
  Parameter parameter(std::string_view name, const Shape& shape, Init init = {},
                      bool decay = true) const;
  /// The number of the model's next dropout.
  std::uint32_t next_dropout_site() const { return store_->next_dropout_site(); }
  /// The offset in the slabs of the next parameter to be declared.
  std::int64_t next_offset() const { return store_->slab_size(); }

 private:
  ParameterStore* store_;
  std::string path_;
};

}  // namespace nystrom
