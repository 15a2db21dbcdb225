#include "train/objectives/fill_mask.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "train/loop/metrics.h"

namespace nystrom {
namespace {

using Json = nlohmann::ordered_json;

MaskFills masks_in(const Json& json) {
  MaskFills masks;
  for (const Json& mask : json) {
    masks.emplace_back();
    for (const Json& fill : mask)
      masks.back().push_back(
          {fill.at("score").get<double>(), 0, fill.at("token_str").get<std::string>(), ""});
  }
  return masks;
}

}  // namespace

std::string mask_samples_line(const std::vector<std::string>& texts, const FilledMasks& filled) {
  require(texts.size() == filled.texts.size(), "mask_samples_line: {} texts, masks of {}",
          texts.size(), filled.texts.size());
  Json samples = Json::array();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    Json masks = Json::array();
    for (const auto& fills : filled.texts[i]) {
      masks.push_back(Json::array());
      for (const MaskFill& fill : fills)
        masks.back().push_back({{"token_str", fill.token_str}, {"score", fill.score}});
    }
    samples.push_back({{"text", texts[i]}, {"masks", masks}});
  }
  return Json{{"step", filled.step}, {"samples", samples}}.dump(-1, ' ', false,
                                                                Json::error_handler_t::replace);
}

MaskSamples read_mask_samples(const std::filesystem::path& run_dir) {
  const std::filesystem::path path = run_dir / mask_samples_file;
  MaskSamples samples;
  std::ifstream file(path);
  std::string line;
  std::int64_t number = 0;
  const auto damaged = [&] {
    return MaskSamples{
        {"[MASK]"},
        {},
        fmt::format("{}:{}: is no record of filled masks", printable_path(path), number)};
  };
  while (std::getline(file, line) && !file.eof()) {
    ++number;
    try {
      const Json record = Json::parse(line);
      std::vector<std::string> texts;
      FilledMasks filled{json_count(record.at("step"), "step"), {}};
      for (const Json& sample : record.at("samples")) {
        texts.push_back(sample.at("text").get<std::string>());
        filled.texts.push_back(masks_in(sample.at("masks")));
      }
      if (texts != samples.texts) samples.steps.clear();
      samples.texts = std::move(texts);
      samples.steps.push_back(std::move(filled));
    } catch (const nlohmann::json::exception&) {
      return damaged();
    } catch (const InputError&) {
      return damaged();
    }
  }
  return samples;
}

}  // namespace nystrom
