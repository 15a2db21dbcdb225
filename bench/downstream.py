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

WORK/results.json holds every run: seed, metric, and the seconds of each task's calls.
"""

import argparse
import json
import time
from pathlib import Path
from statistics import mean, stdev

from nystrom_runs import derived, novels, nystrom, parser_of, read_json, write_json, write_settings

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


MOVIE_REVIEWS = {
    "kind": "classification",
    "train": ["movie_reviews/train.tsv"],
    "validation": ["movie_reviews/test.tsv"],
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
    "movie-reviews-1024": (MOVIE_REVIEWS, settings(1024, 3, batch=16, micro=4)),
    "movie-reviews-2048": (MOVIE_REVIEWS, settings(2048, 3, batch=16, micro=4)),
}


def parse_arguments() -> argparse.Namespace:
    parser = parser_of(__doc__)
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


def pretrained_model(arguments: argparse.Namespace) -> Path:
    if arguments.model:
        return arguments.model
    run = arguments.work / "pretrained"
    data = novels(arguments.data) | {"sequence_length": 128}
    config = PRETRAINING | {"run_dir": str(run), "data": data}
    nystrom(arguments, "pretrain", write_settings(arguments.work / "pretrained.yaml", config))
    return run


def longer_model(arguments: argparse.Namespace, model: Path, length: int) -> Path:
    file = model / "config.json"  # which the run of this script has in its checkpoints
    config = json.loads(file.read_text()) if file.exists() else MODEL
    if length <= config["max_position_embeddings"]:
        return model
    longer = arguments.work / f"pretrained-{length}"
    return derived(arguments, "extend", model, longer, "--length", length)


def split_sentences(arguments: argparse.Namespace) -> None:
    """Every fifth sentence of Wikigold is held out."""
    text = (arguments.data / "ner_wikigold/wikigold.conll.txt").read_text()
    sentences = [sentence for sentence in text.split("\n\n") if sentence.strip()]
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


def configuration(
    arguments: argparse.Namespace, name: str, run: Path, model: dict, rate: float | None
) -> dict:
    """The settings of a fine-tuning; without a rate nystrom's default for the model."""
    task, given = TASKS[name]
    files = {k: [place(arguments, file) for file in task[k]] for k in ("train", "validation")}
    return {key: value for key, value in given.items() if key != "rates"} | {
        "model": model,
        "run_dir": str(run),
        "task": task | files,
        "evaluation": {"every": None},
        "optimizer": {"weight_decay": 0.01} | ({"learning_rate": rate} if rate else {}),
    }


def fine_tune(arguments: argparse.Namespace, name: str, start: str, model: Path) -> dict:
    given = TASKS[name][1]
    length = given["data"]["sequence_length"]
    run = arguments.work / f"{name}-{start}"
    rate = None if arguments.model else given["rates"][start]
    if start == "pretrained":
        begin_with = longer_model(arguments, model, length)
        config = configuration(arguments, name, run, {"from": str(begin_with)}, rate)
    else:
        begin_with = None
        positions = max(length, MODEL["max_position_embeddings"])
        own = MODEL | {"max_position_embeddings": positions}
        config = configuration(arguments, name, run, own, rate)
        config["tokenizer"] = {"path": str(model)}
    begin = time.monotonic()
    file = write_settings(arguments.work / f"{run.name}.yaml", config, begin_with)
    nystrom(arguments, "finetune", file, "--seeds", arguments.seeds)
    summary = json.loads((run / "summary.json").read_text())
    runs = summary["points"][0]["runs"]
    return {"metric": summary["metric"], "runs": runs, "seconds": time.monotonic() - begin}


def merged(earlier: dict, new: dict) -> dict:
    """All seeds. The seconds of a call that added none are those of finding finished runs."""
    runs = {run["seed"]: run for run in earlier["runs"] + new["runs"]}
    added = len(runs) > len(earlier["runs"])
    seconds = earlier["seconds"] + added * new["seconds"]
    return new | {"runs": [runs[seed] for seed in sorted(runs)], "seconds": seconds}


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
            key, result = f"{name}-{start}", fine_tune(arguments, name, start, model)
            # Another instance of this script may share the folder. Its newer results are kept.
            results = read_json(file, {})
            if key in results:
                result = merged(results[key], result)
            write_json(file, results | {key: result})
    print_table(json.loads(file.read_text()))


if __name__ == "__main__":
    main()
