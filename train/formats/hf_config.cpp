#include "train/formats/hf_config.h"

#include <algorithm>
#include <set>
#include <type_traits>

#include <nlohmann/json.hpp>

#include "core/base/file_io.h"
#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "train/formats/transformers_class.h"

namespace nystrom {
namespace {

/// The part of a class's name that says its head: "ForMaskedLM", "Model", …
std::string head_suffix(Head head) {
  constexpr std::string_view prefix = "Nystromformer";
  return std::string(enum_name(head)).substr(prefix.size());
}

}  // namespace

std::string own_class(Head head) { return "Nystrom" + head_suffix(head); }

std::string auto_class(Head head) {
  return head == Head::none ? "AutoModel" : "AutoModel" + head_suffix(head);
}

namespace {

using nlohmann::json;

constexpr const char* config_name = "config.json";
constexpr const char* block_name = "nystrom";
constexpr const char* own_type = "nystrom";
constexpr const char* transformers_type = "nystromformer";
constexpr const char* regression = "regression";
constexpr const char* classification = "single_label_classification";
constexpr std::int64_t max_labels = 1'000'000;

/// Fields of ModelConfig that Hugging Face's class does not have. They are stored in the `nystrom`
/// block.
bool is_block_field(std::string_view name) {
  constexpr std::string_view names[] = {"norm",  "positions", "pooling",
                                        "pairs", "embed_dim", "attention"};
  return std::ranges::find(names, name) != std::end(names);
}

/// Hugging Face's problem_type of a sequence head. Null for other heads, which have none.
const char* problem_type(const ModelConfig& config) {
  if (config.head != Head::sequence_classification) return nullptr;
  return config.num_labels() == 1 ? regression : classification;
}

/// Where transformers' Auto classes find the classes of python/export/.
json auto_map() {
  json map = {{"AutoConfig", "configuration_nystrom.NystromConfig"}};
  for (const auto& entry : enum_names(Head{}))
    map[auto_class(entry.value)] = "modeling_nystrom." + own_class(entry.value);
  return map;
}

/// A JSON value as error messages show it.
std::string shown(const json& value) {
  if (!value.is_structured()) return printable(value.dump(), 60);
  return fmt::format("an {}{}", value.empty() ? "empty " : "", value.type_name());
}

std::string listed(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

/// A visitor of field lists that reads each member from a JSON object. Absent keys leave their
/// members unchanged.
class Reader {
 public:
  /// `prefix` is put before keys in messages ("nystrom.attention.").
  Reader(const json& object, std::string source, std::string prefix = "")
      : object_(object), source_(std::move(source)), prefix_(std::move(prefix)) {}

  template <class T>
  void operator()(T& member, const char* name, const char* = "", const Range& range = any_number) {
    seen_.insert(name);
    if (const json* value = find(name)) assign(member, *value, name, range);
  }

  /// Throws an InputError for keys that no field requested.
  void refuse_unknown() const {
    for (const auto& [key, value] : object_.items())
      if (!seen_.contains(key))
        fail(printable(key), "unknown key; known are " + listed({seen_.begin(), seen_.end()}));
  }

  /// Returns the value of a key, or null when it is absent.
  const json* find(const char* name) const {
    const auto found = object_.find(name);
    return found == object_.end() ? nullptr : &*found;
  }

  [[noreturn]] void fail(const std::string& name, const std::string& message) const {
    throw InputError(fmt::format("{}: {}{}: {}", source_, prefix_, name, message));
  }
  [[noreturn]] void fail_type(const std::string& name, const std::string& expected,
                              const json& got) const {
    fail(name, fmt::format("expected {}, got {}", expected, shown(got)));
  }

 private:
  template <class T>
  void assign(T& member, const json& value, const char* name, const Range& range) {
    if constexpr (std::is_same_v<T, bool>) {
      if (!value.is_boolean()) fail_type(name, "true or false", value);
      member = value.get<bool>();
    } else if constexpr (std::is_arithmetic_v<T>) {
      constexpr bool whole = std::is_same_v<T, std::int64_t>;
      // The JSON library stores integers above the largest int64 as unsigned; they would overflow.
      const bool fits =
          !value.is_number_unsigned() || value.get<std::uint64_t>() <= std::uint64_t{INT64_MAX};
      const bool typed = whole ? value.is_number_integer() && fits : value.is_number();
      if (!typed || !range.contains(value.get<T>())) fail_type(name, describe(range, whole), value);
      member = value.get<T>();
    } else if constexpr (std::is_enum_v<T>) {
      assign_word(member, value, name);
    } else {
      if (!value.is_object()) fail_type(name, "an object", value);
      Reader inner(value, source_, prefix_ + name + ".");
      fields(inner, member);
      inner.refuse_unknown();
    }
  }

  template <class T>
  void assign(std::optional<T>& member, const json& value, const char* name, const Range& range) {
    if (value.is_null()) {
      member.reset();
      return;
    }
    T inner{};
    assign(inner, value, name, range);
    member = inner;
  }

  template <class E>
  void assign_word(E& member, const json& value, const char* name) {
    std::vector<std::string> words;
    for (const auto& entry : enum_names(E{})) {
      words.emplace_back(entry.name);
      if (value == entry.name) {
        member = entry.value;
        return;
      }
    }
    fail_type(name, "one of " + listed(words), value);
  }

  const json& object_;
  std::string source_;
  std::string prefix_;
  std::set<std::string> seen_;
};

/// Passes on the fields of the `nystrom` block, or all other fields.
template <class V>
struct Part {
  V& visitor;
  bool block;

  template <class T, class... Rest>
  void operator()(T& member, const char* name, Rest&&... rest) {
    if (is_block_field(name) == block) visitor(member, name, std::forward<Rest>(rest)...);
  }
};

/// The fields of the `nystrom` block. outer_fields visits the fields outside it, which have the
/// same names in Hugging Face's class.
template <class V>
void block_fields(V& v, ModelConfig& config) {
  Part<V> part{v, true};
  fields(part, config);
}

template <class V>
void outer_fields(V& v, ModelConfig& config) {
  Part<V> part{v, false};
  fields(part, config);
  v(config.attention.num_landmarks, "num_landmarks", "", at_least(1));
  v(config.segment_means_seq_len, "segment_means_seq_len", "", at_least(1));
  v(config.pad_token_id, "pad_token_id", "", at_least(0));
}

/// A visitor that writes each member into a JSON object.
struct Writer {
  json& object;

  template <class T, class... Rest>
  void operator()(const T& member, const char* name, Rest&&...) {
    object[name] = value_of(member);
  }

  template <class T>
  static json value_of(const T& member) {
    if constexpr (std::is_arithmetic_v<T>) {
      return member;
    } else if constexpr (std::is_enum_v<T>) {
      return enum_name(member);
    } else {
      json inner = json::object();
      Writer writer{inner};
      T copy = member;  // field lists need a mutable struct
      fields(writer, copy);
      return inner;
    }
  }
  template <class T>
  static json value_of(const std::optional<T>& member) {
    return member ? value_of(*member) : json(nullptr);
  }
};

void check_kind_of_model(const Reader& reader) {
  if (const json* type = reader.find("model_type"); type != nullptr) {
    if (*type != own_type && *type != transformers_type)
      reader.fail_type("model_type", "\"nystrom\" or \"nystromformer\"", *type);
    if (*type == own_type && reader.find(block_name) == nullptr)
      reader.fail(block_name,
                  "is missing; a folder of model_type \"nystrom\" has its options there");
  }
  for (const char* key : {"is_decoder", "causal", "is_causal"}) {
    const json* value = reader.find(key);
    if (value == nullptr) continue;
    if (!value->is_boolean()) reader.fail_type(key, "true or false", *value);
    if (*value == true)
      reader.fail(key,
                  "a causal Nyström model cannot be built: landmarks are means over the whole "
                  "sequence, so every position would see "
                  "the future; set it to false");
  }
  if (const json* value = reader.find("inv_coeff_init_option")) {
    if (!value->is_boolean()) reader.fail_type("inv_coeff_init_option", "true or false", *value);
    if (*value == true)
      reader.fail("inv_coeff_init_option",
                  "true crashes in transformers, so no model was made with it; set it to false");
  }
}

/// Checks problem_type. This program runs a head with one output as regression and any other as
/// classification. A folder with another type would be run wrongly.
void check_problem_type(const Reader& reader, const ModelConfig& config) {
  const json* value = reader.find("problem_type");
  if (value == nullptr || value->is_null()) return;
  if (!value->is_string()) reader.fail_type("problem_type", "a string or null", *value);
  if (*value == "multi_label_classification")
    reader.fail("problem_type",
                "multi_label_classification is not supported; one label an example is");
  if (*value != regression && *value != classification)
    reader.fail_type("problem_type",
                     fmt::format("\"{}\", \"{}\" or null", classification, regression), *value);
  const char* expected = problem_type(config);
  if (expected != nullptr && *value != expected)
    reader.fail("problem_type", fmt::format("{} with {} labels; here a head of one label is a "
                                            "regression, any other a classification",
                                            value->get<std::string>(), config.labels.size()));
}

Head read_head(const Reader& reader) {
  const json* value = reader.find("architectures");
  if (value == nullptr) return Head::none;
  std::vector<std::string> known;
  for (const auto& entry : enum_names(Head{})) {
    if (*value == json::array({entry.name}) || *value == json::array({own_class(entry.value)}))
      return entry.value;
    known.emplace_back(entry.name);
  }
  const bool one = value->is_array() && value->size() == 1;
  const std::string got = one                 ? shown(value->front())
                          : value->is_array() ? fmt::format("an array of {}", value->size())
                                              : shown(*value);
  reader.fail("architectures",
              fmt::format("expected an array with one of {}; got {}", listed(known), got));
}

std::vector<std::string> read_labels(Reader& reader) {
  std::vector<std::string> labels;
  if (const json* names = reader.find("id2label")) {
    if (!names->is_object() || names->empty())
      reader.fail_type("id2label", "an object of labels", *names);
    for (std::size_t i = 0; i < names->size(); ++i) {
      const std::string key = std::to_string(i);
      if (!names->contains(key))
        reader.fail("id2label", fmt::format("expected the keys \"0\" to \"{}\", \"{}\" is missing",
                                            names->size() - 1, key));
      const json& label = (*names)[key];
      if (!label.is_string()) reader.fail_type("id2label." + key, "a string", label);
      labels.push_back(label.get<std::string>());
    }
    return labels;
  }
  std::int64_t count = 2;
  reader(count, "num_labels", "", between(1, max_labels));
  for (std::int64_t i = 0; i < count; ++i) labels.push_back(fmt::format("LABEL_{}", i));
  return labels;
}

void read_block(const json& value, const std::string& source, const Reader& outer,
                ModelConfig& config) {
  if (!value.is_object()) outer.fail_type(block_name, "an object", value);
  Reader block(value, source, std::string(block_name) + ".");
  block_fields(block, config);
  block(config.sentence_order, "sentence_order");
  block.refuse_unknown();
}

/// Reads a token id that this program does not use. Other programs may write any value.
std::optional<std::int64_t> read_idle_id(const Reader& reader, const char* name) {
  const json* value = reader.find(name);
  if (value == nullptr || !value->is_number_unsigned() ||
      value->get<std::uint64_t>() > std::uint64_t{INT64_MAX})
    return std::nullopt;
  return value->get<std::int64_t>();
}

/// The configuration that config.json states. For exact attention that transformers can compute,
/// segment_means_seq_len is num_landmarks.
ModelConfig stated(ModelConfig config) {
  if (config.attention.kind == AttentionKind::softmax && computed_by_transformers(config))
    config.segment_means_seq_len = config.attention.num_landmarks;
  return config;
}

}  // namespace

namespace {

/// Reads all keys. Conditions across several keys are not checked.
ModelConfig parse_keys(std::string_view text, const std::string& source) {
  const json root = parse_json(text, source);
  require_input(root.is_object(), "{}: expected an object, got {}", source, shown(root));
  Reader reader(root, source);
  check_kind_of_model(reader);

  ModelConfig config;
  config.max_position_embeddings = 510;  // Hugging Face's defaults, here and below
  config.attention.conv_kernel_size = 65;
  outer_fields(reader, config);
  reader(config.attention.conv_kernel_size, "conv_kernel_size", "", odd_positive);
  config.head = read_head(reader);
  config.labels = read_labels(reader);
  check_problem_type(reader, config);
  config.bos_token_id = read_idle_id(reader, "bos_token_id");
  config.eos_token_id = read_idle_id(reader, "eos_token_id");
  const json* block = reader.find(block_name);
  config.attention.semantics = block != nullptr ? Semantics::nystrom : Semantics::transformers;
  if (block != nullptr) read_block(*block, source, reader, config);
  return config;
}

std::filesystem::path config_path(const std::filesystem::path& folder_or_file) {
  std::error_code ignored;
  return std::filesystem::is_directory(folder_or_file, ignored) ? folder_or_file / config_name
                                                                : folder_or_file;
}

}  // namespace

ModelConfig parse_hf_config(std::string_view text, const std::string& source) {
  const ModelConfig config = parse_keys(text, source);
  const std::vector<std::string> found = messages_of(problems(config));
  require_input(found.empty(), "{}: {}", source, fmt::join(found, "; "));
  return config;
}

ModelConfig read_hf_config(const std::filesystem::path& folder_or_file) {
  const std::filesystem::path path = config_path(folder_or_file);
  return parse_hf_config(read_text_file(path), printable_path(path));
}

ModelConfig read_hf_keys(const std::filesystem::path& folder_or_file) {
  const std::filesystem::path path = config_path(folder_or_file);
  return parse_keys(read_text_file(path), printable_path(path));
}

bool names_transformers_class(const std::filesystem::path& folder) {
  const std::filesystem::path path = config_path(folder);
  const json root = parse_json(read_text_file(path), printable_path(path));
  return root.is_object() && root.value("model_type", json(transformers_type)) == transformers_type;
}

void set_text_ends(ModelConfig& config, const SpecialIds& special) {
  const auto id_or_none = [](std::int32_t id) {
    return id == no_id ? std::nullopt : std::optional<std::int64_t>(id);
  };
  config.bos_token_id = id_or_none(special.cls);
  config.eos_token_id = id_or_none(special.sep);
}

std::string hf_config_text(const ModelConfig& config, NamedClasses classes) {
  ModelConfig copy = stated(config);  // field lists need a mutable struct
  json root = json::object();
  Writer writer{root};
  outer_fields(writer, copy);
  json block = json::object();
  Writer block_writer{block};
  block_fields(block_writer, copy);
  if (config.sentence_order) block["sentence_order"] = true;
  root[block_name] = block;
  root["conv_kernel_size"] = config.attention.conv_kernel_size.value_or(1);
  const bool theirs = classes == NamedClasses::of_transformers || computed_by_transformers(config);
  root["architectures"] = json::array({theirs ? enum_name(config.head) : own_class(config.head)});
  root["model_type"] = theirs ? transformers_type : own_type;
  if (classes == NamedClasses::in_folder) root["auto_map"] = auto_map();
  root["transformers_version"] = "4.57.1";
  root["attention_probs_dropout_prob"] = 0.1;  // Hugging Face declares it but does not apply it
  root["inv_coeff_init_option"] = false;
  root["bos_token_id"] = Writer::value_of(config.bos_token_id);
  root["eos_token_id"] = Writer::value_of(config.eos_token_id);
  if (const char* problem = problem_type(config)) root["problem_type"] = problem;
  if (config.labels != ModelConfig{}.labels) {  // Hugging Face omits its defaults too
    for (std::size_t i = 0; i < config.labels.size(); ++i) {
      root["id2label"][std::to_string(i)] = config.labels[i];
      root["label2id"][config.labels[i]] = i;
    }
  }
  try {
    return root.dump(2, ' ', true) + "\n";
  } catch (const json::type_error&) {
    throw InputError(
        fmt::format("labels: expected UTF-8, got {}", printable(listed(config.labels))));
  }
}

}  // namespace nystrom
