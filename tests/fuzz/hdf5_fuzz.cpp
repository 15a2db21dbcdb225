// Arbitrary bytes as an HDF5 file. Only InputError may be thrown, and the numbers of an accepted
// array must be readable or rejected.
#include "core/base/error.h"
#include "data/hdf5/hdf5.h"
#include "tests/fuzz/hdf5_flaws.h"
#include "tests/fuzz/input_files.h"

// Of the arrays in tests/fuzz/corpus/hdf5.
constexpr const char* names[] = {"x",        "a",      "b",         "c",       "s",
                                 "bool",     "text",   "unwritten", "chunk",   "ratio",
                                 "overflow", "tokens", "documents", "metadata"};

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const nystrom::testing::MemoryFile file({reinterpret_cast<const char*>(data), size});
  try {
    const auto input =
        std::make_shared<const nystrom::InputFile>(nystrom::InputFile::open(file.path()));
    nystrom::require_harmless(input, names);
    const nystrom::Hdf5File arrays(input);
    for (const char* name : names) {
      try {
        const auto array = arrays.find(name, 1 << 20);
        if (!array || array->shape().empty()) continue;
        array->is_complete();
        const std::vector<std::int64_t> first(array->shape().size());
        std::size_t elements = 1;
        for (const std::int64_t length : array->shape())
          elements *= static_cast<std::size_t>(length);
        if (elements > (1 << 20)) continue;
        std::vector<double> values(elements);
        array->read(first, array->shape(), std::span(values));
        if (!array->is_half()) continue;
        std::vector<nystrom::f16> halves(elements);
        array->read(first, array->shape(), std::span(halves));
      } catch (const nystrom::InputError&) {
      }
    }
  } catch (const nystrom::InputError&) {
  }
  return 0;
}
