#include "train/state/other_models.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

/// A file of a folder, and the beginning of what is said of it.
struct FolderCase {
  const char *file, *begin;
};

constexpr FolderCase cases[] = {
    {"adapter_config.json", "adapter_config.json belongs to an adapter"},
    {"model.pt", "model.pt has another name than pytorch_model.bin"},
    {"tf_model.h5",
     "tf_model.h5 holds weights of TensorFlow; convert it with transformers 4: "
     "python -c \"from transformers import AutoModel; "
     "AutoModel.from_pretrained('IN', from_tf=True).save_pretrained('OUT')\""},
    {"flax_model.msgpack", "flax_model.msgpack holds weights of Flax; convert it"},
    {"bert_model.ckpt.index", "bert_model.ckpt.index belongs to a checkpoint of TensorFlow 1"},
    {"model_quantized.onnx", "model_quantized.onnx is a graph of ONNX"},
    {"onnx/model.onnx", "onnx holds graphs of ONNX"},
    {"bge-small-q8_0.gguf", "bge-small-q8_0.gguf is a file of llama.cpp"},
    {"model.fp16.safetensors", "model.fp16.safetensors has another name than model.safetensors"},
    {"notes.txt", ""},
};

TEST(OtherModels, FoldersSayWhatTheyHold) {
  for (const auto& [file, begin] : cases) {
    const TemporaryFolder folder;
    write_bytes(folder / file, "");
    const std::string said = what_folder_holds(folder.path());
    EXPECT_TRUE(said.starts_with(begin)) << said;
    EXPECT_EQ(said.empty(), std::string(begin).empty()) << said;
  }
}

TEST(OtherModels, AModelBelowIsNamed) {
  const TemporaryFolder folder;
  const fs::path cache = folder / "models--me--tiny";
  for (const char* hash : {"aa11", "bb22", "cc33"})
    write_bytes(cache / "snapshots" / hash / "config.json", "{}");
  EXPECT_EQ(what_folder_holds(cache / "snapshots"),
            "there are models below it; give " + (cache / "snapshots/aa11").string() + " or " +
                (cache / "snapshots/bb22").string() + " or " + (cache / "snapshots/cc33").string());
  write_bytes(cache / "refs/main", "bb22");
  EXPECT_EQ(what_folder_holds(cache),
            "it is a folder of the hub's cache, with models below it; give " +
                (cache / "snapshots/bb22").string());
  write_bytes(folder / "old/0_Transformer/config.json", "{}");
  EXPECT_EQ(what_folder_holds(folder / "old"),
            "there are models below it; give " + (folder / "old/0_Transformer").string());
}

TEST(OtherModels, OnlyWholeNamesOfTypesAreKnown) {
  EXPECT_EQ(why_not_read("mpnet"), "its attention has terms for the distance of two tokens");
  EXPECT_EQ(why_not_read("pnet"), "");
  EXPECT_EQ(why_not_read(""), "");
}

}  // namespace
}  // namespace nystrom
