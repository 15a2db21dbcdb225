#include "train/plan/doctor.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "core/base/control_groups.h"
#include "core/base/file_io.h"
#include "core/base/printable.h"
#include "core/base/words.h"
#include "core/check.h"
#include "core/cuda/runtime.h"
#include "core/dispatch.h"
#include "core/threads.h"
#include "data/library_versions.h"
#include "train/distributed/processes.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

constexpr const char *ok = "ok", *note = "note", *missing = "missing";  // Finding::status
constexpr const char* blanks = " \t\n";

/// Reads a small system file. Returns an empty text when it does not exist. Such files report size
/// 0, so read_text_file cannot read them.
std::string read(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(blanks);
  return begin == text.npos
             ? ""
             : printable(text.substr(begin, text.find_last_not_of(blanks) + 1 - begin), 120);
}

/// Returns the text after the colon in the first line "key   : value" of `text`.
std::string value_of(const std::string& text, std::string_view key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(':');
    if (colon != line.npos && trimmed(std::string_view(line).substr(0, colon)) == key)
      return std::string(line.substr(colon + 1));
  }
  return "";
}

std::string gigabytes(std::int64_t bytes) {
  return fmt::format("{:.1f} GB", static_cast<double>(bytes) / 1e9);
}

/// Those that this process may run on: taskset, Slurm and containers can leave out some.
int cores() { return omp_get_num_procs(); }

/// The finding that all is well, or a note with advice.
Finding judged(const char* name, bool well, std::string text, std::string advice) {
  return {name, well ? ok : note, std::move(text), well ? "" : std::move(advice)};
}

// ---- The machine --------------------------------------------------------------------------------

std::vector<Finding> examine_processor(const fs::path& root) {
  const std::string info = read(root / "proc/cpuinfo"), text = value_of(info, "flags");
  const std::string model = trimmed(value_of(info, "model name"));
  const auto flags = words_between(text, blanks);
  const bool amx = std::ranges::find(flags, "amx_bf16") != flags.end(),
             avx512 = std::ranges::find(flags, "avx512_bf16") != flags.end();
  return {{"cpu", ok, model.empty() ? "of unknown name" : model, ""},
          judged("vectors", cpu_level() != CpuLevel::baseline, name_of(cpu_level()),
                 "kernels run without AVX2: a machine that has it is several times faster"),
          judged("bf16", amx || avx512,
                 amx      ? "AMX"
                 : avx512 ? "AVX-512, no AMX"
                          : "no instructions for it",
                 "training.dtype=f32 is likely faster: compare with nystrom bench")};
}

Finding examine_threads(const fs::path& root) {
  std::string text = fmt::format("{} on {} cores", num_threads(), cores());
  const double quota = cpu_quota(root), usable = std::min<double>(cores(), std::ceil(quota));
  if (std::isfinite(quota)) text += fmt::format(", of which this container may use {:g}", quota);
  return judged(
      "threads", num_threads() <= usable, text,
      fmt::format("more threads than cores wait for each other: give --threads {:g}", usable));
}

Finding examine_load(const fs::path& root) {
  double load = 0;
  if (std::ifstream file(root / "proc/loadavg"); !(file >> load))
    return {"load", note, "unknown", ""};
  const char* policy = std::getenv("OMP_WAIT_POLICY");
  const bool passive =
      policy && (std::string_view(policy) == "passive" || std::string_view(policy) == "PASSIVE");
  return judged("load", load <= cores() || passive,
                fmt::format("{:.2f} on {} cores", load, cores()),
                "others compute here too: set OMP_WAIT_POLICY=passive, so that waiting threads "
                "leave them the cores");
}

Finding examine_memory(const fs::path& root) {
  const fs::path info = root / "proc/meminfo";
  const auto total_kib = number_in_file(info, "MemTotal:"),
             available_kib = number_in_file(info, "MemAvailable:");
  if (!total_kib || !available_kib) return {"memory", note, "unknown", ""};
  const std::int64_t total = *total_kib * 1024, available = *available_kib * 1024,
                     limit = memory_limit_bytes(root);
  std::string text = fmt::format("{}, {} available", gigabytes(total), gigabytes(available));
  if (limit < total) text += fmt::format("; this container may use {}", gigabytes(limit));
  constexpr std::int64_t little = 2'000'000'000;
  return judged("memory", std::min(available, limit) >= little, text,
                "lower training.micro_batch_size when memory runs out; the result stays the same");
}

