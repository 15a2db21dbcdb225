// The model of a run together with all state that training changes. A checkpoint holds this state
// and the run's own.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/log.h"
#include "nn/model.h"
#include "train/distributed/communicator.h"
#include "train/distributed/gradient_sum.h"
#include "train/loop/run_spec.h"
#include "train/optim/optimizer.h"
#include "train/optim/weight_average.h"
#include "train/state/checkpoint.h"
#include "train/state/optimizer_files.h"

namespace nystrom {

/// A warning of a run whose options, but for dropout, are not those that the weights of model.from
/// were trained with: those of the encoder, of a head that is kept and of vectors. Empty for
/// others.
std::string changed_computation(const RunSpec& spec);

/// Model, optimizer, average of the weights and sum of the gradients, in one of several processes.
/// All its functions are collective.
class TrainedModel {
 public:
  /// `spec` and `communicator` must outlive it; for `micro_batch_ranks` see GradientSum. It has
  /// no weights before initialise or read.
  TrainedModel(const RunSpec& spec, std::vector<int> micro_batch_ranks, Device device,
               Communicator& communicator);
  TrainedModel(const TrainedModel&) = delete;
  TrainedModel& operator=(const TrainedModel&) = delete;

  Model& model() { return model_; }
  Optimizer& optimizer() { return *optimizer_; }
  /// The sum of each step's gradients. Null in a single process without training.deterministic.
  GradientSum* gradient_sum() { return gradient_sum_ ? &*gradient_sum_ : nullptr; }

  /// Sets the first weights: fresh ones, or those of model.from. A fresh head of regression says
  /// `first_value`.
  void initialise(Log& log, std::optional<double> first_value);
  /// Reads weights and optimizer state of `checkpoint`, which was saved after `updates` updates.
  void read(const std::filesystem::path& checkpoint, std::int64_t updates);
  /// Updates the average after the optimizer has updated the weights. Does nothing without an
  /// average.
  void update_average();
  /// Runs f while the model has its averaged weights. Without an average it has its own.
  void with_ema_weights(const std::function<void()>& f);
  /// Saves a checkpoint of `step`, with `others` beside the files of the weights and the optimizer.
  void save(CheckpointFolder& checkpoints, std::int64_t step,
            const std::vector<CheckpointFolder::File>& others);
  /// Throws an Error that names the process and `reason`, unless all processes have the same
  /// weights and moments. Sharded state has no copies and is not compared.
  void require_same_in_all(const std::string& reason);

 private:
  void start_average();
  std::vector<NamedTensor> optimizer_slabs() const;

  const RunSpec& spec_;
  Communicator& communicator_;
  bool sharded_;  // whether masters and moments are spread over the processes
  Model model_;
  std::optional<GradientSum> gradient_sum_;
  std::optional<Optimizer> optimizer_;
  std::optional<WeightAverage> average_;
};

}  // namespace nystrom
