// Model folders to export and the targets of exports.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/base/json.h"
#include "tests/support/fixtures.h"
#include "tests/support/models.h"
#include "tests/support/program_test.h"
#include "train/export/export.h"
#include "train/state/hf_config.h"

namespace nystrom::testing {

using Names = std::vector<std::string>;

/// For transformers' own class.
inline constexpr ExportOptions plain{.format = ExportFormat::transformers};
inline constexpr ExportOptions verified{.format = ExportFormat::transformers, .verify = true};

/// A source folder, a target folder, and the models in them.
class ExportTest : public ProgramTest {
 protected:
  /// Writes a model folder like a checkpoint of the trainer.
  ModelFolder write_model(const ModelConfig& config, DType dtype = DType::f32) {
    write_bytes(source() / "config.json", hf_config_text(config));
    write_safetensors(source() / "model.safetensors", weight_tensors(*make_model(config, dtype)));
    return ModelFolder(source()).with(config);
  }
  /// Writes a model with ALBERT's tokenizer of 30000 pieces.
  ModelFolder write_model_with_tokenizer(ModelConfig config) {
    config.vocab_size = 30000;
    config.pad_token_id = 0;
    const ModelFolder folder = write_model(config);
    std::filesystem::copy_file(fixture_folder() / "tokenizers" / "albert" / "spiece.model",
                               source() / "spiece.model");
    return folder;
  }

  std::filesystem::path source() const { return folder_ / "source"; }
  std::filesystem::path target() const { return folder_ / "target"; }
  using ProgramTest::run;
  ExportResult run(const ModelFolder& model, const ExportOptions& options = {}) {
    return export_model(model, target(), options, log_);
  }
  std::string card() const { return read_bytes(target() / "README.md"); }
  nlohmann::json config_json() const { return read_json_file(target() / "config.json"); }

  /// The exported model as transformers reads it, without the `nystrom` block.
  std::unique_ptr<Model> model_in_transformers(DType dtype) {
    nlohmann::json root = config_json();
    root.erase("nystrom");
    return load_model(ModelFolder(target()).with(parse_hf_config(root.dump(), "config.json")),
                      dtype, StoreMode::inference);
  }

  Log log_{true};
};

/// The first kernel of a convolution.
inline constexpr const char* first_kernel =
    "nystromformer.encoder.layer.0.attention.self.conv.weight";

}  // namespace nystrom::testing