Finding examine_disk() {
  std::error_code error;
  const fs::space_info space = fs::space(".", error);
  if (error) return {"disk", note, "free space here is unknown: " + error.message(), ""};
  const auto free = static_cast<std::int64_t>(space.available);
  constexpr std::int64_t little = 10'000'000'000;
  return judged("disk", free >= little, gigabytes(free) + " free in the current folder",
                "a checkpoint of the base model has 1.3 GB: lower checkpoint.keep, or set run_dir "
                "and data.cache to another disk");
}

// ---- GPUs ---------------------------------------------------------------------------------------

bool is_nvidia_gpu(const fs::path& pci_device) {
  const std::string kind = trimmed(read(pci_device / "class"));
  return trimmed(read(pci_device / "vendor")) == "0x10de" &&
         (kind.starts_with("0x0300") || kind.starts_with("0x0302"));
}

/// Returns "535.104.05" from "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug
/// …".
std::string driver_version(const fs::path& root) {
  const std::string text = value_of(read(root / "proc/driver/nvidia/version"), "NVRM version");
  for (const std::string_view word : words_between(text, blanks))
    if (word.find('.') != word.npos && word.find_first_not_of("0123456789.") == word.npos)
      return std::string(word);
  return "";
}

Finding examine_driver(const fs::path& root, bool has_gpu) {
  const std::string version = driver_version(root);
  if (!version.empty()) return {"driver", ok, version, ""};
  if (!has_gpu) return {"driver", note, "none", ""};
  std::error_code ignored;
  if (fs::exists(root / "dev/nvidia0", ignored)) return {"driver", ok, "of unknown version", ""};
  return {"driver", missing, "none",
          "install the NVIDIA driver, or in a container pass the GPU through"};
}

/// Checks that the CUDA backend of this build can use the first GPU.
Finding examine_cuda() {
  try {
    cuda::require_device(0);
  } catch (const InputError& error) {
    return {"cuda", missing, std::string("in this build, but ") + error.what(), ""};
  }
  return {"cuda", ok, "in this build: --device cuda computes on the first GPU", ""};
}

}  // namespace

std::vector<std::string> gpu_names(const fs::path& root) {
  const std::string unnamed = "an NVIDIA GPU of unknown name";
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(root / "proc/driver/nvidia/gpus", ignored)) {
    const std::string model = trimmed(value_of(read(entry.path() / "information"), "Model"));
    names.push_back(model.empty() ? unnamed : model);
  }
  if (!names.empty()) return names;
  for (int i = 0; fs::exists(root / fmt::format("dev/nvidia{}", i), ignored); ++i)
    names.push_back(unnamed);
  if (!names.empty()) return names;
  for (const auto& entry : fs::directory_iterator(root / "sys/bus/pci/devices", ignored))
    if (is_nvidia_gpu(entry.path())) names.push_back(unnamed);
  return names;
}

std::vector<Finding> examine_machine(const fs::path& root) {
  std::vector<Finding> findings = examine_processor(root);
  findings.insert(findings.end(), {examine_threads(root), examine_load(root), examine_memory(root),
                                   examine_disk()});
  return findings;
}

std::vector<Finding> examine_gpus(const fs::path& root) {
  const std::vector<std::string> names = gpu_names(root);
  std::vector<Finding> findings;
  findings.push_back(
      judged("gpu", !names.empty(),
             names.empty() ? "no NVIDIA GPU" : fmt::format("{}", fmt::join(names, ", ")), ""));
  findings.push_back(examine_driver(root, !names.empty()));
  if (cuda::built_in()) {
    findings.push_back(examine_cuda());
  } else if (names.empty()) {
    findings.push_back({"cuda", note, "not in this build", ""});
  } else {
    findings.push_back({"cuda", missing, "not in this build: the GPU stays unused",
                        "./dev build --cuda makes build/cuda/nystrom"});
  }
  const cuda::CudnnState cudnn = cuda::cudnn_state();
  findings.push_back({"cudnn", cudnn.usable ? ok : note, cudnn.text, cudnn.advice});
  findings.push_back(
      {"nccl", note,
       nccl_module() ? "in this build, and not tried on several GPUs yet" : "not in this build",
       ""});
  findings.push_back(judged("mpi", mpi_module().has_value(),
                            mpi_module() ? "in this build: mpirun -np N starts N processes of one "
                                           "run"
                                         : "not in this build: one process",
                            ""));
  return findings;
}

std::vector<Finding> examine_libraries() {
  std::vector<LibraryVersion> versions = core_library_versions();
  for (const LibraryVersion& library : data_library_versions()) versions.push_back(library);
  versions.push_back({"yaml-cpp", NYSTROM_YAML_CPP_VERSION});
  std::vector<Finding> findings;
  for (const LibraryVersion& library : versions)
    findings.push_back({library.name, ok, library.version, ""});
  return findings;
}

}  // namespace nystrom
