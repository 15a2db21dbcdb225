#include "train/state/other_models.h"

#include <fnmatch.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <set>
#include <vector>

#include "core/base/file_io.h"
#include "core/base/printable.h"
#include "core/check.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// A path of the environment, in which ~ stands for the home folder.
fs::path place(const std::string& text) {
  return text == "~" || text.starts_with("~/") ? fs::path(variable("HOME") + text.substr(1))
                                               : fs::path(text);
}

/// A file by which a folder is known, or a pattern of its name.
struct Sign {
  const char *file, *what, *way;
  /// Whether transformers converts it, with this argument of from_pretrained.
  std::optional<std::string_view> conversion = std::nullopt;
};

constexpr const char *original = "take the folder that it was made from",
                     *missing_config = "copy it from the folder that the training started from";

/// The first line that applies counts.
constexpr Sign signs[] = {
    {"adapter_config.json", "belongs to an adapter (LoRA or another), which changes a second model",
     "merge them: python -c \"from peft import AutoPeftModelForFeatureExtraction as M; "
     "M.from_pretrained('IN').merge_and_unload().save_pretrained('OUT')\", with the class of your "
     "task for M; or remove the adapter's files to read the model without it"},
    {"tf_model.h5", "holds weights of TensorFlow", "convert it with transformers 4",
     "from_tf=True"},
    {"flax_model.msgpack", "holds weights of Flax", "convert it with transformers 4",
     "from_flax=True"},
    {"*.ckpt.index", "belongs to a checkpoint of TensorFlow 1",
     "convert it with transformers 4: python -m transformers.models.bert."
     "convert_bert_original_tf_checkpoint_to_pytorch, then save it with save_pretrained"},
    {"*.onnx", "is a graph of ONNX, whose weights have lost their names", original},
    {"onnx", "holds graphs of ONNX, whose weights have lost their names", original},
    {"openvino_model.xml", "is a graph of OpenVINO, whose weights have lost their names", original},
    {"*.gguf", "is a file of llama.cpp", original},
    {"*.mlpackage", "is a model of Core ML", original},
    {"rust_model.ot", "holds weights of rust-bert", original},
    {"pytorch_model_fsdp_0", "holds shards of FSDP",
     "merge them: accelerate merge-weights IN OUT, and copy config.json beside the result"},
    {"zero_to_fp32.py", "belongs to shards of DeepSpeed",
     "merge them: python zero_to_fp32.py IN OUT, and copy config.json beside the result"},
    {"model.safetensors", "has no config.json beside it", missing_config},
    {"model.safetensors.index.json", "has no config.json beside it", missing_config},
    {"*-of-?????.safetensors", "is a part of weights without their model.safetensors.index.json",
     "copy that beside it"},
    {"*.safetensors", "has another name than model.safetensors",
     "rename it if it holds the whole model"},
    {"model.bin", "is a model of CTranslate2", original},
    {"*.pt", "has another name than pytorch_model.bin",
     "rename it if it is the state dict of the whole model"},
    {"*.pth", "has another name than pytorch_model.bin",
     "rename it if it is the state dict of the whole model"},
    {"*.ckpt", "is a checkpoint of a training", "save the model with save_pretrained"},
};

/// The line of Python that converts a folder.
std::string conversion(std::string_view argument) {
  return fmt::format(
      ": python -c \"from transformers import AutoModel; AutoModel.from_pretrained('IN'{}{})"
      ".save_pretrained('OUT')\", with the model's own class for AutoModel",
      argument.empty() ? "" : ", ", argument);
}

/// The names in a folder, sorted.
std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    names.insert(entry.path().filename().string());
  return names;
}

/// The folders below that hold a model, at most two levels deep.
std::vector<fs::path> models_below(const fs::path& folder, int levels = 2) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const std::string& name : names_in(folder)) {
    const fs::path below = folder / name;
    if (!fs::is_directory(below, ignored)) continue;
    if (fs::exists(below / "config.json", ignored)) {
      found.push_back(below);
    } else if (levels > 1) {
      const auto deeper = models_below(below, levels - 1);
      found.insert(found.end(), deeper.begin(), deeper.end());
    }
  }
  return found;
}

/// The snapshot that refs/main names in a model's folder of the cache (models--ORG--NAME); nothing
/// if it is not there.
std::optional<fs::path> main_snapshot(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::exists(folder / "refs" / "main", ignored)) return std::nullopt;
  const std::string commit = read_text_file(folder / "refs" / "main");
  const fs::path snapshot = folder / "snapshots" / commit.substr(0, commit.find_first_of("/ \r\n"));
  if (commit.starts_with('.') || snapshot.filename().empty() ||
      !fs::is_directory(snapshot, ignored))
    return std::nullopt;
  return snapshot;
}

