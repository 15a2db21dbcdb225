"""Fine-tunes one small pretrained model, and the same model from scratch, on public tasks, and
prints a table.

    python3 bench/downstream.py --data DATA --work build/downstream --seeds 3
    python3 bench/downstream.py --data DATA --work build/downstream --tasks sst2 cola
    python3 bench/downstream.py --data DATA --work build/overnight --model MODEL   # another start

DATA holds the folders that TASKS names, with the files as they are published. Pretrains on novels
first, if WORK has no finished run of it; finished fine-tuning runs are not repeated either.
Validation files are the tasks' own; where there are none, a fifth of the training file. The metric
is the best epoch's on them, so all figures are a little too good, of both starts alike. MODEL is
fine-tuned with nystrom's default learning rate for its width, and has no start from scratch.

WORK/results.json holds every run: seed, metric, seconds.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import mean, stdev

MODEL = {
    "hidden_size": 192,
    "num_hidden_layers": 4,
    "num_attention_heads": 3,
    "intermediate_size": 768,
    "max_position_embeddings": 128,
    "attention": {"num_landmarks": 32, "conv_kernel_size": 33},
}
PRETRAINING = {
    "seed": 42,
    "model": MODEL,
    "tokenizer": {"train": {"kind": "unigram", "vocab_size": 8000}},
    "optimizer": {"learning_rate": 1e-3},
    "schedule": {"warmup_steps": 500},
    "training": {"steps": 6000, "batch_size": 64, "micro_batch_size": 64, "dtype": "bf16"},
    "evaluation": {"every": 1000},
    "checkpoint": {"every": 250, "keep": 2},
}
NO_HEADER = {"format": "tsv", "header": False}


# Learning rates from pretrained and from random weights. For SST-2 each is the better one of 1e-4
# and 3e-4, tried once.
SAME_RATE = {"pretrained": 3e-4, "scratch": 3e-4}
SST2_RATES = {"pretrained": 1e-4, "scratch": 3e-4}


def settings(length, epochs, rates=SAME_RATE, batch=32, micro=32):
    return {
        "rates": rates,
        "data": {"sequence_length": length},
        "schedule": {"warmup_share": 0.1, "decay": "linear"},
        "training": {
            "epochs": epochs,
            "batch_size": batch,
            "micro_batch_size": micro,
            "dtype": "bf16",
        },
    }


# For each task: the section `task` of its configuration, with files below DATA, and its settings.
TASKS = {
    "sst2": (
        {"recipe": "sst2", "train": ["glue_sst2/train.tsv"], "validation": ["glue_sst2/dev.tsv"]},
        settings(128, 2, SST2_RATES),
    ),
    "cola": (
        {
            "recipe": "cola",
            "train": ["glue_cola/cola_public/raw/in_domain_train.tsv"],
            "validation": [
                "glue_cola/cola_public/raw/in_domain_dev.tsv",
                "glue_cola/cola_public/raw/out_of_domain_dev.tsv",
            ],
        },
        settings(128, 5),
    ),
    "rte": (
        {"recipe": "rte", "train": ["glue_rte/train.tsv"], "validation": ["glue_rte/dev.tsv"]},
        settings(128, 5),
    ),
    "stsb": (
        {
            "kind": "regression",
            "columns": {"text": 6, "pair": 7, "label": 5},
            "train": ["stsb/sts-train.csv"],
            "validation": ["stsb/sts-dev.csv"],
        }
        | NO_HEADER,
        settings(128, 5),
    ),
    "trec": (
        {"recipe": "trec", "train": ["trec6/train.tsv"], "validation": ["trec6/test.tsv"]},
        settings(128, 6),
    ),
    "wikigold": (
        {
            "kind": "tokens",
            "train": ["wikigold-train.conll"],
            "validation": ["wikigold-dev.conll"],
            "metric": "f1",
        },
        settings(128, 12),
    ),
    "codah": (
        {
            "kind": "choice",
            "columns": {"text": 2, "choices": [3, 4, 5, 6], "label": 7},
            "train": ["mc_codah/fold0_train.tsv"],
            "validation": ["mc_codah/fold0_dev.tsv"],
        }
        | NO_HEADER,
        settings(128, 4),
    ),
    "xquad": (
        {
            "kind": "questions",
            "train": ["xquad-train.json"],
            "validation": ["xquad-dev.json"],
            "stride": 64,
        },
        settings(256, 8),
    ),
    "movie-reviews-1024": (
        {
            "kind": "classification",
            "train": ["movie_reviews/train.tsv"],
            "validation": ["movie_reviews/test.tsv"],
        },
        settings(1024, 3, batch=16, micro=4),
    ),
    "movie-reviews-2048": (
        {
            "kind": "classification",
            "train": ["movie_reviews/train.tsv"],
            "validation": ["movie_reviews/test.tsv"],
        },
        settings(2048, 3, batch=16, micro=4),
    ),
}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("build/downstream"))
    parser.add_argument("--nystrom", type=Path, default=Path("build/release/nystrom"))
    parser.add_argument("--model", type=Path, help="a pretrained model to take instead")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument(
        "--starts", nargs="+", choices=("pretrained", "scratch"), default=["pretrained", "scratch"]
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


def nystrom(arguments: argparse.Namespace, *words: object) -> None:
    command = [str(arguments.nystrom), *map(str, words)]
    print("$", *command, file=sys.stderr, flush=True)
    subprocess.run(command, check=True)


def write_config(path: Path, config: dict) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(config, indent=2))  # JSON is YAML
    return path


def pretrained_model(arguments: argparse.Namespace) -> Path:
    if arguments.model:
        return arguments.model
    run = arguments.work / "pretrained"
    novels = arguments.data / "corpus_novels"
    data = {
        "train": [str(novels / "novels_train.txt")],
        "validation": [str(novels / "novels_valid.txt")],
        "sequence_length": 128,
    }
    config = write_config(
        arguments.work / "pretrained.yaml", PRETRAINING | {"run_dir": str(run), "data": data}
    )
    if not (run / "checkpoints" / f"step-{PRETRAINING['training']['steps']}").exists():
        nystrom(arguments, "pretrain", config, "--threads", arguments.threads)
    return run


def longer_model(arguments: argparse.Namespace, model: Path, length: int) -> Path:
    file = model / "config.json"  # which the run of this script has in its checkpoints
    config = json.loads(file.read_text()) if file.exists() else MODEL
    if length <= config["max_position_embeddings"]:
        return model
    longer = arguments.work / f"pretrained-{length}"
    if not longer.exists():
        nystrom(arguments, "extend", model, longer, "--length", length)
    return longer


def split_sentences(arguments: argparse.Namespace) -> None:
    """Every fifth sentence of Wikigold is held out."""
    sentences = [
        s
        for s in (arguments.data / "ner_wikigold/wikigold.conll.txt").read_text().split("\n\n")
        if s.strip()
    ]
    for name, chosen in (("train", lambda i: i % 5 != 4), ("dev", lambda i: i % 5 == 4)):
        part = [s for i, s in enumerate(sentences) if chosen(i)]
        (arguments.work / f"wikigold-{name}.conll").write_text("\n\n".join(part) + "\n")


def split_articles(arguments: argparse.Namespace) -> None:
    """The last 12 of XQuAD's 48 articles are held out."""
    squad = json.loads((arguments.data / "qa_xquad_en/xquad.en.json").read_text())
    for name, part in (("train", squad["data"][:36]), ("dev", squad["data"][36:])):
        (arguments.work / f"xquad-{name}.json").write_text(json.dumps(squad | {"data": part}))


