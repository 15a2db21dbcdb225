// The k-th allocation fails, for every k. Readers and a save must end in std::bad_alloc or an Error
// of this project, and must work again afterwards.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <new>

#include "core/base/error.h"
#include "tests/faults/saving.h"
#include "tests/support/fixtures.h"
#include "tests/support/start_defaults.h"
#include "tests/support/temporary_folder.h"
#include "train/config/config_io.h"
#include "train/state/safetensors.h"

namespace {

int allocations_left = 0;  ///< allocations until one fails; 0: none fails
bool allocation_failed = false;

void* allocate_or_null(std::size_t size) noexcept {
  if (allocations_left > 0 && --allocations_left == 0) {
    allocation_failed = true;
    return nullptr;
  }
  return std::malloc(size == 0 ? 1 : size);
}

void* allocate(std::size_t size) {
  void* block = allocate_or_null(size);
  if (!block) throw std::bad_alloc();
  return block;
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size); }
void* operator new[](std::size_t size) { return allocate(size); }
// AddressSanitizer has a form of its own of these, whose blocks it does not let free() take.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return allocate_or_null(size);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return allocate_or_null(size);
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete[](void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }
void operator delete[](void* block, std::size_t) noexcept { std::free(block); }

namespace nystrom::testing {
namespace {

namespace fs = std::filesystem;

/// Calls `subject` with a failing allocation until none fails any more. Returns the number of
/// failures.
int fail_each_allocation(const std::function<void()>& subject) {
  for (int allocation = 1;; ++allocation) {
    allocation_failed = false;
    allocations_left = allocation;
    try {
      subject();
    } catch (const std::bad_alloc&) {
    } catch (const Error& error) {
      allocations_left = 0;
      EXPECT_TRUE(allocation_failed) << error.what();
    }
    allocations_left = 0;
    if (!allocation_failed) return allocation - 1;
  }
}

TEST(AllocationFailure, InReadersEndsInATypedError) {
  const fs::path weights = fixture_folder() / "hf" / "mlm_exact_padded" / "model.safetensors";
  EXPECT_GT(fail_each_allocation([&] { TensorFile::open(weights); }), 100);
  EXPECT_GT(fail_each_allocation([&] {
              parse_config("seed: 3\nmodel: {hidden_size: 24, attention: {num_landmarks: 4}}\n",
                           "run.yaml", start_defaults);
            }),
            100);
}

/// Runs a save in a child process, which may die: destructors of JSON values allocate and cannot
/// report a failure.
bool save_dies_or_ends(CheckpointFolder& folder, int allocation) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::set_terminate([] { ::_exit(1); });
    allocations_left = allocation;
    try {
      save_step(folder, 4);
    } catch (const std::exception&) {
    }
    ::_exit(allocations_left > 0 ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "by signal " << WTERMSIG(status);
  return WEXITSTATUS(status) == 0;
}

TEST(AllocationFailure, InASaveLosesNothing) {
  const TemporaryFolder root;
  const fs::path checkpoints = checkpoints_below(root.path());
  CheckpointFolder folder(checkpoints, 2);
  for (std::int64_t step = 1; step <= 3; ++step) save_step(folder, step);
  int allocation = 1;
  for (; !save_dies_or_ends(folder, allocation); ++allocation) {
    std::vector<std::string> passed_over;
    ASSERT_GE(newest_checkpoint(checkpoints, passed_over).value_or(0), 3)
        << "allocation " << allocation;
    ASSERT_TRUE(passed_over.empty()) << passed_over.front();
    folder.remove_leftovers();
  }
  EXPECT_GT(allocation, 100);
}

}  // namespace
}  // namespace nystrom::testing
