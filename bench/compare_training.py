"""Trains the same model on the same batches with `nystrom pretrain`, in f32 and bf16, and with
PyTorch in float64.

    build/interop/bin/python bench/compare_training.py

Run from the repository's root; needs build/release/nystrom and training_batches (`./dev test`
builds both), torch, transformers 4.57.1 and no network. configs/quickstart.yaml is trained for 200
steps without dropout, which no two programs draw alike, and with the semantics of transformers, so
that both compute the same function. PyTorch starts from the very weights and takes the very batches
that training_batches writes; model, loss, clipping, AdamW and learning rates are transformers' and
torch's own. float64, because f32 PyTorch gets the weight gradient of long depthwise filters wrong
on some CPUs.

Writes the curves as JSON and as a picture; ends with 1 when a loss differs by more than 1 %.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import charts
from compare_hf import describe_machine
from nystrom_runs import parser_of, records_of

CONFIG = "configs/quickstart.yaml"
BOUND = 0.01
DTYPES = ("f32", "bf16")
LOSS, NORM = "loss", "grad_norm"
IGNORED = -100


def parse_arguments() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--build",
        type=Path,
        default=Path("build/release"),
        help="folder of nystrom and training_batches",
    )
    parser.add_argument(
        "--work",
        type=Path,
        default=Path("build/compare-training"),
        help="folder for runs and batches",
    )
    parser.add_argument("--output", type=Path, default=Path("bench/results/training-curves.json"))
    parser.add_argument("--picture", type=Path, default=Path("docs/training-curves.svg"))
    return parser.parse_args()


def overrides(arguments: argparse.Namespace, dtype: str) -> list[str]:
    steps = arguments.steps
    return [
        f"run_dir={arguments.work / dtype}",
        "model.hidden_dropout_prob=0",
        "model.attention.semantics=transformers",
        "optimizer={name: adamw, learning_rate: 1.0e-3}",
        "schedule.warmup_steps=100",
        f"training.steps={steps}",
        f"training.dtype={dtype}",
        f"evaluation.every={steps}",
        f"checkpoint.every={steps}",
        "logging.every=1",
    ]


# --- nystrom --------------------------------------------------------------------------------------


def run_nystrom(arguments: argparse.Namespace, dtype: str) -> dict[str, list[float]]:
    run_dir = arguments.work / dtype
    shutil.rmtree(run_dir, ignore_errors=True)  # an existing run would be resumed
    sets = [f"--set={override}" for override in overrides(arguments, dtype)]
    command = [
        str(arguments.build / "nystrom"),
        "pretrain",
        CONFIG,
        f"--threads={arguments.threads}",
        "--quiet",
        *sets,
    ]
    subprocess.run(command, check=True)
    records = records_of(run_dir, LOSS)
    return {name: [record[name] for record in records] for name in (LOSS, NORM, "learning_rate")}


def write_batches(arguments: argparse.Namespace) -> Path:
    folder = arguments.work / "batches"
    tool = [str(arguments.build / "training_batches"), CONFIG, str(arguments.steps), str(folder)]
    subprocess.run(tool + overrides(arguments, DTYPES[0]), check=True)
    return folder


# --- PyTorch --------------------------------------------------------------------------------------


def make_optimizer(model, settings: dict):
    """AdamW without weight decay of biases and layer normalisation."""
    import torch

    plain, decayed = [], []
    for name, parameter in model.named_parameters():
        (plain if name.endswith("bias") or "LayerNorm" in name else decayed).append(parameter)
    given = settings["optimizer"]
    groups = [
        {"params": decayed, "weight_decay": given["weight_decay"]},
        {"params": plain, "weight_decay": 0.0},
    ]
    # PyYAML reads 1e-08 as text
    rate, epsilon = (float(given[name]) for name in ("learning_rate", "epsilon"))
    # A schedule that does not start at step 0 requires the key.
    groups = [group | {"initial_lr": rate} for group in groups]
    return torch.optim.AdamW(groups, lr=rate, betas=tuple(given["betas"]), eps=epsilon)


def masked_loss(model, ids, mask, labels):
    """model(…, labels=labels).loss, whose vocabulary product is taken at the chosen positions only:
    the others add nothing."""
    import torch

    chosen = labels != IGNORED
    hidden = model.nystromformer(input_ids=ids, attention_mask=mask).last_hidden_state
    return torch.nn.functional.cross_entropy(model.cls(hidden[chosen]), labels[chosen])


def run_torch(arguments: argparse.Namespace, folder: Path) -> dict[str, list[float]]:
    import torch
    import transformers
    import yaml
    from safetensors.torch import load_file

    torch.set_num_threads(arguments.threads)
    settings = yaml.safe_load((arguments.work / DTYPES[0] / "config.yaml").read_text())
    model = transformers.NystromformerForMaskedLM.from_pretrained(
        folder, dtype=torch.float64
    ).train()
    optimizer = make_optimizer(model, settings)
    # nystrom's schedule is that of transformers with one step more, read one step ahead. Neither
    # the first nor the last step has a learning rate of 0.
    warmup = settings["schedule"]["warmup_steps"]
    schedule = transformers.get_linear_schedule_with_warmup(
        optimizer, warmup, arguments.steps + 1, last_epoch=0
    )
    batches = load_file(folder / "batches.safetensors")
    curve = {LOSS: [], NORM: [], "learning_rate": []}
    start = time.monotonic()
    for step in range(1, arguments.steps + 1):
        ids = batches[f"input_ids.{step}"]
        mask = batches.get(f"attention_mask.{step}", torch.ones_like(ids))
        optimizer.zero_grad()
        loss = masked_loss(model, ids, mask.long(), batches[f"labels.{step}"])
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(
            model.parameters(), settings["optimizer"]["clip_norm"]
        )
        curve["learning_rate"].append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
        curve[LOSS].append(loss.item())
        curve[NORM].append(norm.item())
        if step == 1 or step % 20 == 0:
            print(
                f"PyTorch: step {step}, loss {loss.item():.4f}, {time.monotonic() - start:.0f} s",
                file=sys.stderr,
                flush=True,
            )
    return curve


# --- Comparison -----------------------------------------------------------------------------------


def differences(ours: list[float], theirs: list[float]) -> list[float]:
    return [abs(a - b) / b for a, b in zip(ours, theirs, strict=True)]


def compare(curves: dict[str, dict], reference: dict) -> dict[str, dict]:
    """The difference of each curve, relative to the reference's value of the same step."""
    result = {}
    for dtype, curve in curves.items():
        loss, norm = (differences(curve[name], reference[name]) for name in (LOSS, NORM))
        result[dtype] = {
            "first_loss": loss[0],
            "largest_loss": max(loss),
            "largest_loss_at_step": loss.index(max(loss)) + 1,
            "largest_grad_norm": max(norm),
            "largest_learning_rate": max(
                differences(curve["learning_rate"], reference["learning_rate"])
            ),
        }
    return result