def place(arguments: argparse.Namespace, file: str) -> str:
    return str((arguments.data if "/" in file else arguments.work) / file)


def fine_tune(arguments: argparse.Namespace, name: str, start: str, model: Path) -> dict:
    task, given = TASKS[name]
    task = task | {
        key: [place(arguments, file) for file in task[key]] for key in ("train", "validation")
    }
    length = given["data"]["sequence_length"]
    run = arguments.work / f"{name}-{start}"
    if start == "pretrained":
        config = {"model": {"from": str(longer_model(arguments, model, length))}}
    else:
        positions = max(length, MODEL["max_position_embeddings"])
        config = {
            "model": MODEL | {"max_position_embeddings": positions},
            "tokenizer": {"path": str(model)},
        }
    config |= {key: value for key, value in given.items() if key != "rates"}
    config |= {"run_dir": str(run), "task": task, "evaluation": {"every": None}}
    config["optimizer"] = {"weight_decay": 0.01}
    if not arguments.model:
        config["optimizer"]["learning_rate"] = given["rates"][start]
    begin = time.monotonic()
    file = write_config(arguments.work / f"{name}-{start}.yaml", config)
    nystrom(arguments, "finetune", file, "--seeds", arguments.seeds, "--threads", arguments.threads)
    summary = json.loads((run / "summary.json").read_text())
    point = summary["points"][0]
    return {"metric": summary["metric"], "runs": point["runs"], "seconds": time.monotonic() - begin}


def values(result: dict) -> list[float]:
    return [run["value"] for run in result["runs"]]


def shown(result: dict | None) -> str:
    if result is None:
        return ""
    found = values(result)
    deviation = f" ± {stdev(found):.3f}" if len(found) > 1 else ""
    return f"{mean(found):.3f}{deviation}"


def print_table(results: dict) -> None:
    print("| task | metric | seeds | pretrained | from scratch |\n|---|---|---|---|---|")
    for name in TASKS:
        pretrained, scratch = (
            results.get(f"{name}-{start}") for start in ("pretrained", "scratch")
        )
        one = pretrained or scratch
        if one:
            print(
                f"| {name} | {one['metric']} | {len(one['runs'])} | "
                f"{shown(pretrained)} | {shown(scratch)} |"
            )


def main() -> None:
    arguments = parse_arguments()
    arguments.work.mkdir(parents=True, exist_ok=True)
    split_sentences(arguments)
    split_articles(arguments)
    model = pretrained_model(arguments)
    starts = ["pretrained"] if arguments.model else arguments.starts
    file = arguments.work / "results.json"
    for name in arguments.tasks:
        for start in starts:
            result = fine_tune(arguments, name, start, model)
            # Another instance of this script may share the folder. Its newer results are kept.
            results = json.loads(file.read_text()) if file.exists() else {}
            earlier = results.get(f"{name}-{start}")
            if earlier and len(earlier["runs"]) >= len(result["runs"]):
                result["seconds"] = earlier["seconds"]
            file.write_text(json.dumps(results | {f"{name}-{start}": result}, indent=2))
    print_table(json.loads(file.read_text()))


if __name__ == "__main__":
    main()
