// Charts, tables and the numbers in them.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/temporary_folder.h"
#include "train/report/study.h"

namespace nystrom::testing {
namespace {

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

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
  EXPECT_NE(svg.find(">a &lt; b &amp; c</text>"), std::string::npos);
  EXPECT_NE(svg.find("prefers-color-scheme:dark"), std::string::npos);
}

TEST(Chart, LogarithmicAxesHavePowersOfTen) {
  Chart chart = two_lines();
  chart.y_axis = Axis::logarithmic;
  const std::string svg = render_svg(chart);
  for (const char* tick : {">1</text>", ">10</text>", ">100</text>", ">1000</text>"})
    EXPECT_NE(svg.find(tick), std::string::npos) << tick;
}

TEST(Chart, LinesBreakWhereThereIsNothing) {
  Chart chart;
  chart.y_axis = Axis::logarithmic;
  chart.series = {{"gaps", {1, 2, 3, 4, 5}, {1, std::nan(""), 3, 0, 5}}};
  const std::string svg = render_svg(chart);
  EXPECT_EQ(count_of(svg, "<polyline"), 3);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
}

TEST(Chart, WithoutPointsSaysSo) {
  Chart chart;
  EXPECT_NE(render_svg(chart).find("nothing to draw"), std::string::npos);
  chart.series = {{"empty", {1}, {std::numeric_limits<double>::infinity()}}};
  EXPECT_NE(render_svg(chart).find("nothing to draw"), std::string::npos);
}

TEST(Chart, ValuesBelowTheFloorStandOnIt) {
  Chart chart = two_lines();
  chart.y_axis = Axis::logarithmic;
  chart.y_floor = 1;
  chart.series[1].y = {1e-17, 1e-17, 1};
  EXPECT_EQ(render_svg(chart).find("e-17"), std::string::npos);
}

TEST(Chart, NumbersAreShort) {
  for (const auto& [value, text] :
       {std::pair(0.0, "0"), std::pair(1234.5678, "1235"), std::pair(1e-7, "1e-7"),
        std::pair(2e12, "2e12"), std::pair(-0.25, "-0.25"), std::pair(2.5e-4, "2.5e-4"),
        std::pair(3e-4, "3e-4"), std::pair(1e100, "1e100")})
    EXPECT_EQ(short_number(value), text);
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
  write_study(study, folder / "new" / "place");
  EXPECT_EQ(read_bytes(folder / "new" / "place" / "made_up-rows.csv"),
            "what,count,share\n\"a \"\"b\"\", c\",2,0.333333333\nd,4,nan\n");
  EXPECT_EQ(read_bytes(folder / "new" / "place" / "made_up-lines.svg"), render_svg(two_lines()));
  const std::string json = read_bytes(folder / "new" / "place" / "made_up.json");
  EXPECT_NE(json.find("\"seed\": 3"), std::string::npos);
  EXPECT_NE(json.find("\"share\": null"), std::string::npos);
  EXPECT_EQ(aligned_text(study.tables[0]),
            "what      count   share\na \"b\", c      2  0.3333\nd             4       -\n");
}

TEST(Study, RefusesAFileInPlaceOfAFolder) {
  const TemporaryFolder folder;
  write_bytes(folder / "file", "");
  EXPECT_EQ(input_error([&] { write_study({}, folder / "file"); }),
            (folder / "file").string() + ": cannot make the folder: Not a directory");
}

}  // namespace
}  // namespace nystrom::testing
