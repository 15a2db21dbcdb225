// Files by patterns and below folders, and the endings of their names.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace nystrom {

/// The files that the patterns match, sorted by bytes and without duplicates. A pattern is a plain
/// name or has shell wildcards: * ? [a-z] within names, by characters in UTF-8, and ** for any
/// number of folders, as in "texts/**/*.txt". A part of a pattern that names a file or folder as it
/// stands means that one alone, whatever signs are in it. ** enters links to folders, but each
/// folder once. It does not enter hidden folders, and wildcards match no hidden names. Throws an
/// InputError for a pattern that matches nothing, for a folder unless ** found it, for a folder
/// that cannot be listed, and for two names of one file.
std::vector<std::filesystem::path> match_files(std::span<const std::string> patterns);

/// All files below a folder, at any depth, sorted by bytes: those of the pattern "folder/**". Empty
/// if there is none.
std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder);

/// The last ending of a file's name, in lower case: ".gz" of "A.CSV.GZ".
std::string last_ending(const std::filesystem::path& file);

/// The ending before .gz or .zst, in lower case: ".csv" of "A.CSV.GZ". Empty if there is none.
std::string name_ending(const std::filesystem::path& file);

}  // namespace nystrom
