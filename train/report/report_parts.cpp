#include "train/report/report_parts.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "train/report/report_html.h"

namespace nystrom {
namespace {

double median_of(const RunHistory& run, const char* metric) {
  const auto found = run.curves.find(metric);
  if (found == run.curves.end()) return NAN;
  std::vector<double> values;
  for (const double value : found->second.values) {
    if (std::isfinite(value)) values.push_back(value);
  }
  return values.empty() ? NAN : summarise(values).median;
}

/// A line of the box, and the runs that have it.
struct Note {
  std::string text;
  std::int64_t count = 0;
  std::vector<std::string> runs{};
};

std::string text_of(const Note& note, std::size_t runs) {
  std::string text;
  if (runs > 1 && note.runs.size() < runs) text = fmt::format("{}: ", fmt::join(note.runs, ", "));
  text += note.text;
  if (note.count > static_cast<std::int64_t>(note.runs.size()))
    text += fmt::format(" ({} times)", note.count);
  return text;
}

}  // namespace

std::string html_section(const char* title, const std::string& content) {
  return content.empty() ? "" : fmt::format("<h2>{}</h2>\n{}", html_text(title), content);
}

std::string state_of(const RunHistory& run) {
  const std::string steps = run.total_steps
                                ? fmt::format("step {} of {}", run.steps, *run.total_steps)
                                : fmt::format("step {}", run.steps);
  if (run.stopped_early) return steps + ", stopped early";
  if (run.total_steps && run.steps >= *run.total_steps) return steps + ", finished";
  return steps + ", still going or stopped";
}

double speed_of(const RunHistory& run) {
  // Older runs recorded no means, so single steps are used.
  const double speed = median_of(run, "mean_tokens_per_second");
  return std::isfinite(speed) ? speed : median_of(run, "tokens_per_second");
}

double largest_of(const RunHistory& run, const char* metric) {
  const auto found = run.curves.find(metric);
  double largest = NAN;
  if (found == run.curves.end()) return largest;
  for (const double value : found->second.values) largest = std::fmax(largest, value);
  return largest;
}

std::string html_notes(const std::vector<RunHistory>& runs) {
  std::vector<Note> notes;
  const auto add = [&](const std::string& run, const RunWarning& warning) {
    const auto same = [&](const Note& note) { return note.text == warning.text; };
    auto place = std::find_if(notes.begin(), notes.end(), same);
    if (place == notes.end()) place = notes.insert(place, {warning.text});
    place->count += warning.count;
    if (place->runs.empty() || place->runs.back() != run) place->runs.push_back(run);
  };
  for (const RunHistory& run : runs) {
    for (const std::string& note : run.notes) add(run.name, {note});
    for (const RunWarning& warning : run.warnings) add(run.name, warning);
  }
  if (notes.empty()) return "";
  std::vector<std::string> lines;
  for (const Note& note : notes) lines.push_back(text_of(note, runs.size()));
  return "<div class=\"notes\"><b>Warnings</b>\n" + html_list(lines) + "</div>\n";
}

std::string option_in(const std::vector<std::pair<std::string, std::string>>& options,
                      const std::string& key) {
  const auto found = std::find_if(options.begin(), options.end(),
                                  [&](const auto& option) { return option.first == key; });
  return found == options.end() ? "–" : found->second;
}

}  // namespace nystrom
