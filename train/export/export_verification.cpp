#include "train/export/export.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "core/base/file_io.h"
#include "core/base/interruption.h"
#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "core/rng.h"
#include "data/tasks/task_loader.h"
#include "data/tokenizers/tokenizer_folder.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

using Ids = std::vector<std::int32_t>;

/// Plain prose as sample input. Longer inputs repeat it.
constexpr std::string_view sample_text =
    "The harbour was quiet before dawn, and the first boats left with the tide. A woman stood on "
    "the quay and counted them, as she had done every morning for eleven years. There were nine "
    "today. Her brother's boat had a new sail, red as rust, and it was the last to round the "
    "lighthouse. She wrote the number in a small book, put the pencil behind her ear, and walked "
    "up the hill to the school. The children were waiting at the gate because the door was locked, "
    "and nobody could say who had the key. \"It is in the clock,\" said the youngest, and so it "
    "was. In the afternoon the wind turned. By 4 o'clock the sea had gone grey, the gulls sat in "
    "rows along the wall, and people came out of their houses without being called. Eight sails "
    "came back before the rain. The ninth, which was red, came an hour later, slowly, with another "
    "boat in tow; and when both were tied up, the whole town, wet to the skin, went home to supper "
    "as if nothing had happened. ";

/// With exact attention both implementations compute the same sums, in almost the same order.
constexpr double rounding = 1e-5;

Ids sample_ids(const Tokenizer& tokenizer, std::int64_t length) {
  const Ids once = tokenizer.encode(sample_text);
  require(!once.empty(), "the tokenizer makes no tokens of the sample text");
  const auto inner = static_cast<std::size_t>(std::max<std::int64_t>(length - 2, 0));
  const std::int32_t mask = tokenizer.special().mask;
  constexpr std::size_t mask_every = 7;
  Ids ids;
  for (std::size_t i = 0; i < inner; ++i)
    ids.push_back(i % mask_every == 3 && mask != no_id ? mask : once[i % once.size()]);
  ids = tokenizer.wrap(ids).ids;
  ids.resize(static_cast<std::size_t>(length));
  return ids;
}

Ids random_ids(std::int64_t vocab_size, std::int64_t length) {
  const PhiloxKey key = philox_key(0, 0x6578706f7274ull);
  Ids ids;
  for (std::int64_t i = 0; i < length; ++i) {
    const std::uint32_t word = philox(key, {{static_cast<std::uint32_t>(i), 0, 0, 0}}).word[0];
    ids.push_back(static_cast<std::int32_t>(word % static_cast<std::uint64_t>(vocab_size)));
  }
  return ids;
}

/// A few lengths up to `longest` in increasing order.
std::set<std::int64_t> sample_lengths(std::int64_t longest) {
  constexpr std::int64_t shortest = 8;
  std::set<std::int64_t> lengths;
  for (const std::int64_t sixteenths : {1, 4, 8, 12, 16})
    lengths.insert(std::max(longest * sixteenths / 16, std::min(shortest, longest)));
  return lengths;
}

/// The outputs for one text in row-major order. Per-token outputs begin with the rows of the text;
/// other outputs belong to the text as a whole.
std::vector<Tensor> results_of(const Model& model, const ModelInput& input) {
  check_interruption();
  const ModelOutput out = model(input);
  std::vector<Tensor> results;
  for (const Var& each : {out.logits, out.start_logits, out.end_logits})
    if (each.defined()) results.push_back(each.value().contiguous());
  if (results.empty()) results.push_back(out.last_hidden_state.value().contiguous());
  return results;
}

std::span<const float> floats_of(const Tensor& tensor) {
  return {tensor.data<float>(), static_cast<std::size_t>(tensor.numel())};
}

/// The largest absolute difference and the largest entry of this program. NaN propagates.
struct Comparison {
  double absolute = 0, largest = 0;
};
Comparison compare(const std::vector<Tensor>& ours, const std::vector<Tensor>& theirs) {
  Comparison result;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    /// In y, logits of starts and ends at padding come last and are not compared.
    const auto x = floats_of(ours[i]), y = floats_of(theirs[i]);
    for (std::size_t k = 0; k < x.size(); ++k) {
      const double difference = std::abs(static_cast<double>(x[k]) - static_cast<double>(y[k]));
      if (difference > result.absolute || std::isnan(difference)) result.absolute = difference;
      result.largest = std::max(result.largest, std::abs(static_cast<double>(x[k])));
    }
  }
  return result;
}

void require_same_weights(const Model& source, const Model& written) {
  for (const Parameter& parameter : written.parameters().parameters()) {
    const Tensor a = source.parameters().master(parameter.name()),
                 b = written.parameters().master(parameter.name());
    const bool same =
        a.bytes() == b.bytes() &&
        std::memcmp(a.data<float>(), b.data<float>(), static_cast<std::size_t>(a.bytes())) == 0;
    require(same, "{} was written, but read back otherwise", parameter.name());
  }
}

