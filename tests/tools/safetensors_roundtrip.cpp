// roundtrip IN OUT: reads every tensor of IN and writes them to OUT.
// tests/reference/check_safetensors.py compares the files with those of Hugging Face's library.
// Exits with 2 when IN is rejected.
#include <cstdio>

#include "train/state/safetensors.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: roundtrip IN OUT\n");
    return 2;
  }
  try {
    const auto file = nystrom::TensorFile::open(argv[1]);
    std::vector<nystrom::NamedTensor> tensors;
    for (const auto& stored : file.tensors())
      tensors.push_back({stored.name, file.read(stored.name)});
    nystrom::write_safetensors(argv[2], tensors);
  } catch (const nystrom::InputError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
