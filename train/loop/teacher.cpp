#include "train/loop/teacher.h"

#include "core/base/printable.h"
#include "core/check.h"
#include "nn/layer_kinds.h"
#include "train/state/transformers_class.h"

namespace nystrom {
namespace {

void require_same_vocabulary(const Tokenizer& teacher, const Tokenizer& run) {
  constexpr const char* advice =
      "teacher and student need one vocabulary: name another teacher, "
      "or its folder as tokenizer.path";
  require_input(teacher.vocab_size() == run.vocab_size(),
                "its tokenizer has {} pieces, the run's {}; {}", teacher.vocab_size(),
                run.vocab_size(), advice);
  for (std::int32_t id = 0; id < run.vocab_size(); ++id)
    require_input(teacher.piece(id) == run.piece(id),
                  "id {} is '{}' in its tokenizer, '{}' in the "
                  "run's; {}",
                  id, printable(teacher.piece(id), 40), printable(run.piece(id), 40), advice);
}

void require_same_shape(const ModelConfig& teacher, const RunConfig& config) {
  const ModelConfig& student = config.model;
  require_input(
      config.distillation.attention_output == 0 ||
          (teacher.num_hidden_layers == student.num_hidden_layers &&
           teacher.hidden_size == student.hidden_size),
      "it has {} layers of width {}, the model {} of width {}; distillation.attention_output "
      "compares layer with layer: set it to 0, or name another teacher",
      teacher.num_hidden_layers, teacher.hidden_size, student.num_hidden_layers,
      student.hidden_size);
}

/// Throws unless the teacher takes all sequences that it gets.
void require_positions(const ModelConfig& teacher, const RunConfig& config) {
  const auto longest = teacher.longest_sequence();
  for (const Stage& stage : stages_of(config)) {
    if (!longest || stage.length <= *longest || !config.distillation.at_step(stage.begin + 1))
      continue;
    require_input(stage.begin > 0,
                  "it takes at most {} tokens, the sequences have {}; begin with shorter ones in "
                  "data.length_schedule, and end with the teacher before they grow, by "
                  "distillation.until_step",
                  *longest, stage.length);
    throw InputError(
        fmt::format("it takes at most {} tokens, the sequences have {} after {} steps; set "
                    "distillation.until_step "
                    "to {}",
                    *longest, stage.length, stage.begin, stage.begin));
  }
}

}  // namespace

ModelFolder open_teacher(const RunSpec& spec) {
  Log quiet(true);
  return with_context("distillation.teacher", [&] {
    ModelFolder folder = open_model_folder(*spec.options.distillation.teacher, {}, quiet);
    const ModelConfig &teacher = folder.config, &student = spec.options.model;
    const auto tokenizer = open_masked_lm_tokenizer(folder);
    with_context(printable_path(folder.path), [&] {
      require_input(has_exact_attention(teacher),
                    "its attention is {}; a teacher has exact attention, softmax: name the folder "
                    "from which the model was converted",
                    describe_kinds(teacher));
      require_same_vocabulary(*tokenizer, *spec.tokenizer);
      require_input(teacher.vocab_size == student.vocab_size,
                    "it predicts {} tokens, the model {}; set model.vocab_size to {}",
                    teacher.vocab_size, student.vocab_size, teacher.vocab_size);
      require_same_shape(teacher, spec.options);
      require_positions(teacher, spec.options);
    });
    return folder;
  });
}

Distillation load_teacher(const RunSpec& spec, Device device) {
  return {spec.options.distillation,
          load_model(spec.teacher->path, spec.teacher->config, spec.options.training.dtype,
                     StoreMode::inference, device)};
}

}  // namespace nystrom
