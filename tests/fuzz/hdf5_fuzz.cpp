// Arbitrary bytes as a shard. Only InputError may be thrown, and accepted data must lie inside the
// file and be readable or rejected. Half of the changed inputs get correct checksums: others would
// not pass the first block.
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "data/hdf5/hdf5.h"
#include "tests/fuzz/input_files.h"
#include "tests/support/hdf5_seal.h"

extern "C" std::size_t LLVMFuzzerMutate(unsigned char* data, std::size_t size,
                                        std::size_t max_size);

extern "C" std::size_t LLVMFuzzerCustomMutator(unsigned char* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  std::string bytes(reinterpret_cast<const char*>(data), LLVMFuzzerMutate(data, size, max_size));
  if (seed % 2 == 0) {
    // Restores the length in the header: a wrong length would hide everything else.
    if (seed % 4 == 0)
      nystrom::testing::put_number(bytes, 28, static_cast<std::uint64_t>(bytes.size()));
    nystrom::testing::seal_all(bytes);
  }
  std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const nystrom::testing::MemoryFile memory({reinterpret_cast<const char*>(data), size});
  try {
    const nystrom::Hdf5File file(nystrom::InputFile::open(memory.path()));
    for (const nystrom::Hdf5Array& array : file.arrays()) {
      if (static_cast<std::int64_t>(array.chunks.size()) !=
          (array.rows + array.chunk_rows - 1) / array.chunk_rows)
        std::abort();
      for (std::size_t i = 0; i < array.chunks.size(); ++i) {
        const auto [address, bytes] = array.chunks[i];
        if (address < 0 || bytes < 5 || address + bytes > static_cast<std::int64_t>(size))
          std::abort();
        try {
          file.read_chunk(array, static_cast<std::int64_t>(i));
        } catch (const nystrom::InputError&) {
        }
      }
    }
  } catch (const nystrom::InputError&) {
  }
  return 0;
}
