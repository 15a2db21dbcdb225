// Export of a model as a Hugging Face folder with config.json, weights, tokenizer and model card.
// The folder is complete or absent.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/embedded_file.h"
#include "core/base/log.h"
#include "train/state/hf_config.h"
#include "train/state/model_folder.h"
#include "train/state/transformers_class.h"

namespace nystrom {

/// The classes with which transformers runs an exported folder.
enum class ExportFormat {
  automatic,     ///< those of BERT's family if they compute this model, else nystrom
  nystrom,       ///< those in the folder (model_classes), or transformers' own if they are equal
  transformers,  ///< transformers' Nyströmformer, whatever it computes
  bert,          ///< here and below: those of this model_type
  camembert,
  distilbert,
  electra,
  modernbert,
  roberta,
  xlm_roberta
};

std::span<const EnumName<ExportFormat>> enum_names(ExportFormat);

/// The ONNX files of an export: none, onnx/model.onnx, or that and onnx/model_int8.onnx.
enum class OnnxExport { none, f32, int8 };

/// The options of an export.
struct ExportOptions {
  ExportFormat format = ExportFormat::automatic;
  bool softmax = false;  ///< exact attention in place of the model's own
  /// Adds the files of sentence-transformers, with this pooling, or with the model's.
  bool sentence_transformers = false;
  std::optional<SentencePooling> pooling = {};
  /// Reads the folder back and compares it. Where transformers runs its own classes, measures their
  /// differences and adds them to the card.
  bool verify = false;
  OnnxExport onnx = OnnxExport::none;
};

/// The difference between nystrom's semantics on a text and transformers' semantics on the same
/// text. For transformers the text is padded to segment_means_seq_len, except for exact attention.
struct ExportDifference {
  std::int64_t tokens = 0;     ///< tokens of the text, with the special ones
  std::int64_t positions = 0;  ///< positions of transformers' row
  double absolute = 0;         ///< largest difference over all results at the text's tokens
  double relative = 0;         ///< absolute, divided by the largest of nystrom's results
};

/// The result of an export.
struct ExportResult {
  std::int64_t parameters = 0;
  std::vector<std::string> files;  ///< paths in the folder, sorted
  /// Of transformers' own classes; empty without verify, and for a folder with model_classes.
  std::vector<ExportDifference> differences;
};

/// hf_config_text with what a folder made of `source` keeps of its task: how text is cut into
/// words.
std::string config_text_of(const ModelFolder& source, const ModelConfig& config);

/// Exports `source` into `folder`, which must not exist or be empty; its parents are created. All
/// files are written into a folder beside it, which is renamed at the end and removed after an
/// error. `log` and the card describe the differences of transformers' own classes. Throws an
/// InputError for models that the format cannot represent (see exported_config, onnx_obstacle), for
/// a tokenizer with more tokens than the model has rows, for `softmax` of a model whose weights do
/// not fit it, for sentence_transformers without a tokenizer, with landmarks, or with a prompt that
/// names a special token, and when the system refuses. Throws an Error when files that are read
/// back differ from the written ones. `measure` gets the complete folder before it has its name:
/// what it throws leaves none.
ExportResult export_model(const ModelFolder& source, const std::filesystem::path& folder,
                          const ExportOptions& options, Log& log,
                          const std::function<void(const std::filesystem::path&)>& measure = {});

/// The configuration of an export. With `softmax`, and for models of that kind, transformers' own
/// class computes exact attention at any length, because segment_means_seq_len is num_landmarks.
/// That class has no sentence-order head, which is left out of a folder without model_classes().
/// Throws an InputError with the export_obstacle for ExportFormat::transformers.
ModelConfig exported_config(const ModelConfig& config, const ExportOptions& options);

/// The differences of transformers' own class from nystrom for this model, one sentence each.
std::vector<std::string> export_notes(const ModelConfig& exported);

/// The classes with which transformers runs every model of nystrom: configuration_nystrom.py and
/// modeling_nystrom.py of python/export/. The build generates the definition.
std::span<const EmbeddedFile> model_classes();

// ---- Verification, and measurement of the differences (export_verification.cpp) -----------------

/// Reads `folder` back and compares it with its source: weights bit by bit with `source`, ids,
/// templates, token types and special tokens of sample texts with `tokenizer`, and the model
/// classes with this program's. `tokenizer` is null if there is none. For a folder that names
/// transformers' own class, then runs the model in both semantics on texts of up to `longest`
/// tokens. They are bundled texts or, without a tokenizer, random ids. Throws an Error when
/// anything differs, and when results of exact attention differ beyond rounding.
std::vector<ExportDifference> verify_export(const std::filesystem::path& folder,
                                            const Model& source, const Tokenizer* tokenizer,
                                            std::int64_t longest);

/// The files of `folder` that have the name of a model class and another text: "a.py and b.py".
/// They were edited, or are of another version. Empty if there are none.
std::string foreign_classes(const std::filesystem::path& folder);

/// The folder as transformers reads it: config.json without the `nystrom` block, but for the layers
/// of its vectors, which transformers leaves out and load_model would miss.
ModelFolder as_in_transformers(const ModelFolder& folder);

// ---- The README.md of the folder (model_card.cpp) -----------------------------------------------

/// The content of a model card.
struct ModelCard {
  std::string title;
  ModelConfig config;                          ///< as exported
  const Architecture* architecture = nullptr;  ///< of BERT's family, as which the folder is written
  std::int64_t parameters = 0;
  std::int64_t longest = 0;                   ///< the longest input in tokens
  bool has_classes = false;                   ///< whether the folder has model_classes()
  bool has_onnx = false;                      ///< whether it has onnx/model.onnx
  bool makes_vectors = false;                 ///< whether it has sentence-transformers' files
  double threshold = 0.5;                     ///< of multi_label: task.threshold
  bool has_tokenizer = false;                 ///< whether the folder has a tokenizer
  std::string mask_token;                     ///< its text; empty if there is none
  std::vector<std::string> notes;             ///< see export_notes
  std::vector<ExportDifference> differences;  ///< empty if not measured
};

/// Whether transformers' own class runs Nyström attention, which takes rows of one length.
bool takes_one_length(const ModelCard& card);

/// The card in Markdown with YAML front matter: a description of the model, its use with
/// transformers and nystrom, and the differences between these. The Python code in it runs in the
/// card's folder, and so do its commands if they name the folder.
std::string model_card(const ModelCard& card);

// ---- The files that make one vector of a text (sentence_transformers.cpp) -----------------------

/// The ability that sentence-transformers lacks, for a message; empty if it computes these vectors.
std::string vectors_obstacle(const EmbeddingConfig& embedding);

/// Writes modules.json, 1_Pooling, a Dense for each layer, sentence_bert_config.json and
/// config_sentence_transformers.json into `folder`, for a model without vectors_obstacle(). Texts
/// are cut to `longest` tokens, with the special ones. Prompts are those of the folder `source`,
/// which the model came from; those of its configuration replace them. Throws an InputError when
/// the system refuses.
void write_sentence_transformers(const std::filesystem::path& folder, const ModelFolder& source,
                                 const Model& model, std::int64_t longest);

}  // namespace nystrom
