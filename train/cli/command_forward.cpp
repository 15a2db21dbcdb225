// nystrom forward: run the forward pass, and optionally the backward pass, on given token ids.
#include <algorithm>
#include <array>
#include <filesystem>

#include "core/base/file_io.h"
#include "core/base/stop_signals.h"
#include "core/check.h"
#include "core/safetensors_header.h"
#include "train/cli/commands.h"
#include "train/config/config.h"
#include "train/export/forward.h"
#include "train/objectives/vector_file.h"
#include "train/state/model_folder.h"

namespace nystrom {
namespace {

struct ForwardOptions {
  CommonOptions common;
  std::string model, input, output;
  DType dtype = DType::f32;
  bool gradients = false;
};

/// Whether the file was written here, and holds the tensors of run_forward and nothing else.
bool is_result(const std::filesystem::path& path) {
  constexpr std::array names = {"last_hidden_state", "logits", "start_logits",
                                "end_logits",        "output", "loss"};
  try {
    const auto file = TensorFile::open(path);
    const auto is_ours = [&](const StoredTensor& tensor) {
      if (tensor.checksum.empty()) return false;
      return tensor.name.starts_with("grad.") ||
             std::ranges::find(names, tensor.name) != names.end();
    };
    return !file.tensors().empty() && std::ranges::all_of(file.tensors(), is_ours);
  } catch (const InputError&) {
    return false;
  }
}

void run(const ForwardOptions& options, Device device, Log& log) {
  require_no_link(options.output);
  if (!is_result(options.output)) require_new_file(options.output);
  const ModelFolder folder = open_model(options.model, options.common.overrides, log);
  // There is no loss scaling here: small gradients would underflow to 0 in f16.
  require_input(!options.gradients || options.dtype != DType::f16,
                "--grad: f16 holds no small gradients; use --dtype bf16 or f32");
  const auto mode = options.gradients ? StoreMode::training : StoreMode::inference;
  const auto model = load_model(folder, options.dtype, mode, device);
  const auto file = TensorFile::open(options.input);
  NamedTensors inputs;
  for (const auto& tensor : file.tensors()) inputs.emplace(tensor.name, file.read(tensor.name));
  const auto result =
      with_context(options.input, [&] { return run_forward(*model, inputs, options.gradients); });
  const EndAtSignals stop("stopped; nothing was written");
  write_safetensors(options.output, result);
}

}  // namespace

Command add_forward_command(CLI::App& app) {
  auto options = std::make_shared<ForwardOptions>();
  auto* command = app.add_subcommand(
      "forward",
      "Run a model on given ids or features, exactly: logits, hidden states, loss and gradients");
  command->footer(
      "Input tensors: input_ids, and where wanted attention_mask, token_type_ids, labels (-100: "
      "ignored) or start_positions and\n"
      "end_positions. Output: logits, last_hidden_state, loss and grad.NAME. No dropout. A "
      "sequence block (model.embed_dim) takes\n"
      "features [b, n, width] in place of input_ids; its output [b, hidden] is the last valid "
      "step, and loss_weights of that shape make\n"
      "a loss of it.\n\n"
      "Example:\n  nystrom forward models/base --input batch.safetensors --output out.safetensors "
      "--grad");
  add_model_to(*command, options->model);
  command->add_option("--input", options->input, "safetensors file with the batch")->required();
  command
      ->add_option(
          "--output", options->output,
          "safetensors file to write; of existing files only an earlier result is replaced")
      ->required();
  command->add_flag("--grad", options->gradients, "also write the gradient of every parameter");
  add_choice(*command, "--dtype", options->dtype, dtype_help, dtype_names);
  options->common.add_to(*command);
  return alone(command, options, run);
}

}  // namespace nystrom
