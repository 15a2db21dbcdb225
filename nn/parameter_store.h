// Parameters: where they live and how they get their names.
//
// A Scope is a path; modules are constructed under one and extend it, and the path IS the Hugging
// Face parameter name:
//
//   SelfAttention(const Scope& s, …) : query_(s / "query", …)      //
//   nystromformer.encoder.layer.0.attention.self.query.weight
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/var.h"

namespace nystrom {

/// How a parameter starts: N(0, initializer_range), with one row of zeros, all zeros, or all ones.
struct Init {
  enum class Kind { normal, zeros, ones };
  Kind kind = Kind::normal;
  std::int64_t zero_row = -1;
};

/// `count` values of N(0, scale²) of the stream that belongs to `name` under `seed` (Box & Muller):
/// fewer are a prefix of more.
std::vector<double> normal_values(std::uint64_t seed, std::string_view name, std::int64_t count,
                                  double scale = 1);

/// One parameter. Modules hold copies; all mean the same tensor, which exists once the store is
/// allocated.
class Parameter {
 public:
  Parameter() = default;
  /// The value as ops take it. Throws before ParameterStore::allocate.
  const Var& var() const;
  operator const Var&() const { return var(); }
  const std::string& name() const { return entry_->name; }
  const Shape& shape() const { return entry_->shape; }
  /// Whether it takes part in weight decay: not biases, not LayerNorm.
  bool decays() const { return entry_->decay; }

 private:
  friend class ParameterStore;
  struct Entry {
    std::string name;
    Shape shape;
    Init init;
    bool decay;           ///< takes part in weight decay: not biases, not LayerNorm
    std::int64_t offset;  ///< elements into the slabs
    Var var;
  };
  explicit Parameter(std::shared_ptr<Entry> entry) : entry_(std::move(entry)) {}
  std::shared_ptr<Entry> entry_;
};

/// Elements begin … end − 1 of a slab.
struct SlabRange {
  std::int64_t begin, end;
  std::int64_t size() const { return end - begin; }
};

/// What the slabs hold: values only, or values, gradients and (under bf16 and f16) f32 masters.
enum class StoreMode { inference, training };

/// All parameters of a model in one slab, their gradients in another: one launch updates, one range
/// is reduced.
class ParameterStore {
 public:
  ParameterStore() = default;
  ParameterStore(const ParameterStore&) = delete;
  ParameterStore& operator=(const ParameterStore&) = delete;

  /// Declares a parameter; throws for a name that exists. Only before allocate.
  Parameter add(std::string name, const Shape& shape, Init init, bool decay);
  /// Makes the slabs. Values are uninitialised until initialise or set. With `masters` the store
  /// keeps f32 masters of that range alone. InputError when `device` does not compute in `dtype`.
  void allocate(DType dtype, StoreMode mode, Device device = cpu_device,
                std::optional<SlabRange> masters = {});
  /// Fresh values: N(0, standard_deviation) from (seed, name, element), so that they do not depend
  /// on the order of declaration.
  void initialise(std::uint64_t seed, double standard_deviation);
  /// The same for these parameters alone.
  void initialise(std::uint64_t seed, double standard_deviation,
                  std::span<const std::string> names);
  /// Gives `name` the values of a CPU tensor of its shape and any floating type.
  void set(std::string_view name, const Tensor& values);
  /// The most exact copy of a parameter: the f32 master under bf16 and f16 training. Throws where
  /// the store keeps a range of them alone.
  Tensor master(std::string_view name) const;
  Tensor gradient(std::string_view name) const;

  /// The part of `slab`, laid out as the store's own (a moment, say), that belongs to parameter
  /// `name`.
  Tensor part_of(const Tensor& slab, std::string_view name) const;

  /// In order of declaration.
  std::vector<Parameter> parameters() const;
  /// Number of trained values, without the padding between parameters.
  std::int64_t count() const;
  /// Elements of a slab, with that padding.
  std::int64_t slab_size() const { return slab_size_; }
  /// The offset in the slabs of parameter `name`.
  std::int64_t offset_of(std::string_view name) const { return find(name).offset; }
  DType dtype() const { return dtype_; }

  /// The slabs. `masters` is `values` itself unless these have 16 bits; a slab of masters_range()
  /// if that is all that is kept.
  Tensor values() const { return values_; }
  Tensor gradients() const { return gradients_; }
  Tensor masters() const { return masters_; }
  SlabRange masters_range() const { return masters_range_; }
  /// The masters of a range that is kept.
  Tensor masters(SlabRange range) const;
  /// Makes `values` the rounded masters again, where there are masters, after these were changed;
  /// nothing to do otherwise.
  void round_masters();
  /// Ends of runs of parameters that are treated alike, and whether they decay: what kernels::adamw
  /// takes.
  struct Segments {
    Tensor end;    ///< [k] i64
    Tensor decay;  ///< [k] f64: 1 or 0
  };
  Segments segments() const;

  /// A number for the next dropout of the model, by order of construction.
  std::uint32_t next_dropout_site() { return dropout_sites_++; }

 private:
  Parameter::Entry& find(std::string_view name) const;

  std::vector<std::shared_ptr<Parameter::Entry>> entries_;
  std::int64_t slab_size_ = 0;
  std::uint32_t dropout_sites_ = 0;
  DType dtype_ = DType::f32;
  Tensor values_, gradients_, masters_;
  SlabRange masters_range_{0, 0};
};

/// A place in the tree of names.
class Scope {
 public:
  explicit Scope(ParameterStore& store) : store_(&store) {}

  Scope operator/(std::string_view name) const;
  const std::string& path() const { return path_; }
  Parameter parameter(std::string_view name, const Shape& shape, Init init = {},
                      bool decay = true) const;
  std::uint32_t next_dropout_site() const { return store_->next_dropout_site(); }
  /// The offset in the slabs of the parameter that is declared next.
  std::int64_t next_offset() const { return store_->slab_size(); }

 private:
  ParameterStore* store_;
  std::string path_;
};

}  // namespace nystrom
