// nystrom predict: say what a model predicts: a masked language model fills in masks.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <algorithm>
#include <filesystem>

#include "core/check.h"
#include "core/json.h"
#include "data/text.h"
#include "train/commands.h"
#include "train/fill_mask.h"
#include "train/model_folder.h"

namespace nystrom {
namespace {

struct PredictOptions {
  CommonOptions common;
  std::string model;
  std::vector<std::string> texts;
  std::int64_t top_k = 5;
  bool json = false;
};

/// Characters of a text that printable() made fit for a terminal.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

void print(const std::string& text, const std::vector<std::vector<MaskFill>>& masks) {
  const auto shown = [](const std::string& part) { return printable(part, std::string::npos); };
  fmt::print("{}\n", shown(text));
  for (std::size_t mask = 0; mask < masks.size(); ++mask) {
    if (masks.size() > 1) fmt::print("mask {} of {}\n", mask + 1, masks.size());
    std::size_t widest = 0;
    for (const MaskFill& fill : masks[mask]) widest = std::max(widest, width_of(shown(fill.token_str)));
    for (const MaskFill& fill : masks[mask]) {
      const std::string token = shown(fill.token_str);
      fmt::print("  {:.4f}  {}{:{}}  {}\n", fill.score, token, "", widest - width_of(token), shown(fill.sequence));
    }
  }
}

/// InputError when a line was left out because it is no text.
void require_all_text(const TextStatistics& statistics) {
  for (const SkipReason reason : {SkipReason::invalid_utf8, SkipReason::nul_byte, SkipReason::decompression_bomb, SkipReason::vanished}) {
    require_input(statistics[reason].count == 0, "{}: cannot be read as text: {}", statistics[reason].first, describe(reason));
  }
}

/// Calls predict(text) for every line of a file but empty ones.
template <class Predict>
void for_each_line(const std::string& file, Log& log, const Predict& predict) {
  TextReader reader({file}, Documents::lines);
  while (const auto line = reader.next()) {
    require_all_text(reader.statistics());
    with_context(fmt::format("{}:{}", printable_path(file), line->line), [&] {
      require_input(!line->continues, "the line is longer than {} bytes; shorten it", TextReader::default_piece_bytes);
      predict(std::string(line->text));
    });
  }
  const TextStatistics& statistics = reader.statistics();
  require_all_text(statistics);
  require_input(statistics.documents > 0, "{}: holds no text", printable_path(file));
  const std::int64_t empty = statistics[SkipReason::empty].count;
  if (empty > 0) log.say(fmt::format("{}: {} empty lines left out", printable_path(file), empty));
}

void run(const PredictOptions& options) {
  options.common.apply();
  Log log(options.common.quiet);
  const ModelFolder folder = open_model_folder(options.model, options.common.overrides, log);
  const auto tokenizer = open_masked_lm_tokenizer(folder);
  require_input(options.top_k <= folder.config.vocab_size, "--top-k {}: the model knows only {} tokens", options.top_k,
                folder.config.vocab_size);
  const auto model = load_model(folder.path, folder.config, DType::f32, StoreMode::inference);
  const auto predict = [&](const std::string& text) {
    const auto masks = fill_masks(*model, *tokenizer, text, options.top_k);
    if (options.json) {
      fmt::print("{}\n", fill_mask_json(masks));
    } else {
      print(text, masks);
    }
  };
  for (const std::string& word : options.texts) {
    const std::string text = without_guard(word);
    std::error_code error;
    if (std::filesystem::is_regular_file(text, error)) {
      for_each_line(text, log, predict);
    } else {
      require_input(text.empty() || text.find_first_of(" [<") != text.npos, "'{}': is no file, and as a text it has no [MASK]",
                    printable(text, 60));
      with_context(fmt::format("'{}'", printable(text, 60)), [&] { predict(text); });
    }
  }
}

}  // namespace

Command add_predict_command(CLI::App& app) {
  auto options = std::make_shared<PredictOptions>();
  auto* command = app.add_subcommand("predict", "Say what a model predicts: a masked language model fills in masks");
  command->footer(
      "The fields are those of Hugging Face's fill-mask pipeline: score, token, token_str, sequence. An argument that names a file is "
      "read\n"
      "line by line.\n\n"
      "Examples:\n  nystrom predict runs/small \"The ship sailed on the [MASK].\"\n  nystrom predict runs/small texts.txt --top-k 3 "
      "--json");
  command->add_option("MODEL", options->model, "Hugging Face folder, run directory or checkpoint")->required();
  command->add_option("TEXT", options->texts, "texts with [MASK] in them, or files with one a line")->required();
  command->add_option("--top-k", options->top_k, "predictions for each mask")->check(CLI::Range(1, 1 << 24))->capture_default_str();
  command->add_flag("--json", options->json, "print one JSON line a text");
  options->common.add_to(*command);
  return {command, [options] { run(*options); }};
}

}  // namespace nystrom
