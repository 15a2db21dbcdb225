// The model of a run with all that training moves: what a checkpoint holds beside the run's own
// state.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "nn/model.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/optimizer_files.h"
#include "train/config/config.h"
#include "train/distributed/communicator.h"
#include "train/distributed/gradient_sum.h"
#include "train/logging/log.h"
#include "train/optim/optimizer.h"
#include "train/optim/weight_average.h"

namespace nystrom {

/// Model, optimizer, average of the weights and sum of the gradients, in one of several processes.
/// All of them call its functions together.
class TrainedModel {
 public:
  /// `config` and `communicator` outlive it; `micro_batch_ranks` as GradientSum's. Has no weights
  /// before initialise or read.
  TrainedModel(const RunConfig& config, std::vector<int> micro_batch_ranks, Device device,
               Communicator& communicator);
  TrainedModel(const TrainedModel&) = delete;
  TrainedModel& operator=(const TrainedModel&) = delete;

  Model& model() { return model_; }
  Optimizer& optimizer() { return *optimizer_; }
  /// Of the steps; nullptr where there is but one process, and it does not matter how many there
  /// are.
  GradientSum* gradient_sum() { return gradient_sum_ ? &*gradient_sum_ : nullptr; }

  /// First weights: fresh ones, or those of model.from.
  void initialise(Log& log);
  /// As `checkpoint` has them, after so many updates.
  void read(const std::filesystem::path& checkpoint, std::int64_t updates);
  /// Once the optimizer has updated the weights.
  void update_average();
  /// Runs f while the model has its averaged weights, if there are any.
  void with_ema_weights(const std::function<void()>& f);
  /// A checkpoint of `step`, with `others` beside the files of the weights and the optimizer.
  void save(CheckpointFolder& checkpoints, std::int64_t step,
            const std::vector<CheckpointFolder::File>& others);
  /// Error, naming the process and giving `reason`, unless all have the same weights and moments.
  /// What is sharded has no copy to be compared with.
  void require_same_in_all(const std::string& reason);

 private:
  void start_average();
  std::vector<NamedSlab> optimizer_slabs() const;

  const RunConfig& config_;
  Communicator& communicator_;
  bool sharded_;  // masters and moments are spread over the processes
  Model model_;
  std::optional<GradientSum> gradient_sum_;
  std::optional<Optimizer> optimizer_;
  std::optional<WeightAverage> average_;
};

}  // namespace nystrom
