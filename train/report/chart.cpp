#include "train/report/chart.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "core/check.h"

namespace nystrom {
namespace {

constexpr double right = 14, top = 44, legend_line = 22, letter = 8.0;
constexpr double min_left = 64, y_label_room = 34, swatch = 32, margin = 20;
constexpr int dashes_begin = 8;  // lines of colours from this one on have dashes
constexpr const char* level_look = "class=\"axis\" stroke-width=\"1.5\" stroke-dasharray=\"3 3\"";

std::string font_size(double size) {
  return size == 14 ? "" : fmt::format(" font-size=\"{:.1f}\"", size);
}

class Drawing {
 public:
  explicit Drawing(const Chart& chart) : chart_(chart) {
    std::vector<const std::vector<double>*> xs, ys;
    for (const ChartSeries& series : chart.series) {
      xs.push_back(&series.x);
      for (const auto* list : {&series.y, &series.low, &series.high}) ys.push_back(list);
    }
    std::vector<double> levels;
    for (const auto& [name, y] : chart.levels) levels.push_back(y);
    ys.push_back(&levels);
    const double lowest = -std::numeric_limits<double>::infinity();
    x_ = scale_of(chart.x_axis, xs, lowest);
    y_ = scale_of(chart.y_axis, ys, chart.y_floor > 0 ? chart.y_floor : lowest);
    std::set<double> places;
    for (const auto* list : xs)
      std::ranges::copy_if(*list, std::inserter(places, places.end()),
                           [&](double x) { return x_.shows(x); });
    if (x_.log && places.size() <= 8) x_.ticks.assign(places.begin(), places.end());
    double widest = 0;
    for (const std::string& label : tick_labels(y_)) widest = std::max(widest, letters(label));
    left_ = std::max(min_left, y_label_room + letter * widest);
  }

  std::string draw() {
    heading();
    grid();
    for (const auto& [name, y] : chart_.levels)
      if (y_.shows(y)) line(left_, py(y), chart_.width - right, py(y), level_look);
    bool any = false;
    for (std::size_t i = 0; i < chart_.series.size(); ++i)
      any = curve(chart_.series[i], colour_of(i)) || any;
    if (!any)
      text(left_ + plot_width() / 2, top + chart_.plot_height / 2, "nothing to draw", "middle");
    const double height = legend();
    return svg_document(chart_.width, height, chart_.title, body_);
  }

 private:
  double plot_width() const { return chart_.width - left_ - right; }
  double px(double x) const { return left_ + x_.share(x) * plot_width(); }
  double py(double y) const {
    return top + (1 - y_.share(std::max(y, y_.low))) * chart_.plot_height;
  }

  int colour_of(std::size_t i) const {
    const int own = chart_.series[i].colour;
    return own >= 0 ? own : static_cast<int>(i);
  }

  /// The attributes of a line. Colours repeat only with other dashes.
  static std::string look(const ChartSeries& series, int colour, double width) {
    constexpr const char* dashes[] = {"", "9 3", "2 3", "9 3 2 3"};
    const std::string dash = series.dashed ? "6 4" : dashes[colour / dashes_begin % 4];
    return fmt::format("class=\"l{}\" fill=\"none\" stroke-width=\"{}\"{}{}",
                       colour % chart_colours, series.faint ? width / 2 : width,
                       series.faint ? " stroke-opacity=\"0.5\"" : "",
                       dash.empty() ? "" : " stroke-dasharray=\"" + dash + "\"");
  }

  void text(double x, double y, const std::string& content, const char* anchor,
            const std::string& more = "") {
    if (!content.empty()) body_ += svg_text(x, y, content, anchor, more);
  }
  void line(double x1, double y1, double x2, double y2, const std::string& more) {
    body_ += svg_line(x1, y1, x2, y2, more);
  }

  void circle(double x, double y, int colour, int radius) {
    body_ += fmt::format("<circle class=\"b{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"/>\n",
                         colour % chart_colours, x, y, radius);
  }

  /// Writes the title and the names of the axes. Long ones are written smaller.
  void heading() {
    const double size = std::min(
        16.0, 16.0 * (chart_.width - margin) / (8.8 * std::max(1.0, letters(chart_.title))));
    text(chart_.width / 2, 26, chart_.title, "middle", font_size(size) + " font-weight=\"bold\"");
    const double middle = top + chart_.plot_height / 2, room = chart_.plot_height + top;
    const double share = std::min(1.0, room / std::max(1.0, letter * letters(chart_.y_label)));
    text(18, middle, chart_.y_label, "middle",
         font_size(14 * share) + fmt::format(" transform=\"rotate(-90 18 {:.1f})\"", middle));
    text(left_ + plot_width() / 2, top + chart_.plot_height + 42, chart_.x_label, "middle");
  }

