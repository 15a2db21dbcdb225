// nystrom bench: time training or inference steps of a model of a given size on random tokens.
#include <nlohmann/json.hpp>

#include "core/check.h"
#include "core/cuda/runtime.h"
#include "train/cli/commands.h"
#include "train/config/config.h"
#include "train/plan/bench.h"

namespace nystrom {
namespace {

struct Options {
  CommonOptions common;
  BenchOptions bench;
  std::vector<std::int64_t> lengths = {512};
  std::int64_t tokens = 0;  ///< of a step; 0: --batch says how many sequences
  std::string mode = "train";
};

/// The products that cuBLASLt was asked for.
nlohmann::ordered_json products() {
  auto out = nlohmann::ordered_json::array();
  for (const cuda::Product& product : cuda::products()) {
    auto algorithms = nlohmann::ordered_json::array();
    for (const auto& [text, seconds] : product.algorithms)
      algorithms.push_back({{"algorithm", text}, {"seconds", seconds}});
    out.push_back({{"product", product.text}, {"algorithms", algorithms}});
  }
  return out;
}

void show(const Options& options, const BenchResult& result) {
  const BenchOptions& bench = options.bench;
  if (!options.common.json) {
    fmt::print(
        "median step  {:.4f} s\ntokens/s     {:.0f}\npeak memory  {:.2f} GB, {:.2f} reserved\n"
        "GFLOP/s      {:.0f}, {:.0f} % of a product alone\ncopies       {:.1f} GB/s\n",
        result.median_step_seconds, result.tokens_per_second,
        static_cast<double>(result.peak_memory_bytes) / 1e9,
        static_cast<double>(result.reserved_memory_bytes) / 1e9,
        result.flops_per_step / result.median_step_seconds / 1e9, 100 * result.share_of_limit(),
        result.copy_bytes_per_second / 1e9);
    if (const auto slow = cuda::slow_products(); slow.count > 0) fmt::print("{}\n", slow.text());
    for (const auto& [kernel, calls, seconds] : result.kernels)
      fmt::print("  {:<40} {:5.0f} calls {:9.3f} ms\n", kernel, calls, 1e3 * seconds);
    if (bench.products) fmt::print("{}\n", products().dump(1));
    return;
  }
  nlohmann::ordered_json out = {{"median_step_seconds", result.median_step_seconds},
                                {"step_seconds", result.step_seconds},
                                {"tokens_per_second", result.tokens_per_second},
                                {"peak_memory_bytes", result.peak_memory_bytes},
                                {"reserved_memory_bytes", result.reserved_memory_bytes},
                                {"flops_per_step", result.flops_per_step},
                                {"slow_products", cuda::slow_products().count},
                                {"product_flops_per_second", result.product_flops_per_second},
                                {"copy_bytes_per_second", result.copy_bytes_per_second},
                                {"share_of_limit", result.share_of_limit()},
                                {"losses", result.losses}};
  for (const auto& [kernel, calls, seconds] : result.kernels)
    out["kernels"].push_back({{"name", kernel}, {"calls", calls}, {"seconds", seconds}});
  if (bench.products) out["products"] = products();
  out["settings"] = {{"layers", bench.layers},
                     {"hidden", bench.hidden},
                     {"heads", bench.heads},
                     {"landmarks", bench.landmarks},
                     {"length", bench.length},
                     {"batch", bench.batch},
                     {"vocab", bench.vocab},
                     {"conv", bench.conv},
                     {"mode", options.mode},
                     {"dtype", enum_name(bench.dtype)},
                     {"attention", enum_name(bench.attention)},
                     {"set", bench.overrides},
                     {"activation_checkpointing", bench.activation_checkpointing},
                     {"threads", result.threads},
                     {"device", options.common.device},
                     {"cpu_level", result.cpu_level}};
  fmt::print("{}\n", out.dump());
}

void run(Options options) {
  BenchOptions& bench = options.bench;
  bench.overrides = options.common.overrides;
  bench.train = options.mode == "train";
  if (options.mode == "encode") bench.head = Head::none;
  for (const std::int64_t length : options.lengths)
    require_input(options.tokens % length == 0, "--tokens {} is no multiple of --length {}",
                  options.tokens, length);
  bench.device = options.common.apply();
  require_input(!bench.products || !bench.device.is_cpu(),
                "--products is of a GPU's library; give --device cuda");
  for (const std::int64_t length : options.lengths) {
    bench.length = length;
    if (options.tokens > 0) bench.batch = options.tokens / length;
    if (options.lengths.size() > 1 && !options.common.json)
      fmt::print("length       {} x {}\n", bench.batch, length);
    show(options, run_bench(bench));
    std::fflush(stdout);  // what is measured stays, whatever the next length does
  }
}

}  // namespace

Command add_bench_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  auto* command =
      app.add_subcommand("bench", "Time training or inference steps of a model on random tokens");
  command->footer(
      "train: a whole step: 15 % of the tokens masked, dropout 0.1, loss, backward, clipping, "
      "AdamW. forward: logits at all positions. encode: the encoder alone.\n\n"
      "Example:\n  nystrom bench --layers 12 --hidden 768 --heads 12 --length 512 --batch 4 --mode "
      "train --dtype bf16 --json\n"
      "  nystrom bench --length 8192 --batch 1 --set model.positions=rope --set model.mlp=geglu");
  BenchOptions& b = options->bench;
  add_number(*command, "--layers", b.layers, "encoder layers", 0);
  add_number(*command, "--hidden", b.hidden,
             "hidden size; the feed-forward layer is 4 times as wide");
  add_number(*command, "--heads", b.heads, "attention heads");
  add_number(*command, "--landmarks", b.landmarks, "landmarks");
  command
      ->add_option("--length", options->lengths, "tokens of a sequence; several: one after another")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 31))
      ->capture_default_str();
  add_number(*command, "--batch", b.batch, "sequences of a step");
  add_number(*command, "--tokens", options->tokens, "tokens of a step, in place of --batch", 0);
  command->get_option("--tokens")->excludes("--batch");
  add_number(*command, "--vocab", b.vocab, "vocabulary", 5);
  add_number(*command, "--conv", b.conv, "taps of the convolution skip, odd; 0: none", 0);
  add_number(*command, "--warmup", b.warmup, "untimed steps before the timed ones", 0);
  add_number(*command, "--steps", b.steps, "steps to time");
  command->add_option("--mode", options->mode, "what to time")
      ->check(CLI::IsMember({"train", "forward", "encode"}))
      ->capture_default_str();
  add_choice(*command, "--dtype", b.dtype, dtype_help, {"f32", "bf16", "f16"});
  add_choice(*command, "--attention", b.attention, "attention kind; with its default options");
  command->add_flag("--activation-checkpointing", b.activation_checkpointing,
                    "compute each layer again in the backward pass: less memory, more time");
  command->add_flag("--profile", b.profile,
                    "also show the time of each kernel, over as many further steps");
  command->add_flag("--products", b.products,
                    "also show the algorithms that cuBLASLt offers for each product, timed");
  options->common.add_to(*command, {.json = "one JSON object"});
  return {command, [options] { run(*options); }};
}

}  // namespace nystrom
