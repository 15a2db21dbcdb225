// A pretraining run. It starts with the first step or continues from its newest checkpoint. On
// features some rows of a sample are zeros, and the model says them from the others, as masked
// autoencoders do with patches (He et al., CVPR 2022).
#pragma once

#include "data/tasks/task_dataset.h"
#include "train/loop/trainer.h"
#include "train/objectives/corpus.h"
#include "train/objectives/evaluation.h"

namespace nystrom {

/// The result of a pretraining run.
struct PretrainResult {
  RunResult run;
  Evaluation evaluation;  ///< the last one; its `tokens` are 0 if there was none, and of features
};

/// Prepares the text of a run (prepare_corpus) and pretrains with train_run; of features see
/// pretrain_features. `spec` is resolved for pretraining. Throws an InputError for unusable text.
PretrainResult pretrain(const RunSpec& spec, Log& log, Device device, Communicator& communicator,
                        const RunObserver& observer = {});

/// The identity of a run's data and of its teacher, or null, which a resumed run compares.
RunData run_data(const Corpus& corpus, const Model* teacher);
/// The model of distillation.teacher; null without one.
std::unique_ptr<Model> load_teacher(const RunSpec& spec, Device device);

/// The features of a batch whose masked rows are zeros, and what they held.
struct MaskedFeatures {
  ModelInput input;
  std::vector<std::int64_t> rows;  ///< the masked rows of the input, ascending
  /// [rows, width] f64: each row standardised over its own width, (x − mean) / √(variance + 1e-12).
  Tensor targets;
};

/// Which rows of samples are masked.
struct FeatureMasking {
  double share = 0.15;       ///< of the rows of a sample: see masked_rows
  std::uint64_t seed = 0;    ///< with epoch and sample it decides the rows
  std::int64_t samples = 1;  ///< of the data set: sample_ids of a batch tell the epoch by it
};

/// The numbers of the rows of a batch that are masked, of which it needs offsets and samples alone.
std::vector<std::int64_t> masked_rows(const Batch& batch, const FeatureMasking& masking);
/// Masks a batch that has its features. They are overwritten.
MaskedFeatures mask_features(Batch batch, const FeatureMasking& masking);

/// The samples of a run on features.
struct FeatureSets {
  std::shared_ptr<const TaskDataset> train, validation;
};

/// Opens the samples that spec.inputs names, a task of kind features: those to train on, and those
/// to validate on. A test part stays unread. Throws an InputError for the first error in the files,
/// and where all samples of a set have a single row.
FeatureSets open_features(const RunSpec& spec);

/// The identity of a run's samples, which a resumed run compares.
RunData run_data(const FeatureSets& sets);

/// A description of the samples, a line a set.
std::vector<std::string> describe(const FeatureSets& sets, std::int64_t sequence_length);

/// Warnings about the samples, a line each, with those of training_warnings.
std::vector<std::string> feature_warnings(const FeatureSets& sets, const TrainingConfig& training);

/// Pretrains on the features that spec.inputs names, with train_run. The loss is the mean squared
/// error of the standardised masked rows. Warns where its best is no better than that of always the
/// mean row of training samples.
RunResult pretrain_features(const RunSpec& spec, Log& log, Device device,
                            Communicator& communicator, const RunObserver& observer);

}  // namespace nystrom
