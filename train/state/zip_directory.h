// The directory of a zip archive whose entries are stored, not compressed, as torch.save writes it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "core/base/file_io.h"

namespace nystrom {

/// Where the bytes of an entry are in the file.
struct ZipEntry {
  std::int64_t begin = 0, bytes = 0;
  std::optional<std::uint32_t> crc;  ///< nothing if torch.save was told not to compute it
};

/// The entries by name, with sizes of 64 bits. Throws an InputError for compressed and encrypted
/// entries, archives in several files, names that occur twice, and anything outside of the file.
std::map<std::string, ZipEntry> read_zip_directory(const InputFile& file);

}  // namespace nystrom
