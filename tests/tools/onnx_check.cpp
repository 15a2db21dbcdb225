// onnx_check FILE…: checks ONNX files with libonnx: operators, types, shapes and the presence of
// data. Exits with 1 and says what is wrong. A program of its own: libonnx's protobuf crashes in
// programs that link Debian's libsentencepiece, which exports symbols of another protobuf.
#include <onnx/checker.h>
#include <onnx/onnx_pb.h>
#include <onnx/shape_inference/implementation.h>

#include <cstdio>
#include <fstream>

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    try {
      onnx::checker::check_model(std::string(argv[i]));
      onnx::ModelProto model;
      std::ifstream file(argv[i], std::ios::binary);
      if (!model.ParseFromIstream(&file)) throw std::runtime_error("not a ModelProto");
      // Strict: an error of any node, type or known dimension ends it.
      onnx::shape_inference::InferShapes(model, onnx::OpSchemaRegistry::Instance(),
                                         onnx::ShapeInferenceOptions(true, 1, true));
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s: %s\n", argv[i], error.what());
      return 1;
    }
  }
}
