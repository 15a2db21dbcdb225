#include "train/report/chart.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "core/check.h"

namespace nystrom {
namespace {

constexpr double left = 76, right = 14, top = 44, legend_line = 22, letter = 8.0;
constexpr int colours = 8;

/// Letters, not bytes, of UTF-8.
double letters(const std::string& text) {
  return static_cast<double>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

/// One axis: its limits, and where it has ticks.
struct Scale {
  bool log = false;
  double low = 0, high = 1;
  std::vector<double> ticks;

  bool shows(double value) const { return std::isfinite(value) && (!log || value > 0); }
  /// Between 0 at the low end and 1 at the high one.
  double share(double value) const {
    const double part =
        log ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
    return std::clamp(part, 0.0, 1.0);
  }
};

/// Multiples of 1, 2 or 5 times a power of ten, about six of them.
Scale linear_scale(double low, double high) {
  if (low == high)
    low -= 0.5 * std::max(1.0, std::abs(low)), high += 0.5 * std::max(1.0, std::abs(high));
  const double wanted = 6, power = std::pow(10, std::floor(std::log10((high - low) / wanted)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0}) {
    if (factor * power * wanted >= high - low) step = factor * power;
  }
  Scale scale{false, step * std::floor(low / step), step * std::ceil(high / step), {}};
  const auto count = std::llround((scale.high - scale.low) / step);
  for (long long i = 0; i <= count; ++i)
    scale.ticks.push_back(scale.low + step * static_cast<double>(i));
  return scale;
}

/// Powers of ten; where these are fewer than three, also 2 and 5 times them; where there are many,
/// every second, third or so.
Scale log_scale(double low, double high) {
  if (low == high) low /= 2, high *= 2;
  Scale scale{true, low, high, {}};
  const double first = std::floor(std::log10(low)), last = std::ceil(std::log10(high));
  const double stride = std::max(1.0, std::ceil((last - first) / 8));
  const bool between = last - first < 3;
  for (double power = first; power <= last; power += between ? 1 : stride) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double tick = factor * std::pow(10, power);
      if ((factor == 1 || between) && tick >= low * 0.999 && tick <= high * 1.001)
        scale.ticks.push_back(tick);
    }
  }
  return scale;
}

Scale scale_of(Axis axis, const std::vector<const std::vector<double>*>& values, double floor) {
  Scale probe{axis == Axis::logarithmic, 0, 1, {}};
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const auto* list : values) {
    for (const double value : *list) {
      if (!probe.shows(value)) continue;
      low = std::min(low, std::max(value, floor));
      high = std::max(high, std::max(value, floor));
    }
  }
  if (!(low <= high)) low = high = 1;
  return probe.log ? log_scale(low, high) : linear_scale(low, high);
}

class Drawing {
 public:
  explicit Drawing(const Chart& chart) : chart_(chart) {
    std::vector<const std::vector<double>*> xs, ys;
    for (const ChartSeries& series : chart.series) {
      xs.push_back(&series.x);
      for (const auto* list : {&series.y, &series.low, &series.high}) ys.push_back(list);
    }
    const double floor =
        chart.y_floor > 0 ? chart.y_floor : -std::numeric_limits<double>::infinity();
    x_ = scale_of(chart.x_axis, xs, -std::numeric_limits<double>::infinity());
    y_ = scale_of(chart.y_axis, ys, floor);
    const std::set<double> places = measured_places();
    if (x_.log && places.size() <= 8) x_.ticks.assign(places.begin(), places.end());
  }

