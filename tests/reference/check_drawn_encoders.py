"""Hugging Face's encoders, whose options and files are drawn together: transformers against
`nystrom forward`, outputs and losses in float64.

usage: check_drawn_encoders.py [--program build/release/nystrom] [--models 60] [--seed 1]

make_architecture_fixtures.py has a case an option. What the program refuses is drawn again."""

import random
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import torch
import transformers
from common import deviation, script, write_tensors
from make_architecture_fixtures import (
    ARCHITECTURES,
    BIASES,
    CHOICE,
    LENGTH,
    MLM,
    QUESTIONS,
    SEQUENCE,
    TOKENS,
    Case,
    Tensors,
    make_batch,
    make_model,
    older_name,
    run,
)
from safetensors.torch import load_file, save_file

F64 = 1e-8  # gelu_fast has its constant to ten digits there
ACTIVATIONS = "gelu gelu_new gelu_fast gelu_pytorch_tanh gelu_python silu swish relu tanh linear"
HEADS = ("ForPreTraining", "", MLM, SEQUENCE, TOKENS, QUESTIONS, CHOICE)
FORMS = ("", "", "older", "bare", "shards", "pickle", "two files")
ARCHITECTURES["Nystromformer"] = dict(num_landmarks=3, segment_means_seq_len=LENGTH)


def draw_config(source: random.Random, model: str, labels: int) -> dict:
    """Options beside those of ARCHITECTURES; also some that nothing here may read."""

    def sometimes(**options: object) -> None:
        if source.random() < 0.3:
            config.update(options)

    heads = source.choice((1, 2, 4))
    width = heads * source.choice((2, 4, 6))
    wide = source.choice((width, 4 * width, 7))
    names = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
    if model == "DistilBert":
        names = ("dim", "n_layers", "n_heads", "hidden_dim")
    config = dict(zip(names, (width, source.choice((1, 2, 3)), heads, wide), strict=True))
    act = {"DistilBert": "activation", "ModernBert": "hidden_activation"}.get(model, "hidden_act")
    config[act] = source.choice(ACTIVATIONS.split())
    sometimes(layer_norm_eps=source.choice((1e-12, 1e-5, 1e-3)))
    sometimes(tie_word_embeddings=False)
    sometimes(pad_token_id=source.choice((0, 1, 2, 3)))
    sometimes(id2label={i: f"{source.choice('aé7')}{i}" for i in range(labels)})
    sometimes(hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.4, classifier_dropout=0.3)
    sometimes(output_hidden_states=True, use_cache=False)
    sometimes(initializer_range=0.5, gradient_checkpointing=True, model_max_length=5)
    if model == "DistilBert":
        sometimes(sinusoidal_pos_embds=True, seq_classif_dropout=0.5, qa_dropout=0.3)
    elif model == "ModernBert":
        sometimes(**dict.fromkeys(BIASES, True))
        sometimes(global_attn_every_n_layers=source.choice((1, 2)))
        sometimes(local_attention=source.choice((2, 5, 7, 128)))
        sometimes(local_rope_theta=source.choice((10.0, 500.0, None)), global_rope_theta=20.0)
        sometimes(classifier_pooling="mean", classifier_activation="relu", norm_eps=1e-3)
        sometimes(decoder_bias=False, deterministic_flash_attn=True)
    elif model == "Nystromformer":
        sometimes(num_landmarks=source.choice((1, LENGTH)), conv_kernel_size=source.choice((1, 5)))
    else:
        sometimes(type_vocab_size=source.choice((1, 2, 3)))
        if model == "Electra":
            sometimes(embedding_size=width, summary_last_dropout=0.3)
    return config


def draw(source: random.Random) -> Case:
    model = source.choice(list(ARCHITECTURES))
    head = source.choice(HEADS if model in ("Bert", "Electra") else HEADS[1:])
    labels = source.choice((1, 2, 5)) if head == "ForSequenceClassification" else 2
    config = draw_config(source, model, labels)
    mask = source.choice(("right", "holes", "none"))
    if model == "ModernBert":  # padding has no results
        mask = mask.replace("holes", "right")
    return Case(model, head, source.choice(FORMS), labels, config, mask)


def write_folder(case: Case, folder: Path, dtype: torch.dtype) -> transformers.PretrainedConfig:
    model = make_model(case).to(dtype)
    small = {"max_shard_size": "3KB"} if case.rename == "shards" else {}
    model.save_pretrained(folder, safe_serialization=case.rename != "pickle", **small)
    return model.config


def rename(case: Case, folder: Path) -> None:
    """Gives the files what transformers does not always read, or reads past."""
    path = folder / "model.safetensors"
    if case.rename not in ("older", "bare", "two files"):
        return
    tensors = load_file(path)
    if case.rename == "two files":  # those of safetensors count
        torch.save({name: x + 1 for name, x in tensors.items()}, folder / "pytorch_model.bin")
    elif case.model != "Nystromformer":
        base = getattr(transformers, case.model + "Model").base_model_prefix + "."
        older = case.rename == "older"
        name = older_name if older else lambda name: name.removeprefix(base)
        tensors = {name(key): x for key, x in tensors.items()}
        save_file(tensors, path, {"format": "pt"})


def worst_of(case: Case, mask: torch.Tensor, expected: Tensors, got: Tensors) -> float:
    """The largest, relative to the tensor's largest entry; of ModernBERT where tokens are."""
    worst = 0.0
    valid = mask.flatten(0, -2) == 1
    for name, tensor in expected.items():
        if name.startswith("grad."):
            continue
        ours = got[name].view(tensor.shape)
        if case.model == "ModernBert" and tensor.shape[:2] == valid.shape:
            ours, tensor = ours[valid], tensor[valid]
        worst = max(worst, deviation(ours, tensor, 1e-6))
    return worst


def compare(program: Path, case: Case, dtype: torch.dtype) -> float | str:
    """The deviation, or the message with which the program refuses the folder."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        config = write_folder(case, folder, dtype)
        batch = make_batch(case, config.pad_token_id)
        write_tensors(folder / "batch.safetensors", batch)
        expected = run(case, folder, batch, torch.float64)
        rename(case, folder)
        command = [program, "forward", folder, "--input", folder / "batch.safetensors"]
        command += ["--output", folder / "out.safetensors", "--dtype", "f64", "--threads", "1"]
        command += ["--quiet"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 2 and done.stderr.count("\n") == 1:
            return done.stderr.strip().replace(str(folder), "FOLDER")
        assert done.returncode == 0, done.stderr
        got = load_file(folder / "out.safetensors")
        return worst_of(case, batch["attention_mask"], expected, got)


@script(__doc__, models=60, seed=1)
def main(arguments, check, _):
    torch.set_num_threads(1)
    refused, worst, done, seed = Counter(), {}, 0, arguments.seed
    while done < arguments.models:
        seed += 1
        torch.manual_seed(seed)
        source = random.Random(seed)
        case = draw(source)
        dtype = source.choice((torch.float32, torch.float16, torch.bfloat16, torch.float64))
        found = compare(arguments.program, case, dtype)
        if isinstance(found, str):
            refused[found[:150]] += 1
            continue
        done += 1
        worst[case.model] = max(found, worst.get(case.model, 0.0))
        if not found <= F64:
            check(False, f"seed {seed}, {dtype}: {found:.1e} {case}")
    for model, found in worst.items():
        check(True, f"{model}: at most {found:.1e}")
    for reason, count in refused.most_common():
        print(f"refused {count} times: {reason}")
