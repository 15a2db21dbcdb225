#include "train/cli/prediction_stream.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/printable.h"
#include "core/check.h"

namespace nystrom {

std::string shown(const std::string& text) { return printable(text, std::string::npos); }

void PredictionStream::add(Example example) {
  slots_.emplace_back();
  waiting_.push_back(std::move(example));
  if (slots_.size() >= window_) flush();
}

void PredictionStream::add_file(const TaskConfig& task, const std::string& file) {
  const auto reader = open_examples(task, {file}, Labelled::optional);
  while (true) {
    std::string bad;
    try {
      std::optional<Example> example = reader->next();
      if (!example) {
        std::ranges::copy(reader->notes(), std::back_inserter(notes_));
        return;
      }
      add(std::move(*example));
    } catch (const BadRow& error) {
      bad = error.what();
    }
    if (!bad.empty()) add_bad(bad);
  }
}

/// Adds an error message in the place of an example. Throws it without skip_bad.
void PredictionStream::add_bad(const std::string& message) {
  if (!skip_bad_) {
    flush();
    throw InputError(message + "; --skip-bad marks such a line and goes on");
  }
  slots_.emplace_back(message);
  if (slots_.size() >= window_) flush();
}

void PredictionStream::flush() {
  const std::vector<Example> examples = std::exchange(waiting_, {});
  const std::vector<std::optional<std::string>> slots = std::exchange(slots_, {});
  const std::vector<std::string> outputs = outputs_of(examples);
  std::size_t next = 0;
  for (const auto& bad : slots) fmt::print("{}\n", bad ? marked(*bad) : outputs[next++]);
  total_ += slots.size();
}

/// The outputs of all examples. A bad example does not affect the others: if the whole window
/// fails, each example is predicted alone. Without skip_bad the outputs before the bad one are
/// printed, and its error is thrown.
std::vector<std::string> PredictionStream::outputs_of(const std::vector<Example>& examples) {
  if (examples.empty()) return {};
  try {
    return predict_(examples);
  } catch (const InputError&) {
    std::vector<std::string> outputs;
    for (const Example& example : examples) {
      try {
        outputs.push_back(predict_({example}).front());
        if (!skip_bad_) fmt::print("{}\n", outputs.back());
      } catch (const InputError& error) {
        if (!skip_bad_) throw;
        outputs.push_back(marked(error.what()));
      }
    }
    return outputs;
  }
}

std::string PredictionStream::marked(const std::string& message) {
  ++bad_;
  return json_ ? nlohmann::json{{"error", message}}.dump() : "not predicted: " + shown(message);
}

void PredictionStream::finish(Log& log) {
  flush();
  for (const std::string& note : notes_) log.warn(note);
  if (skip_bad_ && bad_ > 0) log.warn(fmt::format("{} of {} were not predicted", bad_, total_));
}

}  // namespace nystrom