  void grid() {
    const double bottom = top + chart_.plot_height, end = chart_.width - right;
    const std::vector<std::string> labels = tick_labels(y_);
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const double y = py(y_.ticks[i]);
      line(left_, y, end, y, "class=\"grid\"");
      text(left_ - 6, y + 5, labels[i], "end");
    }
    for (const double tick : x_.ticks) line(px(tick), top, px(tick), bottom, "class=\"grid\"");
    x_labels(bottom + 20);
    line(left_, bottom, end, bottom, "class=\"axis\"");
    line(left_, top, left_, bottom, "class=\"axis\"");
  }

  /// Writes the labels of the x axis within the picture. A label that would touch its neighbour is
  /// left out.
  void x_labels(double y) {
    const std::vector<std::string> labels = tick_labels(x_);
    double taken = 0;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const double half = letter * letters(labels[i]) / 2;
      const double middle = std::min(px(x_.ticks[i]), chart_.width - half - 2);
      if (middle - half < taken) continue;
      text(middle, y, labels[i], "middle");
      taken = middle + half + letter;
    }
  }

  bool shown(const ChartSeries& series, std::size_t i) const {
    return x_.shows(series.x[i]) && y_.shows(series.y[i]);
  }

  std::string point(double x, double y) const {
    return fmt::format("{:.1f},{:.1f} ", px(x), py(y));
  }

  void band(const ChartSeries& series, int colour) {
    std::string forth, back;
    for (std::size_t i = 0; i < series.x.size(); ++i) {
      if (!shown(series, i) || !std::isfinite(series.low[i]) || !std::isfinite(series.high[i]))
        continue;
      forth += point(series.x[i], series.high[i]);
      back.insert(0, point(series.x[i], series.low[i]));
    }
    body_ += fmt::format("<polygon class=\"b{}\" fill-opacity=\"0.18\" points=\"{}\"/>\n",
                         colour % chart_colours, forth + back);
  }

  /// Draws a series. Returns whether it had a point to draw.
  bool curve(const ChartSeries& series, int colour) {
    require(series.x.size() == series.y.size() && series.low.size() == series.high.size() &&
                (series.low.empty() || series.low.size() == series.y.size()),
            "chart: series {} has {} x, {} y, {} low and {} high", series.name, series.x.size(),
            series.y.size(), series.low.size(), series.high.size());
    if (!series.low.empty()) band(series, colour);
    std::vector<std::string> pieces(1);
    for (std::size_t i = 0; i < series.x.size(); ++i) {
      if (shown(series, i)) {
        pieces.back() += point(series.x[i], series.y[i]);
      } else if (!pieces.back().empty()) {
        pieces.emplace_back();
      }
    }
    for (const std::string& piece : pieces) {
      if (piece.empty() || series.points) continue;
      body_ += fmt::format("<polyline {} stroke-linejoin=\"round\" points=\"{}\"/>\n",
                           look(series, colour, 2), piece);
    }
    const bool marks = series.points || (series.x.size() <= 16 && !series.dashed);
    for (std::size_t i = 0; marks && i < series.x.size(); ++i)
      if (shown(series, i)) circle(px(series.x[i]), py(series.y[i]), colour, 3);
    return !pieces.front().empty();
  }

  /// The longest name in the legend, in letters.
  double longest_name() const {
    double longest = 1;
    for (const ChartSeries& series : chart_.series)
      longest = std::max(longest, letters(series.name));
    for (const auto& [name, y] : chart_.levels) longest = std::max(longest, letters(name));
    return longest;
  }

  /// Draws the legend below the plot in as many columns as fit. Long names are written smaller.
  /// Returns the height of the whole picture.
  double legend() {
    const double room = chart_.width - 2 * margin, widest = letter * longest_name();
    const double share = std::min(1.0, (room - swatch) / widest);
    const double cell = swatch + 12 + widest * share;
    const auto columns = static_cast<std::size_t>(std::max(1.0, std::floor(room / cell)));
    double y = top + chart_.plot_height + 70;
    std::size_t count = 0;
    const auto next = [&](const std::string& name) {
      if (count > 0 && count % columns == 0) y += legend_line;
      const double x = margin + cell * static_cast<double>(count++ % columns);
      text(x + swatch, y, name, "start", font_size(14 * share));
      return x;
    };
    for (std::size_t i = 0; i < chart_.series.size(); ++i) {
      const ChartSeries& series = chart_.series[i];
      const double x = next(series.name);
      if (series.points)
        circle(x + 13, y - 5, colour_of(i), 4);
      else
        line(x, y - 5, x + swatch - 6, y - 5, look(series, colour_of(i), 3));
    }
    for (const auto& [name, level] : chart_.levels) {
      if (!y_.shows(level)) continue;
      const double x = next(name);
      line(x, y - 5, x + swatch - 6, y - 5, level_look);
    }
    if (!chart_.note.empty()) {
      y += legend_line;
      const double size = 14 * room / (letter * letters(chart_.note));
      text(margin, y, chart_.note, "start", font_size(std::min(13.0, size)));
    }
    return y + 16;
  }

