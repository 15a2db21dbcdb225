#include "data/library_versions.h"

#include <fmt/format.h>
#include <hdf5.h>
#include <oniguruma.h>
#include <utf8proc.h>
#include <zlib.h>
#include <zstd.h>

namespace nystrom {

std::vector<LibraryVersion> data_library_versions() {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return {
      {"zlib", zlibVersion()},
      {"zstd", ZSTD_versionString()},
      {"HDF5", fmt::format("{}.{}.{}", major, minor, release)},
      {"Oniguruma", onig_version()},
      {"utf8proc", fmt::format("{} (Unicode {})", utf8proc_version(), utf8proc_unicode_version())}};
}

}  // namespace nystrom
