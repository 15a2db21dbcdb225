// How a process detects that it is one of several, and which of them hangs: without MPI.
#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/places.h"
#include "tests/support/program_test.h"
#include "tests/support/temporary_folder.h"
#include "train/distributed/hang_detector.h"
#include "train/distributed/processes.h"

namespace nystrom::testing {
namespace {

namespace fs = std::filesystem;

TEST(Processes, TheEnvironmentTellsTheLauncher) {
  using Environment = std::map<std::string, std::string>;
  EXPECT_EQ(launcher_of({}), Launcher::none);
  EXPECT_EQ(launcher_of(Environment{{"OMPI_COMM_WORLD_SIZE", "2"}}), Launcher::mpi);
  EXPECT_EQ(launcher_of(Environment{{"PMI_SIZE", "2"}}), Launcher::mpi);
  EXPECT_EQ(launcher_of(Environment{{"PMIX_RANK", "0"}}), Launcher::mpi);
  EXPECT_EQ(launcher_of(Environment{{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "1"}}),
            Launcher::mpi);
  EXPECT_EQ(launcher_of(Environment{{"SLURM_STEP_NUM_TASKS", "1"}}), Launcher::none);
  EXPECT_EQ(launcher_of(Environment{{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}}), Launcher::none)
      << "a batch script, without srun";
  EXPECT_EQ(launcher_of(Environment{{"WORLD_SIZE", "2"}, {"RANK", "0"}}), Launcher::variables);
  EXPECT_EQ(launcher_of(Environment{{"WORLD_SIZE", "1"}}), Launcher::none);
  EXPECT_EQ(message_of([] {
              launcher_of(Environment{{"WORLD_SIZE", "2x"}});
            }),
            "WORLD_SIZE is '2x', expected a whole number, as mpirun, srun and torchrun set it; "
            "unset it to start one process");
  EXPECT_EQ(launcher_of(Environment{{"SLURM_STEP_NUM_TASKS", "2"},
                                    {"PMIX_RANK", "1"},
                                    {"TORCHELASTIC_RUN_ID", "none"},
                                    {"WORLD_SIZE", "16"}}),
            Launcher::variables)
      << "torchrun under srun";
}

TEST(Processes, TheEnvironmentTellsThePlace) {
  using Environment = std::map<std::string, std::string>;
  const auto place = [](const Environment& environment) {
    const StartedAs found = started_as(environment);
    return std::pair(found.rank, found.size);
  };
  using Place = std::pair<std::int64_t, std::int64_t>;
  EXPECT_EQ(place({}), Place(0, 1));
  EXPECT_EQ(
      place({{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "3"}, {"PMIX_RANK", "3"}}),
      Place(3, 4));
  EXPECT_EQ(place({{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}}), Place(1, 2));
  EXPECT_EQ(place({{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "2"}}), Place(2, 4));
  EXPECT_EQ(place({{"PMIX_RANK", "2"}}), Place(2, 3)) << "at least";
  EXPECT_EQ(place({{"WORLD_SIZE", "2"}, {"RANK", "1"}}), Place(1, 2));
  EXPECT_EQ(place({{"SLURM_PROCID", "5"}}), Place(0, 1)) << "a batch script, without srun";
  EXPECT_EQ(place({{"OMPI_COMM_WORLD_SIZE", "1"},
                   {"OMPI_COMM_WORLD_RANK", "0"},
                   {"SLURM_STEP_NUM_TASKS", "2"},
                   {"SLURM_PROCID", "1"}}),
            Place(0, 1))
      << "mpirun -np 1 on the second node of a job";
}

TEST(Processes, VariablesOfOtherLaunchersAreRefused) {
  const TemporaryFolder folder;
  EXPECT_EQ(refused(run_command(folder, "env WORLD_SIZE=2 RANK=0 '" + build_folder().string() +
                                            "/nystrom' pretrain run.yaml")),
            "nystrom: WORLD_SIZE is 2, but on CPUs nystrom's processes are started by mpirun or "
            "srun: mpirun -np 2 nystrom …; unset it to train in one process\n");
}

TEST(Processes, TorchrunsVariablesTellThePlace) {
  std::map<std::string, std::string> environment = {{"WORLD_SIZE", "16"},
                                                    {"RANK", "11"},
                                                    {"LOCAL_RANK", "3"},
                                                    {"MASTER_ADDR", "node1"},
                                                    {"MASTER_PORT", "29500"}};
  const MeetingPlace place = torchrun_place(environment);
  EXPECT_EQ(place.size, 16);
  EXPECT_EQ(place.rank, 11);
  EXPECT_EQ(place.local_rank, 3);
  EXPECT_EQ(place.host, "node1");
  EXPECT_EQ(place.port, "29500");
  environment["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  EXPECT_EQ(torchrun_place(environment).port, "29501") << "torchrun listens at the port itself";
  environment["RANK"] = "16";
  EXPECT_EQ(message_of([&] { torchrun_place(environment); }),
            "RANK is 16: expected a number from 0 to 15, as torchrun sets it");
  environment["RANK"] = "one";
  EXPECT_EQ(message_of([&] { torchrun_place(environment); }),
            "RANK is one: expected a number from 0 to 15, as torchrun sets it");
  environment.erase("RANK");
  EXPECT_EQ(
      message_of([&] { torchrun_place(environment); }),
      "WORLD_SIZE is set, but RANK is not: start the processes with mpirun, srun or torchrun");
}

TEST(Processes, WithoutTheModuleThereIsOneLine) {
  const TemporaryFolder folder;
  fs::copy_file(build_folder().string() + "/nystrom", folder / "nystrom");
  EXPECT_EQ(refused(run_command(folder, "env OMPI_COMM_WORLD_SIZE=2 ./nystrom pretrain run.yaml")),
            "nystrom: started as one of several processes, but libnystrom_mpi.so is not beside the "
            "program; build it where these are "
            "installed: openmpi-bin libopenmpi-dev; or start one process\n");
}

class HangDetectorTest : public ::testing::Test {
 protected:
  HangDetector of(int rank) {
    return HangDetector(folder_ / "waiting", rank, 3, 4,
                        [](int each) { return "rank " + std::to_string(each) + " on node"; });
  }
  TemporaryFolder folder_;
};

TEST_F(HangDetectorTest, NamesTheMissingRank) {
  HangDetector first = of(0), last = of(2);
  EXPECT_FALSE(first.waiting(7, 1).has_value());
  EXPECT_FALSE(fs::exists(folder_ / "waiting")) << "a short wait leaves nothing";
  EXPECT_FALSE(first.waiting(7, 2).has_value());
  EXPECT_FALSE(last.waiting(7, 0.1).has_value());  // this rank answers
  EXPECT_FALSE(last.waiting(7, 5).has_value()) << "the lowest one is to tell";
  const std::string message =
      "no answer from rank 1 on node within 4 seconds (training.timeout); all processes end; the "
      "same command goes on from the last checkpoint";
  EXPECT_EQ(first.waiting(7, 4), message);
  EXPECT_EQ(last.waiting(7, 6), message);
}

TEST_F(HangDetectorTest, NoRankIsMissingThatDoesNotTakePart) {
  HangDetector first = of(0);
  EXPECT_FALSE(first.waiting(7, 10).has_value());
  EXPECT_FALSE(first.waiting(7, 11.9).has_value());
  EXPECT_TRUE(first.waiting(7, 12).has_value());
}

TEST_F(HangDetectorTest, NamesTheRankThatLags) {
  HangDetector first = of(0), second = of(1), last = of(2);
  EXPECT_FALSE(first.waiting(7, 2).has_value());
  EXPECT_FALSE(second.waiting(5, 2).has_value());
  EXPECT_FALSE(last.waiting(7, 2).has_value());
  expect_says(first.waiting(7, 4).value_or(""),
              "rank 1 on node did not come along within 4 seconds");
}

TEST_F(HangDetectorTest, WhenAllWaitTheNetworkIsAtFault) {
  HangDetector first = of(0), second = of(1), last = of(2);
  for (HangDetector* each : {&first, &second, &last}) EXPECT_FALSE(each->waiting(7, 2).has_value());
  expect_says(first.waiting(7, 4).value_or(""), "is the network between them down?");
}

TEST_F(HangDetectorTest, AnAnswerClearsTheFiles) {
  HangDetector first = of(0), second = of(1);
  EXPECT_FALSE(first.waiting(7, 2).has_value());
  EXPECT_FALSE(second.waiting(7, 2).has_value());
  first.answered();
  second.answered();
  EXPECT_FALSE(fs::exists(folder_ / "waiting"));
}

}  // namespace
}  // namespace nystrom::testing
