// The architectures of BERT's family whose folders transformers writes: the defaults and keys of
// their config.json, their classes, and the names of their tensors. nystrom reads such a folder as
// an encoder with exact attention and without convolution.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nn/model_config.h"

namespace nystrom {

/// One architecture. The table of all of them is in architecture.cpp.
struct Architecture {
  /// A key of config.json with another name than in ModelConfig; empty: there is no such key.
  struct Key {
    std::string_view ours, theirs;
  };
  /// A part of a tensor's name, between dots, and its name here. It applies to models with `head`,
  /// or to all.
  struct Rename {
    std::string_view theirs, ours;
    std::optional<Head> head = std::nullopt;
  };

  std::string_view model_type;    ///< "xlm-roberta"
  std::string_view class_prefix;  ///< "XLMRoberta", as in XLMRobertaForMaskedLM
  std::string_view base;          ///< "roberta", before the names of the encoder's tensors
  /// The defaults of the class's configuration.
  ModelConfig defaults;
  std::span<const Key> keys{};
  std::span<const Rename> renames{};
  /// The head that is read of the class …ForPreTraining, where transformers has it.
  std::optional<Head> of_pretraining = std::nullopt;
  /// Whether one tensor of a layer has the projections of queries, keys and values, one above the
  /// other. parameter_name gives that of the queries.
  bool joint_projections = false;

  /// The parameter that a tensor of the file is, in a model with `head`. Nothing for tensors that
  /// such a model does not read: buffers, and a pooler or a second head without use.
  std::optional<std::string> parameter_name(std::string_view tensor, Head head) const;
  /// Whether the tensor is a buffer.
  bool is_redundant(std::string_view tensor) const;
  /// The parameters that are parts of one tensor of the file, in their order, given the one that
  /// parameter_name gives; that one alone if the tensor is not of several.
  std::vector<std::string> parts_of(const std::string& parameter) const;
  /// The tensor's name of a parameter, with the prefix of the encoder: the inverse.
  std::string tensor_name(std::string_view parameter, Head head) const;
  /// Whether the tensor belongs to the encoder. Its pooler does, which some heads read.
  bool is_of_encoder(std::string_view tensor) const;
  /// The key of config.json for the option `name` of ModelConfig; empty if there is none.
  std::string_view key_of(std::string_view name) const;
};

/// All architectures, sorted by model_type.
std::span<const Architecture> architectures();

/// The architecture with this model_type, or null.
const Architecture* find_architecture(std::string_view model_type);

}  // namespace nystrom