  std::string draw() {
    heading();
    grid();
    bool any = false;
    for (std::size_t i = 0; i < chart_.series.size(); ++i)
      any = curve(chart_.series[i], colour_of(i)) || any;
    if (!any)
      text(left + plot_width() / 2, top + chart_.plot_height / 2, "nothing to draw", "middle");
    const double height = legend();
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
        "width=\"{0:.0f}\" height=\"{1:.0f}\" "
        "font-family=\"sans-serif\" font-size=\"14\" role=\"img\">\n{2}<rect class=\"ground\" "
        "width=\"{0:.0f}\" height=\"{1:.0f}\"/>\n{3}"
        "</svg>\n",
        chart_.width, height, style(), body_);
  }

 private:
  std::set<double> measured_places() const {
    std::set<double> places;
    for (const ChartSeries& series : chart_.series) {
      for (const double x : series.x) {
        if (x_.shows(x)) places.insert(x);
      }
    }
    return places;
  }

  double plot_width() const { return chart_.width - left - right; }
  double px(double x) const { return left + x_.share(x) * plot_width(); }
  double py(double y) const {
    return top + (1 - y_.share(std::max(y, y_.low))) * chart_.plot_height;
  }

  int colour_of(std::size_t i) const {
    const int own = chart_.series[i].colour;
    return (own >= 0 ? own : static_cast<int>(i)) % colours;
  }

  /// Colours that differ in lightness too, so that they can be told apart without hue.
  static std::string style() {
    constexpr const char* light[colours] = {"#1f5fbf", "#d95f02", "#138a5e", "#b0307e",
                                            "#7a5cc4", "#8a6d00", "#0089a8", "#555555"};
    constexpr const char* dark[colours] = {"#79aefc", "#ff9d4d", "#4fd1a0", "#f27fc4",
                                           "#b9a3ff", "#e0c14a", "#5fd3ee", "#bbbbbb"};
    std::string css =
        "<style>text{fill:#222}.ground{fill:#fff}.grid{stroke:#e2e2e2}.axis{stroke:#222}";
    const auto add = [&](const char* const* palette) {
      for (int i = 0; i < colours; ++i)
        css += fmt::format(".l{0}{{stroke:{1}}}.b{0}{{fill:{1}}}", i, palette[i]);
    };
    add(light);
    css +=
        "@media(prefers-color-scheme:dark){text{fill:#ddd}.ground{fill:#16181c}.grid{stroke:#"
        "3a3d42}.axis{stroke:#ccc}";
    add(dark);
    return css + "}</style>\n";
  }

  void text(double x, double y, const std::string& content, const char* anchor,
            const std::string& more = "") {
    body_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
                         anchor, more, escape_markup(content));
  }
  void line(double x1, double y1, double x2, double y2, const std::string& more) {
    body_ += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1,
                         y1, x2, y2, more);
  }

  void heading() {
    const double size =
        std::min(16.0, 16.0 * (chart_.width - 20) / (8.8 * std::max(1.0, letters(chart_.title))));
    text(chart_.width / 2, 26, chart_.title, "middle",
         fmt::format(" font-size=\"{:.1f}\" font-weight=\"bold\"", size));
    const double middle = top + chart_.plot_height / 2;
    text(18, middle, chart_.y_label, "middle",
         fmt::format(" transform=\"rotate(-90 18 {:.1f})\"", middle));
    text(left + plot_width() / 2, top + chart_.plot_height + 42, chart_.x_label, "middle");
  }

  void grid() {
    const double bottom = top + chart_.plot_height, end = chart_.width - right;
    for (const double tick : y_.ticks) {
      line(left, py(tick), end, py(tick), "class=\"grid\"");
      text(left - 6, py(tick) + 5, short_number(tick), "end");
    }
    for (const double tick : x_.ticks) {
      line(px(tick), top, px(tick), bottom, "class=\"grid\"");
      text(px(tick), bottom + 20, short_number(tick), "middle");
    }
    line(left, bottom, end, bottom, "class=\"axis\"");
    line(left, top, left, bottom, "class=\"axis\"");
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
    body_ += fmt::format("<polygon class=\"b{}\" fill-opacity=\"0.18\" points=\"{}\"/>\n", colour,
                         forth + back);
  }

  /// Whether there was anything to draw.
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
    const char* dash = series.dashed ? " stroke-dasharray=\"6 4\"" : "";
    for (const std::string& piece : pieces) {
      if (piece.empty()) continue;
      body_ += fmt::format(
          "<polyline class=\"l{}\" fill=\"none\" stroke-width=\"2\" stroke-linejoin=\"round\"{} "
          "points=\"{}\"/>\n",
          colour, dash, piece);
    }
    const bool few = series.x.size() <= 16;
    for (std::size_t i = 0; few && i < series.x.size(); ++i) {
      if (shown(series, i))
        body_ += fmt::format("<circle class=\"b{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"/>\n",
                             colour, px(series.x[i]), py(series.y[i]));
    }
    return !pieces.front().empty();
  }

  /// Below the plot, as many beside each other as there is room for; the height of the whole
  /// picture.
  double legend() {
    double widest = 0;
    for (const ChartSeries& series : chart_.series) widest = std::max(widest, letters(series.name));
    const double cell = 44 + letter * widest;
    const auto columns =
        static_cast<std::size_t>(std::max(1.0, std::floor((chart_.width - 24) / cell)));
    double y = top + chart_.plot_height + 70;
    for (std::size_t i = 0; i < chart_.series.size(); ++i) {
      const double x = 20 + cell * static_cast<double>(i % columns);
      if (i > 0 && i % columns == 0) y += legend_line;
      const char* dash = chart_.series[i].dashed ? " stroke-dasharray=\"6 4\"" : "";
      line(x, y - 5, x + 26, y - 5,
           fmt::format("class=\"l{}\" stroke-width=\"3\"{}", colour_of(i), dash));
      text(x + 32, y, chart_.series[i].name, "start");
    }
    if (!chart_.note.empty()) {
      y += legend_line;
      text(20, y, chart_.note, "start", " font-size=\"13\"");
    }
    return y + 16;
  }

  const Chart& chart_;
  Scale x_, y_;
  std::string body_;
};

}  // namespace

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
    for (const auto& place : {lowest, highest, broken}) {
      if (place) kept.insert(*place);
    }
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

std::string short_number(double value) {
  if (std::abs(value) < 1e-300) return "0";
  const bool small = std::abs(value) < 1e-3 && std::isfinite(value);
  std::string text = fmt::format(fmt::runtime(small ? "{:.3e}" : "{:.4g}"), value);
  if (small) {  // without the zeros at the end of the digits
    const std::size_t exponent = text.find('e');
    const std::size_t last = text.find_last_not_of("0.", exponent - 1);
    text.erase(last + 1, exponent - last - 1);
  }
  for (const auto& [from, to] :
       {std::pair("e-0", "e-"), std::pair("e+0", "e"), std::pair("e+", "e")}) {
    if (const std::size_t at = text.find(from); at != text.npos)
      text.replace(at, std::string_view(from).size(), to);
  }
  return text;
}

std::string render_svg(const Chart& chart) { return Drawing(chart).draw(); }

}  // namespace nystrom
