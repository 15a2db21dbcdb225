// nystrom doctor on this machine and on simulated ones.
#include "train/plan/doctor.h"

#include <dnnl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/support/program_test.h"

namespace nystrom::testing {
namespace {

/// Machines are simulated by the files in the test's folder.
class Doctor : public ProgramTest {
 protected:
  void put(const std::string& file, const std::string& text) { write_bytes(folder_ / file, text); }
};

/// Returns "status text; advice" of the finding `name`.
std::string line_of(const std::vector<Finding>& findings, const std::string& name) {
  const auto found = std::ranges::find(findings, name, &Finding::name);
  if (found == findings.end()) return "none";
  return found->status + " " + found->text + (found->advice.empty() ? "" : "; " + found->advice);
}

const std::string all_names[] = {"cpu",  "vectors",   "bf16",          "threads", "load",  "memory",
                                 "disk", "gpu",       "driver",        "cuda",    "cudnn", "nccl",
                                 "mpi",  "oneDNN",    "nlohmann-json", "fmt",     "zlib",  "zstd",
                                 "HDF5", "Oniguruma", "utf8proc",      "yaml-cpp"};

TEST_F(Doctor, PrintsALineAFinding) {
  const Outcome outcome = run("doctor");
  EXPECT_EQ(outcome.err, "");
  for (const std::string& name : all_names) expect_says(outcome.out, " " + name + " ");
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'),
            static_cast<std::ptrdiff_t>(std::size(all_names)));
}

TEST_F(Doctor, NamesTheLoadedOneDnn) {
  const dnnl_version_t* loaded = dnnl_version();
  EXPECT_EQ(line_of(examine_libraries(), "oneDNN"),
            fmt::format("ok {}.{}.{}", loaded->major, loaded->minor, loaded->patch));
}

TEST_F(Doctor, PrintsOneObject) {
  const auto object = nlohmann::json::parse(run("doctor --json").out);
  for (const std::string& name : all_names) {
    ASSERT_TRUE(object.contains(name)) << name;
    EXPECT_FALSE(object[name].at("text").get<std::string>().empty()) << name;
  }
  EXPECT_EQ(object.size(), std::size(all_names));
}

TEST_F(Doctor, NamesTheProcessorAndItsTypes) {
  put("proc/cpuinfo",
      "processor\t: 0\nmodel name\t: Fast CPU\nflags\t\t: fpu avx512_bf16 amx_bf16 sse\n");
  const auto findings = examine_machine(folder_.path());
  EXPECT_EQ(line_of(findings, "cpu"), "ok Fast CPU");
  EXPECT_EQ(line_of(findings, "bf16"), "ok AMX");
}

TEST_F(Doctor, AdvisesAgainstBf16WithoutInstructions) {
  put("proc/cpuinfo", "model name\t: Old CPU\nflags\t\t: fpu amx_bf16_not sse\n");
  EXPECT_EQ(line_of(examine_machine(folder_.path()), "bf16"),
            "note no instructions for it; training.dtype=f32 is likely faster: compare with "
            "nystrom bench");
}

TEST_F(Doctor, SeesThatOthersCompute) {
  put("proc/loadavg", "100000.00 2.00 1.00 2/87 8941\n");
  const char* set = std::getenv("OMP_WAIT_POLICY");
  const std::string before = set ? set : "";
  ::unsetenv("OMP_WAIT_POLICY");
  const std::string spinning = line_of(examine_machine(folder_.path()), "load");
  ::setenv("OMP_WAIT_POLICY", "passive", 1);
  const std::string passive = line_of(examine_machine(folder_.path()), "load");
  if (set)
    ::setenv("OMP_WAIT_POLICY", before.c_str(), 1);
  else
    ::unsetenv("OMP_WAIT_POLICY");
  EXPECT_TRUE(spinning.ends_with(
      "set OMP_WAIT_POLICY=passive, so that waiting threads leave them the cores"))
      << spinning;
  EXPECT_TRUE(passive.starts_with("ok 100000.00 on ")) << passive;
}

TEST_F(Doctor, SeesWhatAContainerMayUse) {
  put("proc/meminfo", "MemTotal:       16000000 kB\nMemFree:  1 kB\nMemAvailable:   8000000 kB\n");
  put("sys/fs/cgroup/memory.max", "1000000000\n");
  put("sys/fs/cgroup/cpu.max", "50000 100000\n");
  const auto findings = examine_machine(folder_.path());
  EXPECT_EQ(line_of(findings, "memory"),
            "note 16.4 GB, 8.2 GB available; this container may use 1.0 GB; lower "
            "training.micro_batch_size when memory runs out; the result stays the same");
  std::filesystem::remove(folder_ / "sys/fs/cgroup/memory.max");
  put("proc/self/cgroup", "4:memory:/box\n");
  put("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "3000000000\n");
  EXPECT_EQ(line_of(examine_machine(folder_.path()), "memory"),
            "ok 16.4 GB, 8.2 GB available; this container may use 3.0 GB");
  const std::string threads = line_of(findings, "threads");
  EXPECT_TRUE(threads.ends_with(
      "this container may use 0.5; more threads than cores wait for each other: give --threads 1"))
      << threads;
}

TEST_F(Doctor, DoesNotMindUnlimitedContainersAndUnreadableFiles) {
  put("sys/fs/cgroup/cpu.max", "max 100000\n");
  const auto findings = examine_machine(folder_.path());
  EXPECT_EQ(line_of(findings, "memory"), "note unknown");
  EXPECT_EQ(line_of(findings, "cpu"), "ok of unknown name");
  expect_hides(line_of(findings, "threads"), "container");
}

TEST_F(Doctor, NamesGpusAndTheDriver) {
  put("proc/driver/nvidia/gpus/0000:01:00.0/information",
      "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 0\n");
  put("proc/driver/nvidia/version",
      "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC "
      "2023\nGCC version: 12.2.0\n");
  const auto findings = examine_gpus(folder_.path());
  EXPECT_EQ(line_of(findings, "gpu"), "ok NVIDIA H100 80GB HBM3");
  EXPECT_EQ(line_of(findings, "driver"), "ok 535.104.05");
  EXPECT_EQ(line_of(findings, "cuda"),
            "missing not in this build: the GPU stays unused; ./dev build --cuda makes "
            "build/cuda/nystrom");
}

/// Containers show only device files.
TEST_F(Doctor, CountsGpusByDeviceFiles) {
  put("dev/nvidia0", "");
  put("dev/nvidia1", "");
  const auto findings = examine_gpus(folder_.path());
  EXPECT_EQ(line_of(findings, "gpu"),
            "ok an NVIDIA GPU of unknown name, an NVIDIA GPU of unknown name");
  EXPECT_EQ(line_of(findings, "driver"), "ok of unknown version");
}

TEST_F(Doctor, SeesAGpuWithoutDriver) {
  put("sys/bus/pci/devices/0000:00:01.0/vendor", "0x8086\n");
  put("sys/bus/pci/devices/0000:00:01.0/class", "0x030000\n");
  put("sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n");
  put("sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n");
  const auto findings = examine_gpus(folder_.path());
  EXPECT_EQ(line_of(findings, "gpu"), "ok an NVIDIA GPU of unknown name");
  EXPECT_EQ(line_of(findings, "driver"),
            "missing none; install the NVIDIA driver, or in a container pass the GPU through");
}

TEST_F(Doctor, DoesNotMissWhatIsNotThere) {
  const auto findings = examine_gpus(folder_.path());
  EXPECT_EQ(line_of(findings, "gpu"), "note no NVIDIA GPU");
  EXPECT_EQ(line_of(findings, "cuda"), "note not in this build");
}

}  // namespace
}  // namespace nystrom::testing