/// Texts of other scripts, with special characters and the names of special tokens.
std::vector<std::string> tokenizer_samples(const Tokenizer& tokenizer) {
  std::vector<std::string> texts = {std::string(sample_text), "Schön: 12,345 ﬁsh… ½",
                                    "東京都は日本の首都です。 パンダ ﾊﾟ",
                                    "สวัสดีชาวโลก नमस्ते שלום السلام",
                                    "a\tb  c\n\xC2\xA0"
                                    "d 😀 don't ``x'' _y_"};
  const SpecialIds& special = tokenizer.special();
  for (const std::int32_t id : {special.cls, special.sep, special.pad, special.mask, special.unk})
    if (id != no_id) texts.push_back("The " + tokenizer.piece(id) + " sea");
  return texts;
}

/// AutoTokenizer takes the class that tokenizer_config.json names, and this one takes
/// tokenizer.json as it is. Then equal ids, types and special tokens here are equal there.
void require_same_tokens(const fs::path& folder, const Tokenizer& tokenizer, bool types) {
  constexpr const char* message = "the tokenizer was written, but its {} are read back otherwise";
  const nlohmann::json config = read_json_file(folder / "tokenizer_config.json");
  require(config.value("tokenizer_class", "") == "PreTrainedTokenizerFast",
          "tokenizer_config.json names no class that takes tokenizer.json as it is");
  const auto written = open_tokenizer(folder / "tokenizer.json");
  const SpecialIds &a = written->special(), &b = tokenizer.special();
  require(a.cls == b.cls && a.sep == b.sep && a.pad == b.pad && a.mask == b.mask && a.unk == b.unk,
          message, "special tokens");
  for (const std::string& text : tokenizer_samples(tokenizer)) {
    const auto ids = [&](const Tokenizer& of) -> std::optional<Ids> {
      try {
        return of.encode(text, SpecialNames::tokens);
      } catch (const InputError&) {  // no piece fits, and there is no unknown token
        return std::nullopt;
      }
    };
    const auto mine = ids(tokenizer), theirs = ids(*written);
    require(mine == theirs, message, "ids");
    if (!mine) continue;
    for (const auto& [one, other] :
         {std::pair(tokenizer.wrap(*mine), written->wrap(*mine)),
          std::pair(tokenizer.wrap(*mine, *mine), written->wrap(*mine, *mine))})
      require(one.ids == other.ids && (!types || one.type_ids == other.type_ids), message,
              "templates");
  }
}

}  // namespace

std::string foreign_classes(const std::filesystem::path& folder) {
  std::vector<std::string_view> names;
  for (const EmbeddedFile& file : model_classes()) {
    const std::filesystem::path path = folder / file.name;
    if (std::filesystem::exists(path) && read_text_file(path) != file.text)
      names.push_back(file.name);
  }
  return fmt::format("{}", fmt::join(names, " and "));
}

ModelFolder as_in_transformers(const ModelFolder& folder) {
  nlohmann::json root = *folder.config_json;
  root.erase("nystrom");
  ModelConfig config = parse_hf_config(root.dump(), printable_path(folder.path / "config.json"));
  config.embedding = folder.config.embedding;  // layers that transformers leaves out
  return folder.with(config);
}

std::vector<ExportDifference> verify_export(const fs::path& folder, const Model& source,
                                            const Tokenizer* tokenizer, std::int64_t longest) {
  ModelFolder ours(folder);
  const ModelConfig written = ours.config;
  ours.config.attention.semantics = Semantics::nystrom;
  const auto our_model = load_model(ours, DType::f32, StoreMode::inference);
  require_same_weights(source, *our_model);
  if (tokenizer != nullptr) require_same_tokens(folder, *tokenizer, written.type_vocab_size > 0);
  const std::string foreign = foreign_classes(folder);
  require(foreign.empty(), "{} was written, but read back otherwise", foreign);
  if (!names_transformers_class(*ours.config_json)) return {};
  const auto their_model = load_model(as_in_transformers(ours), DType::f32, StoreMode::inference);

  std::vector<ExportDifference> differences;
  for (const std::int64_t length : sample_lengths(longest)) {
    const Ids ids = tokenizer != nullptr ? sample_ids(*tokenizer, length)
                                         : random_ids(written.vocab_size, length);
    const std::int64_t positions = their_model->config().fixed_length().value_or(length);
    const WrappedIds row{ids, {}};
    const ModelInput input = joined_rows({&row, 1});
    const auto a = results_of(*our_model, input), b = results_of(*their_model, input);
    const auto [absolute, largest] = compare(a, b);
    differences.push_back({length, positions, absolute, largest > 0 ? absolute / largest : 0});
    require(!written.has_only(AttentionKind::softmax) || absolute <= rounding * largest,
            "exact attention of transformers' kind differs by {:.1e} of the largest entry at {} "
            "tokens; expected rounding, below {:.0e}",
            differences.back().relative, length, rounding);
  }
  return differences;
}

}  // namespace nystrom
