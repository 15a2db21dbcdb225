// The elements of report pages. All text is escaped.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "train/report/study.h"

namespace nystrom {

/// `text` as HTML: escaped, with control bytes and invalid UTF-8 as \xNN. Very long text is cut.
std::string html_text(std::string_view text);

/// A table that scrolls if it is wider than the page; row `best` is highlighted.
std::string html_table(const std::vector<std::string>& columns,
                       const std::vector<std::vector<Cell>>& rows, int best = -1);

/// A collapsible section, expanded in print, or from the beginning if `open`.
std::string html_folded(std::string_view summary, const std::string& content, bool open = false);

/// A list of texts.
std::string html_list(const std::vector<std::string>& texts);

/// A chart without lines, in the size that pages have beside others.
Chart small_chart(const std::string& title, const std::string& x_label, const std::string& y_label);
/// A chart as an inline SVG.
std::string html_chart(const Chart& chart);
/// An SVG from another source as an image, which can neither run scripts nor load files.
std::string html_image(std::string_view svg, std::string_view name);

/// The complete HTML document around `body`.
std::string html_page(std::string_view title, const std::string& body);

/// Whether `text` begins as a page of html_page does.
bool is_html_page(std::string_view text);

}  // namespace nystrom
