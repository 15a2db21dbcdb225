#include "train/report/report_html.h"

#include <algorithm>
#include <cmath>

#include "core/base/file_io.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "data/tokenizers/sentencepiece_json.h"

namespace nystrom {
namespace {

constexpr std::size_t longest_text = 4000;

// The Content-Security-Policy blocks everything outside the page itself. Pages are known by these
// lines.
constexpr const char* head = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
)";

constexpr const char* style = R"(<style>
:root{color-scheme:light dark;--ink:#222;--paper:#fff;--soft:#666;--line:#d5d7da;
--mark:#eaf2fd;--alarm:#fff3d6}
@media(prefers-color-scheme:dark){:root{
--ink:#ddd;--paper:#16181c;--soft:#a0a4aa;--line:#3a3d42;--mark:#1d2b40;--alarm:#3d3213}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1400px;padding:16px;background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.5em;line-height:1.25;margin:.3em 0}
h2{font-size:1.15em;margin:1.8em 0 .5em;border-bottom:1px solid var(--line)}
h3{font-size:1em;margin:1.2em 0 .4em}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));
gap:10px 20px;margin:14px 0}
.facts div span{display:block;color:var(--soft);font-size:.85em}
.charts>*{min-width:0}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,400px),1fr));gap:16px}
figure{margin:0;max-width:720px}
figure svg,figure img{display:block;width:100%;height:auto}
.wide{overflow-x:auto;margin:8px 0}
table{border-collapse:collapse;font-size:.9em;font-variant-numeric:tabular-nums}
th,td{padding:4px 10px 4px 0;border-bottom:1px solid var(--line);
text-align:left;vertical-align:top;overflow-wrap:normal}
td.text{min-width:5em;max-width:26em;overflow-wrap:break-word}
th.number,td.number{text-align:right;white-space:nowrap}
tr.best td{background:var(--mark);font-weight:bold}
.notes{background:var(--alarm);padding:8px 14px;margin:12px 0}
ul{padding-left:1.2em;margin:.3em 0}
.matrix th,.matrix td{padding:6px 10px;text-align:right;border:1px solid var(--line)}
.matrix small{display:block;color:var(--soft)}
.parallel{min-width:440px;max-width:1100px}
pre{white-space:pre-wrap;font-size:.8em}
summary{cursor:pointer;padding:4px 0}
.soft{color:var(--soft)}
@media print{body{max-width:none;padding:0;font-size:12px}
figure,tr{break-inside:avoid}h2,h3{break-after:avoid}
.wide{overflow:visible}
.charts{grid-template-columns:1fr 1fr}
details::details-content{content-visibility:visible;block-size:auto}}
</style>
)";

/// Allows line breaks in names of options and paths where a new part begins.
std::string breakable(const std::string& html) {
  std::string result;
  for (std::size_t i = 0; i < html.size(); ++i) {
    result += html[i];
    const bool part_follows = i + 1 < html.size() && html[i + 1] >= 'a' && html[i + 1] <= 'z';
    if (part_follows && (html[i] == '.' || html[i] == '_' || html[i] == '/')) result += "<wbr>";
  }
  return result;
}

std::string html_cell(const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell))
    return "<td class=\"text\">" + breakable(html_text(*text)) + "</td>";
  std::string number = "–";
  if (const auto* whole = std::get_if<std::int64_t>(&cell)) number = std::to_string(*whole);
  if (const auto* value = std::get_if<double>(&cell); value && std::isfinite(*value))
    number = short_number(*value);
  return "<td class=\"number\">" + number + "</td>";
}

}  // namespace

std::string html_text(std::string_view text) {
  return escape_markup(printable(text, longest_text));
}

std::string html_table(const std::vector<std::string>& columns,
                       const std::vector<std::vector<Cell>>& rows, int best) {
  std::string html = "<div class=\"wide\"><table>\n<thead><tr>";
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const bool number = !rows.empty() && !std::holds_alternative<std::string>(rows[0].at(i));
    html += fmt::format("<th{}>{}</th>", number ? " class=\"number\"" : "",
                        breakable(html_text(columns[i])));
  }
  html += "</tr></thead>\n<tbody>\n";
  for (std::size_t r = 0; r < rows.size(); ++r) {
    html += static_cast<int>(r) == best ? "<tr class=\"best\">" : "<tr>";
    for (const Cell& cell : rows[r]) html += html_cell(cell);
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string html_folded(std::string_view summary, const std::string& content, bool open) {
  return fmt::format("<details{}><summary>{}</summary>\n{}</details>\n", open ? " open" : "",
                     html_text(summary), content);
}

std::string html_list(const std::vector<std::string>& texts) {
  std::string html = "<ul>\n";
  for (const std::string& text : texts) html += "<li>" + html_text(text) + "</li>\n";
  return html + "</ul>\n";
}

Chart small_chart(const std::string& title, const std::string& x_label,
                  const std::string& y_label) {
  Chart chart;
  chart.title = printable(title, 60);
  chart.x_label = x_label;
  chart.y_label = y_label;
  chart.width = 480;
  chart.plot_height = 260;
  return chart;
}

std::string html_chart(const Chart& chart) {
  return "<figure>" + render_svg(chart) + "</figure>\n";
}

std::string html_image(std::string_view svg, std::string_view name) {
  return fmt::format("<figure><img alt=\"{}\" src=\"data:image/svg+xml;base64,{}\"></figure>\n",
                     html_text(name), base64(svg));
}

std::string html_page(std::string_view title, const std::string& body) {
  return fmt::format("{}<title>{}</title>\n{}</head>\n<body>\n{}</body>\n</html>\n", head,
                     html_text(title), style, body);
}

void check_page_place(const std::filesystem::path& path) {
  require_no_link(path);
  if (!std::filesystem::exists(path)) return;
  const InputFile file = InputFile::open(path);
  require_input(file.text(0, std::min<std::int64_t>(file.size(), 4096)).starts_with(head),
                "{}: exists and is no page of nystrom report; move it, or name another --output",
                printable_path(path));
}

}  // namespace nystrom
