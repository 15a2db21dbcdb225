#include "train/report/approximation.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>

#include "core/check.h"
#include "core/cuda/runtime.h"
#include "core/kernels.h"
#include "core/threads.h"
#include "nn/attention.h"

namespace nystrom {
namespace {

constexpr std::ptrdiff_t fitted_lengths = 3;

struct Cost {
  double seconds = 0;
  std::int64_t bytes = 0;
};

struct Line {
  AttentionKind kind;
  std::vector<double> lengths, seconds, bytes;
};

std::int64_t batch_of(const CostStudyOptions& o, std::int64_t length) {
  return o.tokens > 0 ? o.tokens / length : o.batch;
}

/// The layer's input, queries, keys and values of the most tokens. Fewer are the first of them.
std::vector<Tensor> draw_inputs(const CostStudyOptions& o, std::int64_t tokens) {
  constexpr std::int64_t drawn = 8192;  // rows, which repeat: drawing takes longer than computing
  std::vector<Tensor> inputs;
  const std::int64_t width = o.heads * o.head_dim, rows = std::min(tokens, drawn);
  for (const char* name : {"hidden", "queries", "keys", "values"}) {
    const Tensor block = Tensor::from(normal_values(1, name, rows * width), {rows, width})
                             .cast(o.dtype)
                             .to(o.device);
    Tensor all = Tensor::empty({tokens, width}, o.dtype, o.device);
    for (std::int64_t i = 0; i < tokens; i += rows) {
      const std::int64_t end = std::min(tokens, i + rows);
      Tensor part = all.slice(0, i, end);
      kernels::copy(block.slice(0, 0, end - i), part);
    }
    inputs.push_back(all);
  }
  return inputs;
}

/// The time of the fastest run of one attention module, and the peak memory of a run. Inputs and
/// their gradients are not counted.
Cost measure(const CostStudyOptions& o, AttentionKind kind, std::int64_t length,
             const std::vector<Tensor>& inputs) {
  ModelConfig config;
  config.hidden_size = o.heads * o.head_dim;
  config.num_attention_heads = o.heads;
  config.max_position_embeddings = length;
  config.attention = o.attention;
  config.attention.kind = kind;
  config.attention.projected_length = std::min(config.attention.projected_length, length);
  ParameterStore store;
  const Linear query(Scope(store) / "query", config.hidden_size, config.hidden_size);
  const Linear key(Scope(store) / "key", config.hidden_size, config.hidden_size);
  const auto method = make_attention(Scope(store) / "attention", config);
  store.allocate(o.dtype, o.train ? StoreMode::training : StoreMode::inference, o.device);
  store.initialise(1, 1 / std::sqrt(static_cast<double>(config.hidden_size)));
  const std::int64_t sequences = batch_of(o, length);
  const Ragged batch(sequences, length);
  std::vector<Var> given;
  for (const Tensor& input : inputs) {
    const Tensor values =
        input.slice(0, 0, sequences * length).reshape({sequences, length, config.hidden_size});
    given.push_back(o.train ? Var::leaf(values) : Var(values));
  }
  const auto compute = [&] {
    std::optional<Tape> tape;
    if (o.train) tape.emplace();
    const auto heads = [&](std::size_t i) { return split_heads(given[i], o.heads); };
    const Var out = (*method)({given[0], heads(1), heads(2), heads(3), batch, query, key});
    if (tape) tape->backward(out, Tensor::full(out.shape(), 1, out.dtype(), o.device));
  };
  const auto run = [&] {
    compute();
    if (!o.device.is_cpu()) cuda::synchronize(o.device.index);
  };
  Arena& arena = Arena::of(o.device);
  const std::int64_t before = arena.statistics().in_use_bytes;
  run();  // warm-up
  Cost cost{std::numeric_limits<double>::infinity(), 0};
  for (std::int64_t i = 0; i < o.repeats; ++i) {
    arena.reset_peak();
    const auto start = std::chrono::steady_clock::now();
    run();
    cost.seconds =
        std::min(cost.seconds,
                 std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    cost.bytes = std::max(cost.bytes, arena.statistics().peak_in_use_bytes - before);
  }
  return cost;
}

/// The fitted exponent at the longest lengths; NaN with too few lengths.
double exponent_of(const Line& line, const std::vector<double> Line::*cost) {
  if (std::ssize(line.lengths) < fitted_lengths) return std::nan("");
  const auto last = [](const std::vector<double>& values) {
    return std::vector<double>(values.end() - fitted_lengths, values.end());
  };
  return fitted_exponent(last(line.lengths), last(line.*cost));
}

/// The length beyond which `line` costs less than `exact`, by linear interpolation of logarithms. 0
/// means at every length; NaN means at no length.
double crossover(const std::vector<double>& lengths, const std::vector<double>& line,
                 const std::vector<double>& exact) {
  std::size_t first = line.size();
  while (first > 0 && line[first - 1] < exact[first - 1]) --first;
  if (first == line.size()) return std::nan("");
  if (first == 0) return 0;
  const double above = std::log(line[first - 1] / exact[first - 1]),
               below = std::log(line[first] / exact[first]);
  return std::exp(std::log(lengths[first - 1]) +
                  above / (above - below) * std::log(lengths[first] / lengths[first - 1]));
}

const Line* exact_line(const std::vector<Line>& lines) {
  const auto found = std::ranges::find(lines, AttentionKind::softmax, &Line::kind);
  return found == lines.end() ? nullptr : &*found;
}

StudyTable fit_table(const std::vector<Line>& lines) {
  StudyTable table{"fits",
                   {"kind", "time_exponent", "memory_exponent", "faster_from", "smaller_from"}};
  const Line* exact = exact_line(lines);
  for (const Line& line : lines) {
    const auto against = [&](const std::vector<double> Line::*cost) {
      return exact == nullptr || exact == &line ? std::nan("")
                                                : crossover(line.lengths, line.*cost, exact->*cost);
    };
    table.rows.push_back({enum_name(line.kind), exponent_of(line, &Line::seconds),
                          exponent_of(line, &Line::bytes), against(&Line::seconds),
                          against(&Line::bytes)});
  }
  return table;
}

Chart chart_of(const CostStudyOptions& o, const std::vector<Line>& lines,
               const std::vector<double> Line::*cost, double unit, const char* quantity,
               const char* label) {
  Chart chart;
  chart.title = fmt::format("{} of one attention, {}", quantity,
                            o.train ? "forward and backward" : "forward");
  chart.x_label =
      o.tokens > 0
          ? fmt::format("tokens ({} at once, {} heads of {})", o.tokens, o.heads, o.head_dim)
          : fmt::format("tokens (batch {}, {} heads of {})", o.batch, o.heads, o.head_dim);
  chart.y_label = label;
  chart.x_axis = chart.y_axis = Axis::logarithmic;
  for (const Line& line : lines) {
    ChartSeries series{enum_name(line.kind), line.lengths, line.*cost};
    for (double& value : series.y) value /= unit;
    chart.series.push_back(series);
  }
  return chart;
}

std::vector<std::string> verdict_of(const std::vector<Line>& lines, const StudyTable& fits) {
  std::vector<std::string> sentences;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto number = [&](std::size_t column) { return std::get<double>(fits.rows[i][column]); };
    std::vector<std::string> parts;
    if (!std::isnan(number(1)))
      parts.push_back(fmt::format("time grows with length to the {:.2f}, memory to the {:.2f}",
                                  number(1), number(2)));
    if (exact_line(lines) != nullptr && exact_line(lines) != &lines[i]) {
      const double from = number(3);
      parts.push_back(std::isnan(from) ? "never faster than exact attention here"
                      : from == 0
                          ? "faster than exact attention throughout"
                          : fmt::format("faster than exact attention from {:.0f} tokens on", from));
    }
    if (!parts.empty())
      sentences.push_back(fmt::format("{}: {}", enum_name(lines[i].kind), fmt::join(parts, "; ")));
  }
  const std::int64_t lengths = std::ssize(lines[0].lengths);
  if (lengths < fitted_lengths)
    sentences.push_back(
        fmt::format("an exponent is fitted to {} lengths; these are {}", fitted_lengths, lengths));
  if (exact_line(lines) != nullptr)
    sentences.push_back(
        "exact attention keeps no matrix here (it is computed in blocks), so its memory is linear "
        "in the length too");
  return sentences;
}

}  // namespace

Study study_cost(const CostStudyOptions& options, const StudyProgress& progress) {
  CostStudyOptions o = options;
  require_input(o.shortest <= o.longest, "--shortest {} is more than --longest {}", o.shortest,
                o.longest);
  if (o.kinds.empty())
    for (const auto& kind : enum_names(AttentionKind{}))
      if (kind.value != AttentionKind::none) o.kinds.push_back(kind.value);
  require_input(std::ranges::find(o.kinds, AttentionKind::none) == o.kinds.end(),
                "--kinds none: there is no attention to measure; leave it out");
  std::vector<std::int64_t> lengths;
  for (std::int64_t length = o.shortest; length <= o.longest; length *= 2)
    lengths.push_back(length);
  const std::int64_t last = lengths.back();
  require_input(last == o.longest,
                "--longest {}: --shortest {} doubled leads to {} and {}; give one of them",
                o.longest, o.shortest, last, 2 * last);
  require_input(o.tokens % last == 0, "--tokens {} is no multiple of the length {}; give {}",
                o.tokens, last, last * std::max<std::int64_t>(1, o.tokens / last));
  const auto total = static_cast<std::int64_t>(o.kinds.size() * lengths.size());
  std::int64_t done = 0, tokens = 0;
  for (const std::int64_t length : lengths) tokens = std::max(tokens, length * batch_of(o, length));
  const std::vector<Tensor> inputs = draw_inputs(o, tokens);
  Study study{"cost", {}, {{"measurements", {"kind", "length", "seconds", "bytes"}}}, {}, {}, {}};
  std::vector<Line> lines;
  for (const AttentionKind kind : o.kinds) {
    Line& line = lines.emplace_back(Line{kind, {}, {}, {}});
    for (const std::int64_t length : lengths) {
      const Cost cost = measure(o, kind, length, inputs);
      line.lengths.push_back(static_cast<double>(length));
      line.seconds.push_back(cost.seconds);
      line.bytes.push_back(static_cast<double>(cost.bytes));
      study.tables[0].rows.push_back({enum_name(kind), length, cost.seconds, cost.bytes});
      if (progress) progress(++done, total);
    }
  }
  study.tables.push_back(fit_table(lines));
  study.settings = {{"mode", o.train ? "train" : "forward"},
                    {"dtype", name_of(o.dtype)},
                    {"batch", o.batch},
                    {"tokens", o.tokens},
                    {"heads", o.heads},
                    {"head_dim", o.head_dim},
                    {"num_landmarks", o.attention.num_landmarks},
                    {"num_features", o.attention.num_features},
                    {"projected_length", o.attention.projected_length},
                    {"num_hashes", o.attention.num_hashes},
                    {"bucket_size", o.attention.bucket_size},
                    {"threads", static_cast<std::int64_t>(num_threads())},
                    {"repeats", o.repeats}};
  study.charts = {{"time", chart_of(o, lines, &Line::seconds, 1e-3, "Time", "milliseconds")},
                  {"memory", chart_of(o, lines, &Line::bytes, 1e6, "Memory", "megabytes")}};
  study.text = aligned_text(study.tables[0]) + "\n" + aligned_text(study.tables[1]) + "\n";
  study.verdict = verdict_of(lines, study.tables[1]);
  return study;
}

}  // namespace nystrom
