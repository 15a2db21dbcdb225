// Charts, tables and the numbers in them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "tests/train/report/run_folder.h"
#include "train/report/study.h"

namespace nystrom::testing {
namespace {

Chart two_lines() {
  Chart chart;
  chart.title = "a < b & c";
  chart.x_label = "x";
  chart.y_label = "y";
  chart.series = {{"one", {1, 2, 3}, {10, 100, 1000}, {5, 50, 500}, {20, 200, 2000}},
                  {"two", {1, 2, 3}, {1, 1, 1}}};
  return chart;
}

TEST(Chart, IsTheSameTextForTheSameNumbers) {
  EXPECT_EQ(render_svg(two_lines()), render_svg(two_lines()));
}

TEST(Chart, HasALineALegendAndABandForEachSeries) {
  const std::string svg = render_svg(two_lines());
  EXPECT_EQ(count_of(svg, "<polyline"), 2);
  EXPECT_EQ(count_of(svg, "<polygon"), 1);
  EXPECT_EQ(count_of(svg, ">one</text>"), 1);
  EXPECT_EQ(count_of(svg, ">two</text>"), 1);
  expect_says(svg, ">a &lt; b &amp; c</text>");
  expect_says(svg, "prefers-color-scheme:dark");
}

TEST(Chart, LogarithmicAxesHavePowersOfTen) {
  Chart chart = two_lines();
  chart.y_axis = Axis::logarithmic;
  const std::string svg = render_svg(chart);
  for (const char* tick : {">1</text>", ">10</text>", ">100</text>", ">1000</text>"})
    expect_says(svg, tick);
}

TEST(Chart, LinesBreakWhereThereIsNothing) {
  Chart chart;
  chart.y_axis = Axis::logarithmic;
  chart.series = {{"gaps", {1, 2, 3, 4, 5}, {1, std::nan(""), 3, 0, 5}}};
  const std::string svg = render_svg(chart);
  EXPECT_EQ(count_of(svg, "<polyline"), 3);
  expect_hides(svg, "nan");
  expect_hides(svg, "inf");
}

TEST(Chart, WithoutPointsSaysSo) {
  Chart chart;
  expect_says(render_svg(chart), "nothing to draw");
  chart.series = {{"empty", {1}, {std::numeric_limits<double>::infinity()}}};
  expect_says(render_svg(chart), "nothing to draw");
}

TEST(Chart, ValuesBelowTheFloorStandOnIt) {
  Chart chart = two_lines();
  chart.y_axis = Axis::logarithmic;
  chart.y_floor = 1;
  chart.series[1].y = {1e-17, 1e-17, 1};
  expect_hides(render_svg(chart), "e-17");
}

TEST(Chart, LevelsCrossTheWholeChart) {
  Chart chart = two_lines();
  chart.levels = {{"baseline", 5000}, {"unknown", std::nan("")}};
  const std::string svg = render_svg(chart);
  EXPECT_EQ(count_of(svg, ">baseline</text>"), 1);
  EXPECT_EQ(count_of(svg, ">unknown</text>"), 0);
  EXPECT_EQ(count_of(svg, "stroke-dasharray=\"3 3\""), 2) << "the line and its legend";
  EXPECT_EQ(count_of(svg, ">5000</text>"), 1) << "the axis reaches it";
}

/// Each of 16 series has its own colour, and the colours differ in both modes.
TEST(Chart, SixteenLinesHaveDifferentColours) {
  Chart chart;
  for (int i = 0; i < 32; ++i)
    chart.series.push_back(
        {"layer " + std::to_string(i), {1, 2}, {1.0 * i, 2.0 * i}, {0, 0}, {9, 9}});
  const std::string svg = render_svg(chart);
  std::set<std::string> looks;
  for (std::size_t at = svg.find("<polyline"); at != svg.npos; at = svg.find("<polyline", at + 1))
    looks.insert(svg.substr(at, svg.find("points", at) - at));
  EXPECT_EQ(looks.size(), 32U) << "from the 17th on the dashes differ";
  expect_says(svg, "<polygon class=\"b15\"");
  expect_hides(svg, "<polygon class=\"b16\"", "it has no colour");
  const std::string style = svg_document(1, 1, "", "");
  std::set<std::string> colours;
  for (std::size_t at = style.find("{stroke:#"); at != style.npos;
       at = style.find("{stroke:#", at + 1)) {
    if (style[at - 2] == 'l' || style[at - 3] == 'l') colours.insert(style.substr(at, 17));
  }
  EXPECT_EQ(colours.size(), 32U);
}

std::vector<std::string> labels_between(double low, double high, Axis axis = Axis::linear) {
  return tick_labels(make_scale(axis, low, high));
}

using Labels = std::vector<std::string>;

TEST(Chart, TicksAreNeitherRepeatedNorLong) {
  EXPECT_EQ(labels_between(0, 1), (Labels{"0", "0.2", "0.4", "0.6", "0.8", "1.0"}));
  EXPECT_EQ(labels_between(0, 500000),
            (Labels{"0", "100000", "200000", "300000", "400000", "500000"}));
  EXPECT_EQ(labels_between(1e6, 1e6 + 4),
            (Labels{"1000000", "1000001", "1000002", "1000003", "1000004"}));
  EXPECT_EQ(labels_between(0, 2e-9), (Labels{"0", "5e-10", "1e-9", "1.5e-9", "2e-9"}));
  EXPECT_EQ(labels_between(-1, 1), (Labels{"-1.0", "-0.5", "0", "0.5", "1.0"}));
  EXPECT_EQ(labels_between(1, 1000, Axis::logarithmic), (Labels{"1", "10", "100", "1000"}));
  const double tiny = 1e-310, huge = std::numeric_limits<double>::max();
  for (const Axis axis : {Axis::linear, Axis::logarithmic}) {
    for (const auto& [low, high] :
         {std::pair(1e-5, 1e-5), std::pair(0.1, 0.1 + 1e-9), std::pair(12345.678, 12345.679),
          std::pair(1e300, 1e300), std::pair(tiny, tiny), std::pair(tiny, huge),
          std::pair(huge, huge), std::pair(1.0, 1.0 + 1e-16), std::pair(9.99e-7, 1.01e-6),
          std::pair(3.0, 3.01), std::pair(1e-20, 1e20)}) {
      const Labels labels = labels_between(low, high, axis);
      EXPECT_GE(labels.size(), 2U) << low << " " << high;
      EXPECT_LE(labels.size(), 20U) << low << " " << high;
      EXPECT_EQ(std::set(labels.begin(), labels.end()).size(), labels.size())
          << low << " " << high << " " << labels[0];
      for (const std::string& label : labels) EXPECT_LE(label.size(), 16U) << label;
    }
  }
}

TEST(Chart, EqualValuesStandInTheMiddle) {
  EXPECT_EQ(labels_between(4, 4), (Labels{"2", "3", "4", "5", "6"}));
  EXPECT_EQ(labels_between(0, 0), (Labels{"-1.0", "-0.5", "0", "0.5", "1.0"}));
  EXPECT_NEAR(make_scale(Axis::linear, 1e-5, 1e-5).share(1e-5), 0.5, 0.1);
}

/// Long labels get the room that they need, beside the axis and in the legend.
TEST(Chart, LabelsAreNotCut) {
  Chart chart;
  chart.width = 480;
  chart.series = {{std::string(60, 'm'), {0, 1e6}, {1e6 + 1e-3, 1e6 + 2e-3}}};
  const std::string svg = render_svg(chart);
  const std::size_t label = svg.find(">1000000.001");
  ASSERT_NE(label, svg.npos) << svg;
  const double x = std::stod(svg.substr(svg.rfind(" x=\"", label) + 4));
  EXPECT_GT(x, 12 * 8.0);
  const std::size_t name = svg.find(">mmm");
  const double size = std::stod(svg.substr(svg.rfind("font-size=\"", name) + 11));
  EXPECT_LT(size * 8.0 / 14 * 60, 440);
}

TEST(Chart, NumbersAreShort) {
  for (const auto& [value, text] :
       {std::pair(0.0, "0"), std::pair(1234.5678, "1235"), std::pair(1e-7, "1e-7"),
        std::pair(2e12, "2e12"), std::pair(-0.25, "-0.25"), std::pair(2.5e-4, "2.5e-4"),
        std::pair(3e-4, "3e-4"), std::pair(1e100, "1e100")})
    EXPECT_EQ(short_number(value), text);
}

TEST(Chart, ThinnedCurvesKeepTheirPeaksEndsAndBreaks) {
  ChartSeries series;
  for (int i = 0; i < 100000; ++i) {
    series.x.push_back(i);
    series.y.push_back(std::sin(i * 0.001));
  }
  series.y[54321] = 1000;
  series.y[12345] = -1000;
  series.y[77777] = std::numeric_limits<double>::quiet_NaN();
  const ChartSeries thin = thinned(series, 2000);
  EXPECT_LE(thin.x.size(), 2000U);
  EXPECT_GE(thin.x.size(), 1000U);
  EXPECT_EQ(thin.x.front(), 0);
  EXPECT_EQ(thin.x.back(), 99999);
  EXPECT_TRUE(std::is_sorted(thin.x.begin(), thin.x.end()));
  EXPECT_EQ(std::count(thin.y.begin(), thin.y.end(), 1000), 1);
  EXPECT_EQ(std::count(thin.y.begin(), thin.y.end(), -1000), 1);
  EXPECT_EQ(std::count_if(thin.y.begin(), thin.y.end(), [](double y) { return std::isnan(y); }), 1);
  const ChartSeries few{"few", {1, 2}, {3, 4}};
  EXPECT_EQ(thinned(few, 8).y, few.y);
}

TEST(Study, SummaryIsOfSortedValues) {
  const Summary s = summarise({4, 1, 2, 3, 10});
  EXPECT_DOUBLE_EQ(s.mean, 4);
  EXPECT_DOUBLE_EQ(s.median, 3);
  EXPECT_DOUBLE_EQ(s.low, 1.4);
  EXPECT_DOUBLE_EQ(s.high, 7.6);
  EXPECT_DOUBLE_EQ(summarise({7}).low, 7);
}

TEST(Study, ExponentIsThatOfAPowerLaw) {
  EXPECT_NEAR(fitted_exponent({256, 512, 1024}, {3 * 256. * 256, 3 * 512. * 512, 3 * 1024. * 1024}),
              2, 1e-12);
  EXPECT_TRUE(std::isnan(fitted_exponent({1}, {1})));
}

TEST(Study, WritesTablesAndCharts) {
  const TemporaryFolder folder;
  Study study;
  study.name = "made_up";
  study.settings = {{"seed", std::int64_t{3}}};
  study.tables = {
      {"rows",
       {"what", "count", "share"},
       {{"a \"b\", c", std::int64_t{2}, 1.0 / 3}, {"d", std::int64_t{4}, std::nan("")}}}};
  study.charts = {{"lines", two_lines()}};
  study.verdict = {"it is so"};
  make_study_folder(folder / "new" / "place", "made_up");
  write_study(study, folder / "new" / "place");
  EXPECT_EQ(read_bytes(folder / "new" / "place" / "made_up-rows.csv"),
            "what,count,share\n\"a \"\"b\"\", c\",2,0.333333333\nd,4,nan\n");
  EXPECT_EQ(read_bytes(folder / "new" / "place" / "made_up-lines.svg"), render_svg(two_lines()));
  const std::string json = read_bytes(folder / "new" / "place" / "made_up.json");
  expect_says(json, "\"seed\": 3");
  expect_says(json, "\"share\": null");
  EXPECT_EQ(aligned_text(study.tables[0]),
            "what      count   share\na \"b\", c      2  0.3333\nd             4       -\n");
}

TEST(Study, RefusesAFileInPlaceOfAFolder) {
  const TemporaryFolder folder;
  write_bytes(folder / "file", "");
  EXPECT_EQ(input_error([&] { make_study_folder(folder / "file", "made_up"); }),
            (folder / "file").string() + ": is no folder; name another place");
  const auto made = [&] { make_study_folder(folder / std::string(300, 'x'), "made_up"); };
  expect_says(input_error(made), ": cannot create the folder: File name too long");
}

}  // namespace
}  // namespace nystrom::testing
