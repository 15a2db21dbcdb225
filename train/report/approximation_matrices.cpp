#include "train/report/approximation.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "autograd/ops.h"
#include "core/check.h"
#include "nn/parameter_store.h"

namespace nystrom {
namespace {

/// Smaller errors, relative to the norm, count as rounding.
constexpr double rounding = 1e-10;

double norm(const Tensor& x) {
  double squares = 0;
  for (const double value : x.to_doubles()) squares += value * value;
  return std::sqrt(squares);
}

/// The indices of `count` random distinct rows of `length`, in increasing order.
Tensor random_rows(std::int64_t length, std::int64_t count, std::int64_t seed,
                   const std::string& name) {
  const std::vector<double> keys = normal_values(seed, name, length);
  std::vector<std::int64_t> rows(static_cast<std::size_t>(length));
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  std::ranges::sort(rows, {},
                    [&](std::int64_t row) { return keys[static_cast<std::size_t>(row)]; });
  rows.resize(static_cast<std::size_t>(count));
  std::ranges::sort(rows);
  return Tensor::from(rows, {count});
}

Tensor landmarks_of(LandmarkRule rule, const Tensor& x, std::int64_t count, const Tensor& random) {
  switch (rule) {
    case LandmarkRule::first: return x.slice(0, 0, count);
    case LandmarkRule::random: return gather_rows(x, random).value();
    case LandmarkRule::means:
      return segment_means(x.reshape({1, x.dim(0), x.dim(1)}), {}, count)
          .value()
          .reshape({count, x.dim(1)});
  }
  return x;
}

std::string series_name(const MatrixStudyOptions& o, LandmarkRule rule, Inverse inverse) {
  const char* rows = rule == LandmarkRule::first    ? "first rows"
                     : rule == LandmarkRule::random ? "random rows"
                                                    : "segment means";
  return inverse == Inverse::exact ? fmt::format("{}, exact inverse", rows)
                                   : fmt::format("{}, {} steps", rows, o.iterations);
}

std::string matrix_text(const char* title, const Tensor& x) {
  std::string text = fmt::format("{}\n", title);
  const std::vector<double> values = x.to_doubles();
  for (std::int64_t i = 0; i < x.dim(0); ++i) {
    for (std::int64_t j = 0; j < x.dim(1); ++j)
      text += fmt::format("{:>9.4f}", values[static_cast<std::size_t>(i * x.dim(1) + j)] + 0.0);
    text += '\n';
  }
  return text;
}

/// Five tokens with two features and one landmark. The first row and the first column are exact.
std::string worked_example(std::int64_t seed) {
  MatrixStudyOptions o;
  o.d_model = 2, o.length = 5, o.seed = seed;
  const Tensor q = study_rows(o, 0, "queries"), k = study_rows(o, 0, "keys"),
               s = study_matrix(ScoreKernel::raw, q, k);
  const Tensor approximated =
      approximate_matrix(o, LandmarkRule::first, Inverse::exact, q, k, 1, 0);
  Tensor difference = (Var(approximated) - s).value();
  for (std::int64_t i = 0; i < difference.numel(); ++i) {
    double& value = difference.data<double>()[i];
    if (std::abs(value) < 1e-12) value = 0;
  }
  return "A worked example: 5 tokens, d_model 2, the first of them the one landmark. S is "
         "approximated by column 1 · row 1 / corner,\n"
         "so the first row and the first column are exact.\n" +
         matrix_text("S = Q Kᵀ", s) + matrix_text("approximation", approximated) +
         matrix_text("difference", difference) + "\n";
}

struct Curve {
  LandmarkRule rule;
  Inverse inverse;
  std::vector<Summary> errors;  // relative to the matrix's norm, for each number of landmarks
};

/// Text such as "below 10 % from 5 landmarks on, below 1 % from 9 on".
std::string thresholds(const std::vector<Summary>& errors) {
  std::vector<std::string> parts;
  for (const auto& [bound, name] :
       {std::pair(0.1, "10 %"), std::pair(0.01, "1 %"), std::pair(rounding, "rounding")}) {
    std::size_t first = errors.size();
    while (first > 0 && errors[first - 1].median < bound) --first;
    parts.push_back(first < errors.size() ? fmt::format("{} from {} landmarks on", name, first + 1)
                                          : fmt::format("{} never", name));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::vector<std::string> verdict_of(const MatrixStudyOptions& o, const std::vector<Curve>& curves) {
  std::vector<std::string> lines;
  for (const Curve& curve : curves) {
    lines.push_back(fmt::format("{}: the median error is below {}",
                                series_name(o, curve.rule, curve.inverse),
                                thresholds(curve.errors)));
    const auto skewed = std::max_element(
        curve.errors.begin(), curve.errors.end(),
        [](const Summary& a, const Summary& b) { return a.mean * b.median < b.mean * a.median; });
    if (skewed->median > rounding && skewed->mean > 5 * skewed->median)
      lines.push_back(
          fmt::format("{}: outliers rule the mean; with {} landmarks it is {:.0f} times the median",
                      series_name(o, curve.rule, curve.inverse), skewed - curve.errors.begin() + 1,
                      skewed->mean / skewed->median));
  }
  if (o.kernel == ScoreKernel::raw && o.d_model < o.length)
    lines.push_back(
        fmt::format("raw scores are a matrix of rank {0}: {0} independent landmarks and the exact "
                    "inverse give all of it",
                    o.d_model));
  return lines;
}

Chart chart_of(const MatrixStudyOptions& o, const std::vector<Curve>& curves) {
  Chart chart;
  chart.title = fmt::format("Nyström approximation of {}, {} trials",
                            o.kernel == ScoreKernel::raw ? "Q Kᵀ" : "softmax(Q Kᵀ / √d)", o.trials);
  chart.x_label = fmt::format("landmarks (of {} rows, d_model {}, {} sequences)", o.length,
                              o.d_model, enum_name(o.sequence));
  chart.y_label = "Frobenius error / norm";
  chart.y_axis = Axis::logarithmic;
  chart.y_floor = 1e-17;
  chart.note = "solid: median, with the band from the 10th to the 90th percentile; dashed: mean";
  for (std::size_t c = 0; c < curves.size(); ++c) {
    ChartSeries median, mean;
    median.name = series_name(o, curves[c].rule, curves[c].inverse);
    mean.name = "mean";
    mean.dashed = true;
    median.colour = mean.colour = static_cast<int>(c);
    for (std::size_t i = 0; i < curves[c].errors.size(); ++i) {
      const Summary& error = curves[c].errors[i];
      median.x.push_back(static_cast<double>(i + 1));
      median.y.push_back(std::max(error.median, chart.y_floor));
      median.low.push_back(std::max(error.low, chart.y_floor));
      median.high.push_back(std::max(error.high, chart.y_floor));
      mean.y.push_back(std::max(error.mean, chart.y_floor));
    }
    mean.x = median.x;
    chart.series.push_back(median);
    chart.series.push_back(mean);
  }
  return chart;
}

}  // namespace

Tensor study_rows(const MatrixStudyOptions& o, std::int64_t trial, const char* name) {
  const std::string stream = fmt::format("{}.{}", name, trial);
  if (o.sequence == SequenceRule::random)
    return Tensor::from(normal_values(o.seed, stream, o.length * o.d_model), {o.length, o.d_model});
  // Each column has four waves with at most two periods in the whole sequence.
  constexpr std::int64_t waves = 4;
  const std::vector<double> draws = normal_values(o.seed, stream, o.d_model * waves * 2);
  std::vector<double> rows;
  for (std::int64_t t = 0; t < o.length; ++t) {
    for (std::int64_t c = 0; c < o.d_model; ++c) {
      double value = 0;
      for (std::int64_t w = 0; w < waves; ++w) {
        const double* draw = &draws[static_cast<std::size_t>((c * waves + w) * 2)];
        const double angle =
            std::numbers::pi * static_cast<double>((w + 1) * t) / static_cast<double>(o.length);
        value += (draw[0] * std::cos(angle) + draw[1] * std::sin(angle)) /
                 std::sqrt(static_cast<double>(waves));
      }
      rows.push_back(value);
    }
  }
  return Tensor::from(rows, {o.length, o.d_model});
}

Tensor study_matrix(ScoreKernel kernel, const Tensor& q, const Tensor& k) {
  const Var product = matmul(q, transpose(k, 0, 1));
  if (kernel == ScoreKernel::raw) return product.value();
  return softmax(product / std::sqrt(static_cast<double>(q.dim(1)))).value();
}

Tensor approximate_matrix(const MatrixStudyOptions& o, LandmarkRule rule, Inverse inverse,
                          const Tensor& q, const Tensor& k, std::int64_t landmarks,
                          std::int64_t trial) {
  const Tensor random =
      random_rows(q.dim(0), landmarks, o.seed, fmt::format("landmarks.{}", trial));
  const Tensor qs = landmarks_of(rule, q, landmarks, random).contiguous(),
               ks = landmarks_of(rule, k, landmarks, random).contiguous();
  const Tensor a = study_matrix(o.kernel, qs, ks).reshape({1, landmarks, landmarks});
  const Var z = inverse == Inverse::exact ? pseudo_inverse_exact(a)
                                          : pseudo_inverse_iterative(a, o.iterations);
  return matmul(matmul(study_matrix(o.kernel, q, ks), z.value().reshape({landmarks, landmarks})),
                study_matrix(o.kernel, qs, k))
      .value();
}

Study study_matrices(const MatrixStudyOptions& o, const StudyProgress& progress) {
  const bool iterative =
      std::find(o.inverses.begin(), o.inverses.end(), Inverse::iterative) != o.inverses.end();
  require_input(!iterative || o.kernel == ScoreKernel::softmax,
                "--inverse iterative needs --kernel softmax: its first step is scaled for matrices "
                "whose rows sum to 1");
  std::vector<Curve> curves;
  for (const LandmarkRule rule : o.landmarks)
    for (const Inverse inverse : o.inverses) curves.push_back({rule, inverse, {}});
  // By landmarks, curve and trial. The matrices are those of one trial at a time.
  std::vector<std::vector<std::vector<double>>> errors(
      static_cast<std::size_t>(o.length), std::vector<std::vector<double>>(curves.size()));
  for (std::int64_t trial = 0; trial < o.trials; ++trial) {
    const Tensor q = study_rows(o, trial, "queries"), k = study_rows(o, trial, "keys"),
                 s = study_matrix(o.kernel, q, k);
    const double size = norm(s);
    for (std::int64_t count = 1; count <= o.length; ++count) {
      for (std::size_t c = 0; c < curves.size(); ++c) {
        const Tensor approximated =
            approximate_matrix(o, curves[c].rule, curves[c].inverse, q, k, count, trial);
        errors[static_cast<std::size_t>(count - 1)][c].push_back(
            norm((Var(approximated) - s).value()) / size);
      }
      if (progress) progress(trial * o.length + count, o.trials * o.length);
    }
  }
  Study study{"matrices",
              {},
              {{"errors", {"landmarks", "inverse", "count", "mean", "median", "low", "high"}}},
              {},
              {},
              {}};
  for (std::int64_t count = 1; count <= o.length; ++count)
    for (std::size_t c = 0; c < curves.size(); ++c) {
      Curve& curve = curves[c];
      const Summary e =
          curve.errors.emplace_back(summarise(errors[static_cast<std::size_t>(count - 1)][c]));
      study.tables[0].rows.push_back({enum_name(curve.rule), enum_name(curve.inverse), count,
                                      e.mean, e.median, e.low, e.high});
    }
  study.settings = {{"kernel", enum_name(o.kernel)},
                    {"sequence", enum_name(o.sequence)},
                    {"d_model", o.d_model},
                    {"length", o.length},
                    {"trials", o.trials},
                    {"iterations", o.iterations},
                    {"seed", o.seed}};
  study.charts = {{"errors", chart_of(o, curves)}};
  study.text = worked_example(o.seed);
  study.verdict = verdict_of(o, curves);
  return study;
}

}  // namespace nystrom
