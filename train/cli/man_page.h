// The manual page nystrom(1), made from the declared commands and options as --help is.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace nystrom {

/// The page in the man macros of roff, for `nystrom --man | man -l -` and packages. It holds the
/// help of every command, and the same program gives the same bytes.
std::string man_page(const CLI::App& app);

}  // namespace nystrom
