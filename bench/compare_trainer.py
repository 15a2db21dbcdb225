"""Times fine-tuning as people do it: `nystrom finetune` beside transformers' Trainer, on texts of
real lengths, and prints examples a second.

    build/interop/bin/python bench/compare_trainer.py --data DATA --work build/trainer
    build/interop/bin/python bench/compare_trainer.py --data DATA --work build/trainer --tasks sst2

DATA holds the folders that TASKS names. Both begin with the same untrained weights, which changes
no work, and have the same labels, length, batch, AdamW, clipping, dropout and bf16 (autocast in
PyTorch). The Trainer groups texts by length, pads to the longest text of the batch and uses the
fused optimizer; `compiled` is its torch_compile. `exact` is transformers' BERT of the same size
with scaled_dot_product_attention, without dropout of attention weights. transformers' Nyström
attention needs texts padded to the full length. The programs alternate; each figure is the median
of all rounds, without the first steps.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from compare_hf import describe_machine
from nystrom_runs import derived, nystrom, parser_of, write_json, write_settings

LENGTH, LANDMARKS = 2048, 64
PRETRAINING = {
    "seed": 1,
    "model": {
        "hidden_size": 256,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "intermediate_size": 1024,
        "max_position_embeddings": LENGTH,
        "attention": {"num_landmarks": LANDMARKS, "conv_kernel_size": 33},
    },
    "tokenizer": {"train": {"kind": "unigram", "vocab_size": 8000}},
    "data": {
        "train": ["examples/quickstart/corpus/*"],
        "validation": ["examples/quickstart/heldout.txt.gz"],
        "sequence_length": 128,
    },
    "training": {"steps": 1, "batch_size": 1, "micro_batch_size": 1, "dtype": "f32"},
}
TASKS = {
    "sst2": {
        "task": {
            "recipe": "sst2",
            "train": ["glue_sst2/train.tsv"],
            "validation": ["glue_sst2/dev.tsv"],
        },
        "length": 64,
        "batch": 32,
    },
    "movie_reviews": {
        "task": {
            "kind": "classification",
            "labels": ["0", "1"],
            "columns": {"text": "text", "label": "label"},
            "train": ["movie_reviews/train.tsv"],
            "validation": ["movie_reviews/test.tsv"],
        },
        "length": LENGTH,
        "batch": 8,
    },
}


def parse_arguments() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="folder for models and runs")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument(
        "--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS), metavar="PROGRAM"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=40, help="counted time of one measurement")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--program", dest="nystrom", type=Path, default=Path("build/release/nystrom")
    )
    parser.add_argument("--output", type=Path, help="also write all measurements as JSON")
    parser.add_argument("--one", nargs=2, metavar=("TASK", "PROGRAM"), help=argparse.SUPPRESS)
    return parser.parse_args()


# --- nystrom --------------------------------------------------------------------------------------


def make_start(arguments: argparse.Namespace) -> None:
    """WORK/start, a run, and WORK/nystrom, its export for transformers."""
    start = arguments.work / "start"
    config = write_settings(arguments.work / "start.yaml", PRETRAINING | {"run_dir": str(start)})
    nystrom(arguments, "pretrain", config)
    derived(arguments, "export", start, arguments.work / "nystrom", "--format", "transformers")


def settings_of(arguments: argparse.Namespace, name: str) -> dict:
    task = dict(TASKS[name]["task"])
    for part in ("train", "validation"):
        task[part] = [str(arguments.data / file) for file in task[part]]
    batch = TASKS[name]["batch"]
    return {
        "model": {"from": str(arguments.work / "start")},
        "task": task,
        "data": {"sequence_length": TASKS[name]["length"]},
        "optimizer": {"learning_rate": 1e-4},
        "training": {
            "epochs": 1,
            "batch_size": batch,
            "micro_batch_size": batch,
            "dtype": "bf16",
        },
    }


def time_nystrom(arguments: argparse.Namespace, name: str) -> dict:
    """Runs the task until the time is over and watches its records."""
    every, limit = 5, arguments.seconds
    with tempfile.TemporaryDirectory() as folder:
        run, config = Path(folder) / "run", Path(folder) / "config.yaml"
        settings = settings_of(arguments, name) | {
            "run_dir": str(run),
            "logging": {"every": every},
            "evaluation": {"every": 10**6},
            "checkpoint": {"every": 10**6},
        }
        config.write_text(json.dumps(settings))
        command = [arguments.nystrom, "finetune", config, f"--threads={arguments.threads}"]
        process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL)
        metrics, seen = run / "metrics.jsonl", [(0, time.monotonic())]
        while process.poll() is None and seen[-1][1] < seen[min(1, len(seen) - 1)][1] + limit:
            time.sleep(0.01)
            steps = metrics.read_text().count('"loss"') * every if metrics.exists() else 0
            if steps > seen[-1][0]:
                seen.append((steps, time.monotonic()))
        process.kill()
        process.wait()
        steps, seconds = (last - first for first, last in zip(seen[1], seen[-1], strict=True))
        return {"examples_per_second": steps * TASKS[name]["batch"] / seconds, "steps": steps}


# --- transformers ---------------------------------------------------------------------------------


def load_model(arguments: argparse.Namespace, name: str, program: str):
    """The model with a fresh head. Weights of the exact one are random."""
    import transformers

    length = TASKS[name]["length"]
    if program.startswith("exact"):
        size = {key: value for key, value in PRETRAINING["model"].items() if key != "attention"}
        size |= {"vocab_size": 8000, "attention_probs_dropout_prob": 0.0}  # as nystrom has none
        config = transformers.BertConfig(**size, attn_implementation="sdpa")
        return transformers.BertForSequenceClassification(config)
    config = transformers.AutoConfig.from_pretrained(arguments.work / "nystrom")
    config.num_landmarks = LANDMARKS
    config.segment_means_seq_len = length
    kind = transformers.NystromformerForSequenceClassification
    return kind.from_pretrained(arguments.work / "nystrom", config=config)


def time_trainer(arguments: argparse.Namespace, name: str, program: str) -> dict:
    import torch
    import transformers
    from compare_finetune import read_examples
    from torch.utils.data import Dataset

    torch.set_num_threads(arguments.threads)
    task = settings_of(arguments, name)["task"]
    length, batch = TASKS[name]["length"], TASKS[name]["batch"]
    if "recipe" in task:  # as nystrom's recipe has it
        task |= {"columns": {"text": "sentence", "label": "label"}, "labels": ["0", "1"]}
    task = {"kind": "classification", "format": None, "header": True, **task}
    task["columns"] = {"pair": None, **task["columns"]}
    tokenizer = transformers.AutoTokenizer.from_pretrained(arguments.work / "nystrom")
    texts, _, targets = read_examples(task["train"], task)
    rows = tokenizer(texts, truncation=True, max_length=length)["input_ids"]

    class Rows(Dataset):
        def __len__(self):
            return len(rows)

        def __getitem__(self, i):
            return {"input_ids": rows[i], "label": targets[i]}

    model = load_model(arguments, name, program)
    # Exact attention may pad to the batch's longest; below the landmarks' number both are exact.
    longest = program.startswith("exact") or length <= LANDMARKS
    collator = transformers.DataCollatorWithPadding(
        tokenizer, padding="longest" if longest else "max_length", max_length=length
    )

    class Clock(transformers.TrainerCallback):
        """Ends the training when the time is over; leaves out the first steps."""

        begin, first, last = None, 0, 0.0

        def on_step_end(self, _, state, control, **__):
            now = time.monotonic()
            if state.global_step == skip:
                self.begin = now
            self.first, self.last = state.global_step - skip, now
            if self.begin and now - self.begin > arguments.seconds:
                control.should_training_stop = True
            return control

    compiled = program.endswith("compiled")
    skip, clock = 30 if compiled else 10, Clock()
    with tempfile.TemporaryDirectory() as folder:
        trainer = transformers.Trainer(
            model=model,
            args=transformers.TrainingArguments(
                folder,
                per_device_train_batch_size=batch,
                num_train_epochs=1000,
                learning_rate=1e-4,
                bf16=True,
                use_cpu=True,
                group_by_length=True,
                torch_compile=compiled,
                optim="adamw_torch_fused",
                report_to=[],
                save_strategy="no",
                logging_strategy="no",
                disable_tqdm=True,
                seed=1,
            ),
            train_dataset=Rows(),
            data_collator=collator,
            callbacks=[clock],
        )
        trainer.train()
    seconds = clock.last - clock.begin
    return {"examples_per_second": clock.first * batch / seconds, "steps": clock.first}


# --- Comparison -----------------------------------------------------------------------------------

PROGRAMS = {
    "nystrom": "`nystrom finetune`",
    "eager": "Trainer, Nyströmformer, eager",
    "compiled": "Trainer, Nyströmformer, compiled",
    "exact": "Trainer, BERT of this size, eager",
    "exact-compiled": "Trainer, BERT of this size, compiled",
}


def measure_one(arguments: argparse.Namespace, task: str, program: str) -> dict:
    """In a process of its own, so that memory and threads of one do not disturb the next."""
    if program == "nystrom":
        return time_nystrom(arguments, task)
    command = [sys.executable, *sys.argv, "--one", task, program]
    process = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(process.stdout.splitlines()[-1])


def main() -> int:
    arguments = parse_arguments()
    os.environ |= {"OMP_NUM_THREADS": str(arguments.threads), "TOKENIZERS_PARALLELISM": "false"}
    if arguments.one:
        print(json.dumps(time_trainer(arguments, *arguments.one)))
        return 0
    make_start(arguments)
    found = {task: {program: [] for program in arguments.programs} for task in arguments.tasks}
    for round_number in range(1, arguments.rounds + 1):
        for task in arguments.tasks:
            for program in arguments.programs:
                result = measure_one(arguments, task, program)
                result["load"] = os.getloadavg()[0]
                found[task][program].append(result)
                rate = result["examples_per_second"]
                print(f"round {round_number}: {task}: {program}: {rate:.1f}", file=sys.stderr)
    print(f"| program | {' | '.join(arguments.tasks)} |")
    print("|---" + "|--:" * len(arguments.tasks) + "|")
    for program in arguments.programs:
        cells = []
        for task in arguments.tasks:
            rates = [result["examples_per_second"] for result in found[task][program]]
            cells.append(f"{statistics.median(rates):.1f} ({min(rates):.1f} – {max(rates):.1f})")
        print(f"| {PROGRAMS[program]} | {' | '.join(cells)} |")
    if arguments.output:
        write_json(arguments.output, {"machine": describe_machine(), "found": found})
    return 0


if __name__ == "__main__":
    sys.exit(main())
