// onnx_tool FOLDER OUT: writes OUT/model.onnx and OUT/model_int8.onnx for the model in FOLDER.
// Exits with 2 and says why when ONNX cannot hold the model.
#include <cstdio>

#include "train/checkpoint/model_folder.h"
#include "train/export/onnx_model.h"
#include "train/formats/hf_config.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: onnx_tool FOLDER OUT\n");
    return 2;
  }
  try {
    using namespace nystrom;
    const std::filesystem::path folder = argv[1], out = argv[2];
    const auto model = load_model(folder, read_hf_config(folder), DType::f32, StoreMode::inference);
    for (const bool int8 : {false, true}) write_onnx(*model, out, {.int8 = int8});
  } catch (const nystrom::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
