// The few pieces that report pages are made of. Every text that goes in is escaped, whatever it
// holds.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "train/report/study.h"

namespace nystrom {

/// `text` as HTML shows it: escaped, control bytes and bytes that are not UTF-8 as \xNN, cut where
/// it is very long.
std::string html_text(std::string_view text);

/// A table that scrolls within itself where it is wider than the page; `best` is the row that
/// stands out.
std::string html_table(const std::vector<std::string>& columns,
                       const std::vector<std::vector<Cell>>& rows, int best = -1);

/// What unfolds when its summary is touched; open on paper.
std::string html_folded(std::string_view summary, const std::string& content);

/// A list of texts.
std::string html_list(const std::vector<std::string>& texts);

/// A picture that stands within the page: the text of an SVG document of our own.
std::string html_chart(const Chart& chart);
/// A picture from elsewhere: as an image it can neither run nor load anything.
std::string html_image(std::string_view svg, std::string_view name);

/// The whole document around `body`.
std::string html_page(std::string_view title, const std::string& body);

}  // namespace nystrom