def draw(picture: Path, curves: dict[str, dict], reference: dict) -> None:
    def numbered(values: list[float]) -> list[tuple[float, float]]:
        return list(enumerate(values, 1))

    losses = [charts.series("PyTorch, float64", numbered(reference[LOSS]), colour=7)]
    errors = []
    for dtype, curve in curves.items():
        name = f"nystrom, {dtype}"
        look = {"dashed": dtype == "bf16", "colour": len(errors)}
        losses.append(charts.series(name, numbered(curve[LOSS]), **look))
        percent = [100 * difference for difference in differences(curve[LOSS], reference[LOSS])]
        errors.append(charts.series(name, numbered(percent), colour=len(errors)))
    bound = [(1, 100 * BOUND), (len(reference[LOSS]), 100 * BOUND)]
    errors.append(charts.series(f"bound: {100 * BOUND:g} %", bound, dashed=True))
    title = "The quickstart model trained by nystrom and by PyTorch"
    charts.write_chart(
        picture, title=title, x_label="step", y_label="loss, nats a token", series=losses
    )
    charts.write_chart(
        picture.with_stem(picture.stem + "-difference"),
        title="Difference of the loss from PyTorch's",
        x_label="step",
        y_label="difference, %",
        logarithmic_y=True,
        series=errors,
    )


def main() -> int:
    arguments = parse_arguments()
    # Settings for the programs and for torch, which is not loaded yet. Spinning threads would slow
    # each other down on a busy machine.
    os.environ |= {"OMP_NUM_THREADS": str(arguments.threads), "OMP_WAIT_POLICY": "passive"}
    curves = {dtype: run_nystrom(arguments, dtype) for dtype in DTYPES}
    reference = run_torch(arguments, write_batches(arguments))
    difference = compare(curves, reference)
    named = {"PyTorch, f64": reference} | {
        f"nystrom, {dtype}": curve for dtype, curve in curves.items()
    }
    report = {
        "machine": describe_machine(),
        "settings": {
            "config": CONFIG,
            "overrides": overrides(arguments, "f32 | bf16"),
            "threads": arguments.threads,
        },
        "relative_difference": difference,
        "curves": {
            name: {key: curve[key] for key in (LOSS, NORM)} for name, curve in named.items()
        },
    }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(report, indent=1) + "\n")
    draw(arguments.picture, curves, reference)
    for dtype, values in difference.items():
        print(f"{dtype}: " + ", ".join(f"{name} {value:.3g}" for name, value in values.items()))
    return int(any(values["largest_loss"] > BOUND for values in difference.values()))


if __name__ == "__main__":
    sys.exit(main())