  const Chart& chart_;
  Scale x_, y_;
  double left_ = min_left;  // the x of the y axis; long labels need more room
  std::string body_;
};

std::string chart_style() {
  // The colours also differ in lightness, so that readers can distinguish them without hue.
  constexpr const char* light[chart_colours] = {
      "#1f5fbf", "#d95f02", "#138a5e", "#b0307e", "#7a5cc4", "#8a6d00", "#0089a8", "#555555",
      "#d010d8", "#001878", "#0a4a0a", "#8c1020", "#600090", "#ff4890", "#2a2aff", "#6b3f1a"};
  constexpr const char* dark[chart_colours] = {
      "#79aefc", "#ff9d4d", "#4fd1a0", "#f27fc4", "#b9a3ff", "#e0c14a", "#5fd3ee", "#bbbbbb",
      "#ff35ff", "#4a62ff", "#1fa01f", "#ff4545", "#a030ff", "#c0405f", "#2f7fd8", "#a87830"};
  std::string css =
      "<style>text{fill:#222}.ground{fill:#fff}.grid{stroke:#e2e2e2}.axis{stroke:#222}";
  const auto add = [&](const char* const* palette) {
    for (int i = 0; i < chart_colours; ++i)
      css += fmt::format(".l{0}{{stroke:{1}}}.b{0}{{fill:{1}}}", i, palette[i]);
  };
  add(light);
  css +=
      "@media(prefers-color-scheme:dark){text{fill:#ddd}.ground{fill:#16181c}.grid{stroke:#"
      "3a3d42}.axis{stroke:#ccc}";
  add(dark);
  return css + "}</style>\n";
}

}  // namespace

std::string svg_text(double x, double y, const std::string& content, const char* anchor,
                     const std::string& more) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
                     anchor, more, escape_markup(content));
}

std::string svg_line(double x1, double y1, double x2, double y2, const std::string& more) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1,
                     x2, y2, more);
}

std::string svg_document(double width, double height, const std::string& label,
                         const std::string& body) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "width=\"{0:.0f}\" height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"14\" "
      "role=\"img\" aria-label=\"{4}\">\n{2}<rect class=\"ground\" "
      "width=\"{0:.0f}\" height=\"{1:.0f}\"/>\n{3}</svg>\n",
      width, height, chart_style(), body, escape_markup(label));
}

std::string escape_markup(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      case '\'': result += "&#39;"; break;
      default: result += c;
    }
  }
  return result;
}

ChartSeries thinned(const ChartSeries& series, std::size_t most) {
  const std::size_t size = series.y.size();
  require(most >= 8, "thinned: to {} points", most);
  if (size <= most) return series;
  std::set<std::size_t> kept = {0, size - 1};
  const std::size_t stretch = (size + (most - 2) / 3 - 1) / ((most - 2) / 3);
  for (std::size_t begin = 0; begin < size; begin += stretch) {
    std::optional<std::size_t> lowest, highest, broken;
    for (std::size_t i = begin; i < std::min(size, begin + stretch); ++i) {
      if (!std::isfinite(series.y[i])) {
        broken = broken.value_or(i);
        continue;
      }
      if (!lowest || series.y[i] < series.y[*lowest]) lowest = i;
      if (!highest || series.y[i] > series.y[*highest]) highest = i;
    }
    for (const auto& place : {lowest, highest, broken})
      if (place) kept.insert(*place);
  }
  ChartSeries result = series;
  for (const auto list :
       {&ChartSeries::x, &ChartSeries::y, &ChartSeries::low, &ChartSeries::high}) {
    if ((series.*list).empty()) continue;
    (result.*list).clear();
    for (const std::size_t i : kept) (result.*list).push_back((series.*list)[i]);
  }
  return result;
}

std::string render_svg(const Chart& chart) { return Drawing(chart).draw(); }

}  // namespace nystrom
