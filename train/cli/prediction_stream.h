// Predictions for a stream of examples, printed in the order of the input.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/log.h"
#include "data/tasks/examples.h"

namespace nystrom {

/// A text for a terminal: control characters are escaped.
std::string shown(const std::string& text);

/// Predicts examples in windows and prints the results in input order. An example that cannot be
/// read or predicted throws an InputError; with `skip_bad` it is marked in the output instead.
class PredictionStream {
 public:
  /// Returns the output for each example, in order.
  using Predict = std::function<std::vector<std::string>(const std::vector<Example>&)>;

  /// `window`: the number of examples to predict at once. `json`: the form of marks.
  PredictionStream(bool skip_bad, bool json, std::size_t window, Predict predict)
      : skip_bad_(skip_bad), json_(json), window_(window), predict_(std::move(predict)) {}

  /// Adds an example.
  void add(Example example);
  /// Adds the examples of a file, or of a folder of documents (open_examples).
  void add_file(const TaskConfig& task, const std::string& file);
  /// Predicts and prints everything added so far, and warns of bad examples.
  void finish(Log& log);

 private:
  void add_bad(const std::string& message);
  void flush();
  std::vector<std::string> outputs_of(const std::vector<Example>& examples);
  std::string marked(const std::string& message);

  bool skip_bad_, json_;
  std::size_t window_;
  Predict predict_;
  std::vector<Example> waiting_;  // to predict
  // In input order: nothing for an example, a message for a bad one.
  std::vector<std::optional<std::string>> slots_;
  std::vector<std::string> notes_;  // of the files
  std::size_t total_ = 0, bad_ = 0;
};

}  // namespace nystrom