struct Reason {
  std::string_view model_types, reason;
};

constexpr Reason reasons[] = {
    {"bart bigbird_pegasus blenderbot blenderbot-small fsmt led longt5 m2m_100 marian mbart mt5 "
     "mvp nllb-moe pegasus plbart prophetnet switch_transformers t5 t5gemma umt5 encoder-decoder",
     "it has a decoder, and its encoder has parts of its own"},
    {"bloom ctrl falcon gemma gemma2 gemma3_text gpt2 gpt_bigcode gpt_neo gpt_neox gptj llama "
     "mistral mixtral modernbert-decoder olmo openai-gpt opt phi phi3 qwen2 qwen3 smollm3 "
     "stablelm xglm",
     "a decoder reads earlier tokens only, and an encoder reads all"},
    {"deberta deberta-v2 mpnet nezha xlnet transfo-xl",
     "its attention has terms for the distance of two tokens"},
    {"esm eurobert neobert new nomic_bert roformer",
     "its layers with rotary positions are not those of a ModernBERT"},
    {"big_bird",
     "its attention is sparse: windows and global tokens; one of attention_type original_full is a "
     "BERT, and is read with model_type \"bert\" and a class BertFor…"},
    {"longformer", "its attention is sparse: windows and global tokens"},
    {"mega mra reformer yoso", "its attention is another approximation"},
    {"albert", "its layers share one set of weights"},
    {"megatron-bert rembert roberta-prelayernorm xlm-roberta-xl xmod",
     "its layers or embeddings have parts that nystrom lacks"},
    {"canine convbert fnet funnel ibert luke mobilebert mluke perceiver squeezebert",
     "its layers are not those of a BERT"},
    {"ernie", "it may have embeddings of tasks, which nystrom lacks"},
    {"data2vec-text", "its tensors have other names than those of a RoBERTa, which it equals"},
    {"flaubert xlm", "its embeddings of languages and its layers are not those of a BERT"},
    {"blip clip layoutlm layoutlmv2 layoutlmv3 lilt modernvbert siglip vit whisper wav2vec2",
     "it reads images, layouts or sound"},
};

}  // namespace

fs::path hub_cache() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"})
    if (const std::string cache = variable(name); !cache.empty()) return place(cache);
  if (const std::string home = variable("HF_HOME"); !home.empty()) return place(home) / "hub";
  const std::string caches = variable("XDG_CACHE_HOME");
  return place(caches.empty() ? "~/.cache" : caches) / "huggingface" / "hub";
}

bool is_hub_name(const std::string& name) {
  const auto is_word = [](std::string_view word) {
    const auto is_part = [](unsigned char c) {
      return std::isalnum(c) || c == '-' || c == '_' || c == '.';
    };
    return !word.empty() && word.size() <= 96 &&
           std::isalnum(static_cast<unsigned char>(word[0])) && std::ranges::all_of(word, is_part);
  };
  const std::size_t slash = name.find('/');
  return slash == name.npos ? is_word(name)
                            : is_word(name.substr(0, slash)) && is_word(name.substr(slash + 1));
}

std::optional<fs::path> find_in_hub_cache(const std::string& name) {
  if (!is_hub_name(name)) return std::nullopt;
  std::string folder = "models--" + name;
  if (const std::size_t slash = folder.find('/'); slash != folder.npos)
    folder.replace(slash, 1, "--");
  return main_snapshot(hub_cache() / folder);
}

std::string what_folder_holds(const fs::path& folder) {
  const std::set<std::string> names = names_in(folder);
  for (const Sign& sign : signs) {
    const auto found = std::ranges::find_if(
        names, [&](const std::string& name) { return fnmatch(sign.file, name.c_str(), 0) == 0; });
    if (found != names.end())
      return fmt::format("{} {}; {}{}", printable(*found), sign.what, sign.way,
                         sign.conversion ? conversion(*sign.conversion) : "");
  }
  std::vector<fs::path> below = models_below(folder);
  if (const auto snapshot = main_snapshot(folder)) below = {*snapshot};
  if (below.empty()) return "";
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < std::min<std::size_t>(below.size(), 3); ++i)
    shown.push_back(printable_path(below[i]));
  return fmt::format("{}below it; give {}{}",
                     folder.filename().string().starts_with("models--")
                         ? "it is a folder of the hub's cache, with models "
                         : "there are models ",
                     fmt::join(shown, " or "), below.size() > shown.size() ? " or another" : "");
}

std::string why_not_read(std::string_view model_type) {
  for (const Reason& each : reasons) {
    const std::string list = fmt::format(" {} ", each.model_types);
    if (list.find(fmt::format(" {} ", model_type)) != list.npos) return std::string(each.reason);
  }
  return "";
}

}  // namespace nystrom
