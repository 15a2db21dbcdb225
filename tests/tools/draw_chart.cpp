// draw_chart CHART.json OUT.svg: draws a chart with the code of the reports, for the scripts of
// bench/.
// CHART.json: {"title": …, "x_label": …, "y_label": …, "logarithmic_y": false,
// "series": [{"name": …, "x": […], "y": […], "dashed": false, "colour": 0}, …]}.
// `dashed` and `colour` are optional, and values of y may be null.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/file_io.h"
#include "core/base/json.h"
#include "train/report/chart.h"

namespace nystrom {
namespace {

constexpr std::size_t max_bytes = std::size_t{1} << 24;

ChartSeries series_of(const nlohmann::json& json) {
  ChartSeries series{.name = json.at("name"), .x = json.at("x"), .y = {}};
  for (const nlohmann::json& value : json.at("y")) series.y.push_back(number_or_nan(value));
  series.dashed = json.value("dashed", false);
  series.colour = json.value("colour", -1);
  return series;
}

Chart chart_of(const nlohmann::json& json) {
  Chart chart{json.at("title"), json.at("x_label"), json.at("y_label"), {}};
  for (const nlohmann::json& series : json.at("series")) chart.series.push_back(series_of(series));
  if (json.value("logarithmic_y", false)) chart.y_axis = Axis::logarithmic;
  return chart;
}

}  // namespace
}  // namespace nystrom

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: draw_chart CHART.json OUT.svg\n");
    return 2;
  }
  try {
    const nlohmann::json json = nystrom::read_json_file(argv[1], nystrom::max_bytes);
    nystrom::write_text_file(argv[2], nystrom::render_svg(nystrom::chart_of(json)));
  } catch (const nystrom::InputError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  } catch (const nlohmann::json::exception& error) {
    std::fprintf(stderr, "%s: is no chart: %s\n", argv[1], error.what());
    return 2;
  }
}
