#include "train/mask_samples.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/check.h"
#include "core/json.h"

namespace nystrom {
namespace {

using Json = nlohmann::ordered_json;

std::string with_mask_of(const Tokenizer& tokenizer, std::string text) {
  const std::string &mask = tokenizer.piece(tokenizer.special().mask), usual = "[MASK]";
  for (std::size_t at = text.find(usual); at != text.npos; at = text.find(usual, at + mask.size())) text.replace(at, usual.size(), mask);
  return text;
}

std::vector<std::vector<MaskFill>> masks_in(const Json& json) {
  std::vector<std::vector<MaskFill>> masks;
  for (const Json& mask : json) {
    masks.emplace_back();
    for (const Json& fill : mask) masks.back().push_back({fill.at("score").get<double>(), 0, fill.at("token_str").get<std::string>(), ""});
  }
  return masks;
}

}  // namespace

std::vector<std::vector<MaskFill>> sample_fills(const Model& model, const Tokenizer& tokenizer, std::string text) {
  constexpr std::int64_t words = 3;
  return fill_masks(model, tokenizer, with_mask_of(tokenizer, std::move(text)), std::min(words, model.config().vocab_size));
}

std::string sample_line(const Model& model, const Tokenizer& tokenizer, const std::vector<std::string>& texts, std::int64_t step) {
  Json samples = Json::array();
  for (const std::string& text : texts) {
    try {
      Json masks = Json::array();
      for (const auto& fills : sample_fills(model, tokenizer, text)) {
        masks.push_back(Json::array());
        for (const MaskFill& fill : fills) masks.back().push_back({{"token_str", fill.token_str}, {"score", fill.score}});
      }
      samples.push_back({{"text", text}, {"masks", masks}});
    } catch (const InputError&) {
      continue;
    }
  }
  return Json{{"step", step}, {"samples", samples}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

MaskSamples read_mask_samples(const std::filesystem::path& run_dir) {
  const std::filesystem::path path = run_dir / mask_samples_file;
  MaskSamples samples;
  std::ifstream file(path);
  std::string line;
  std::int64_t number = 0;
  while (std::getline(file, line) && !file.eof()) {
    ++number;
    try {
      const Json record = Json::parse(line);
      std::vector<std::string> texts;
      FilledMasks filled{record.at("step").get<std::int64_t>(), {}};
      for (const Json& sample : record.at("samples")) {
        texts.push_back(sample.at("text").get<std::string>());
        filled.texts.push_back(masks_in(sample.at("masks")));
      }
      if (texts != samples.texts) samples.steps.clear();
      samples.texts = std::move(texts);
      samples.steps.push_back(std::move(filled));
    } catch (const nlohmann::json::exception&) {
      return {{"[MASK]"}, {}, fmt::format("{}:{}: is no record of filled masks", printable_path(path), number)};
    }
  }
  return samples;
}

}  // namespace nystrom
