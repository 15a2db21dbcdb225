"""Fine-tunes one model with `nystrom finetune` and with transformers and PyTorch, and prints their
metrics beside each other.

    nystrom export runs/small exported --format transformers    # --attention softmax: see below
    build/interop/bin/python bench/compare_finetune.py --config my.yaml --model exported --threads 1

The other side is transformers' own class, hence --format transformers. Run from the repository's
root; needs build/release/nystrom, transformers 4.57.1, scikit-learn, scipy, seqeval (build/interop
has them) and no network. my.yaml is a run of kind classification, regression or tokens whose
model.from is the model that was exported, so that both begin with the same encoder. A folder of
BERT's kind that model.from names may also be --model itself: both then have exact attention.

A run that is finished already is not repeated. Both have the settings of my.yaml: files, labels,
length, batch, epochs, AdamW, clipping, warm-up, dropout, dtype (bf16 is autocast in PyTorch),
evaluation after as many steps, early stop, and the best evaluation counts. They differ in what is
drawn (fresh head, order, dropout): take --seeds 3 before you read anything into tenths.

Each side computes attention in its own way, as its users would run it:

  ours          what my.yaml says; padding changes nothing.
  transformers  what the folder says. Exported with `--attention softmax` (segment_means_seq_len ==
                num_landmarks): exact attention, rows padded to the longest of their micro-batch.
                Exported without: Nyström attention at data.sequence_length, every row padded to
                that (nothing else works there), with landmarks that are means over padding too.
                The convolution sees padding in both.

The fair pair is therefore exact with exact: `model.attention.kind: softmax` in my.yaml, or texts
that all have at most num_landmarks tokens, which nystrom gives exact attention, beside a folder
exported with --attention softmax (SST-2); and Nyström with Nyström for long documents
(movie_reviews), where little is padding. The script says which pair it compared."""

import argparse
import csv
import gzip
import json
import math
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from compare_hf import describe_machine
from nystrom_runs import parser_of, records_of, write_json, write_settings


def parse_arguments() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--config", type=Path, required=True, help="YAML file of the run")
    parser.add_argument(
        "--model",
        type=Path,
        required=True,
        help="folder that `nystrom export --format transformers` made of the run's model.from, or "
        "model.from itself",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of the run, as for nystrom finetune",
    )
    parser.add_argument(
        "--seeds",
        type=int,
        default=1,
        help="runs of each side: the seed of the run, and the next ones",
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--program", type=Path, default=Path("build/release/nystrom"))
    parser.add_argument("--output", type=Path, help="also write all evaluations as JSON")
    return parser.parse_args()


def stop(message: str) -> None:
    raise SystemExit(f"compare_finetune.py: {message}")


# --- nystrom --------------------------------------------------------------------------------------


def option(arguments: argparse.Namespace, name: str, default):
    """A top-level option of the run, before nystrom has read it."""
    import yaml

    given = [text.split("=", 1)[1] for text in arguments.set if text.startswith(name + "=")]
    if given:
        return yaml.safe_load(given[-1])
    return yaml.safe_load(arguments.config.read_text()).get(name, default)


def run_nystrom(arguments: argparse.Namespace, seed: int) -> tuple[dict, list[dict]]:
    """The resolved settings and the evaluations of the run with this seed."""
    import yaml

    run_dir = option(arguments, "run_dir", "runs/base")
    if seed != option(arguments, "seed", 42):
        run_dir = f"{run_dir}-seed-{seed}"
    given = [*arguments.set, f"run_dir={run_dir}", f"seed={seed}"]
    sets = [f"--set={each}" for each in given]
    told = {"config": yaml.safe_load(arguments.config.read_text()), "set": arguments.set}
    write_settings(Path(f"{run_dir}.json"), told, place="run_dir")
    threads = f"--threads={arguments.threads}"
    command = [arguments.program, "finetune", arguments.config, threads, *sets]
    subprocess.run([str(part) for part in command], check=True, stdout=sys.stderr)
    settings = yaml.safe_load((Path(run_dir) / "config.yaml").read_text())
    name = "validation_" + settings["task"]["metric"]
    records = records_of(Path(run_dir), name)
    return settings, [{"step": each["step"], "value": each[name]} for each in records]


# --- The task's files -----------------------------------------------------------------------------


def open_text(path: Path):
    return (
        gzip.open(path, "rt", encoding="utf-8-sig", newline="")
        if path.suffix == ".gz"
        else open(path, encoding="utf-8-sig", newline="")
    )


def read_rows(path: Path, task: dict):
    """Dictionaries from column names, or numbers from 1, to cells."""
    form = task["format"] or path.name.removesuffix(".gz").rsplit(".", 1)[-1]
    with open_text(path) as file:
        if form == "jsonl":
            yield from (json.loads(line) for line in file if line.strip())
            return
        if form == "tsv":
            rows = (line.rstrip("\r\n").split("\t") for line in file)
        elif form == "csv":
            rows = csv.reader(file)
        else:
            stop(f"{path}: reads tsv, csv and jsonl, not {form}")
        names = next(rows) if task["header"] else None
        for row in rows:
            yield dict(zip(names or map(str, range(1, len(row) + 1)), row, strict=True))


def find_files(patterns: list[str]) -> list[Path]:
    absolute = [pattern for pattern in patterns if Path(pattern).is_absolute()]
    relative = [pattern for pattern in patterns if not Path(pattern).is_absolute()]
    found = [path for pattern in absolute for path in sorted(Path("/").glob(pattern[1:]))]
    return found + [path for pattern in relative for path in sorted(Path().glob(pattern))]


def read_examples(patterns: list[str], task: dict) -> tuple[list[str], list[str] | None, list]:
    """Texts, second texts if there are, and targets: numbers of labels, or values."""
    columns = task["columns"]
    texts, pairs, targets = [], [], []
    for path in find_files(patterns):
        for row in read_rows(path, task):
            texts.append(row[columns["text"] or "text"])
            pairs.append(row[columns["pair"]] if columns["pair"] else None)
            label = row[columns["label"] or "label"]
            targets.append(
                float(label) if task["kind"] == "regression" else task["labels"].index(str(label))
            )
    return texts, pairs if columns["pair"] else None, targets


def read_sentences(patterns: list[str]) -> tuple[list[list[str]], list[list[str]]]:
    """Words and tags of CoNLL files with two columns."""
    words, tags = [], []
    for path in find_files(patterns):
        for sentence in path.read_text(encoding="utf-8").split("\n\n"):
            rows = [line.split() for line in sentence.splitlines()]
            rows = [row for row in rows if row and row[0] != "-DOCSTART-"]
            if rows:
                words.append([row[0] for row in rows])
                tags.append([row[1] for row in rows])
    return words, tags


# --- transformers ---------------------------------------------------------------------------------


def measure(metric: str, truth: list, logits: list[list[float]]) -> float:
    """The metric of one target and one row of logits for each example."""
    import scipy.stats
    import sklearn.metrics

    if metric in ("pearson", "spearman"):
        correlation = scipy.stats.pearsonr if metric == "pearson" else scipy.stats.spearmanr
        return float(correlation(truth, [row[0] for row in logits])[0])
    said = [row.index(max(row)) for row in logits]
    if metric == "f1_macro":
        return float(sklearn.metrics.f1_score(truth, said, average="macro", zero_division=0))
    names = {"accuracy": "accuracy_score", "f1": "f1_score", "matthews": "matthews_corrcoef"}
    return float(getattr(sklearn.metrics, names[metric])(truth, said))


def measure_entities(truth: list[list[str]], said: list[list[str]]) -> float:
    """F1 of whole entities, as conlleval has it."""
    import seqeval.metrics

    return float(seqeval.metrics.f1_score(truth, said))


def is_exact(config) -> bool:
    if config.model_type != "nystromformer":
        return True
    return config.segment_means_seq_len == config.num_landmarks


def load_model(folder: Path, settings: dict):
    """The folder's encoder with a fresh head, dropout and length of the run."""
    from transformers import (
        AutoConfig,
        AutoModelForSequenceClassification,
        AutoModelForTokenClassification,
    )

    length, task = settings["data"]["sequence_length"], settings["task"]
    config = AutoConfig.from_pretrained(folder)
    config.num_labels = 1 if task["kind"] == "regression" else len(task["labels"])
    distilbert = config.model_type == "distilbert"
    dropout = "dropout" if distilbert else "hidden_dropout_prob"
    setattr(config, dropout, settings["model"]["hidden_dropout_prob"])
    # nystrom has no dropout of attention weights.
    setattr(config, "attention_dropout" if distilbert else "attention_probs_dropout_prob", 0.0)
    if not is_exact(config):
        config.num_landmarks = settings["model"]["attention"]["num_landmarks"]
        config.segment_means_seq_len = length
        if length % config.num_landmarks or length == config.num_landmarks:
            stop(
                f"data.sequence_length {length}: transformers' Nyström attention needs "
                f"a larger multiple of {config.num_landmarks} landmarks"
            )
    if length > config.max_position_embeddings:
        stop(
            f"data.sequence_length {length}: {folder} has "
            f"{config.max_position_embeddings} positions"
        )
    words = task["kind"] == "tokens"
    kind = AutoModelForTokenClassification if words else AutoModelForSequenceClassification
    return kind.from_pretrained(folder, config=config)


class TorchRun:
    """What transformers makes of the run with one seed."""

    def __init__(self, arguments: argparse.Namespace, settings: dict, seed: int):
        import torch
        from compare_training import make_optimizer
        from transformers import AutoTokenizer, set_seed

        set_seed(seed)
        self.torch, self.settings, self.task = torch, settings, settings["task"]
        if self.task["kind"] == "tokens":
            _, tags = read_sentences(self.task["train"])
            self.task["labels"] = sorted({tag for sentence in tags for tag in sentence})
        self.model = load_model(arguments.model, settings)
        self.tokenizer = AutoTokenizer.from_pretrained(arguments.model)
        self.optimizer = make_optimizer(self.model, settings)
        self.order = torch.Generator().manual_seed(seed)
        self.train, self.validation = self.encode("train"), self.encode("validation")

    def encode(self, part: str) -> list[tuple[dict, object]]:
        """Samples and their targets. Those of words are pairs: a position in the row, or None where
        it is truncated, and a tag."""
        options = {"truncation": True, "max_length": self.settings["data"]["sequence_length"]}
        if self.task["kind"] == "tokens":
            words, tags = read_sentences(self.task[part])
            rows = self.tokenizer(words, is_split_into_words=True, **options)
            targets = []
            for i, sentence in enumerate(tags):
                first = {word: at for at, word in reversed(list(enumerate(rows.word_ids(i))))}
                targets.append([(first.get(word), tag) for word, tag in enumerate(sentence)])
        else:
            texts, pairs, targets = read_examples(self.task[part], self.task)
            rows = self.tokenizer(texts, pairs, **options)
        return [
            ({name: rows[name][i] for name in rows}, target) for i, target in enumerate(targets)
        ]

    def pieces(self, samples: list) -> list[list]:
        """Micro-batches of samples of like length."""
        size = self.settings["training"]["micro_batch_size"]
        ordered = sorted(samples, key=lambda sample: len(sample[0]["input_ids"]))
        return [ordered[first : first + size] for first in range(0, len(ordered), size)]

    def logits(self, piece: list):
        length = self.settings["data"]["sequence_length"]
        padding = (
            {"padding": "longest"}
            if is_exact(self.model.config)
            else {"padding": "max_length", "max_length": length}
        )
        batch = self.tokenizer.pad([sample for sample, _ in piece], return_tensors="pt", **padding)
        bf16 = self.settings["training"]["dtype"] == "bf16"
        with self.torch.autocast("cpu", dtype=self.torch.bfloat16, enabled=bf16):
            return self.model(**batch).logits.float()

    def loss(self, piece: list):
        """The sum over the piece."""
        functional, targets = self.torch.nn.functional, [target for _, target in piece]
        logits = self.logits(piece)
        if self.task["kind"] == "tokens":
            labels = self.torch.full(logits.shape[:2], -100)
            for row, target in enumerate(targets):
                for at, tag in target:
                    if at is not None:
                        labels[row, at] = self.task["labels"].index(tag)
            return functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")
        targets = self.torch.tensor(targets)
        if self.task["kind"] == "regression":
            return functional.mse_loss(logits[:, 0], targets, reduction="sum")
        return functional.cross_entropy(logits, targets, reduction="sum")

    def evaluate(self) -> float:
        truth, logits = [], []
        self.model.eval()
        with self.torch.no_grad():
            for piece in self.pieces(self.validation):
                truth += [target for _, target in piece]
                logits += self.logits(piece).tolist()
        self.model.train()
        if self.task["kind"] != "tokens":
            return measure(self.task["metric"], truth, logits)
        labels = self.task["labels"]
        said = [
            ["O" if at is None else labels[row[at].index(max(row[at]))] for at, _ in sentence]
            for sentence, row in zip(truth, logits, strict=True)
        ]
        return measure_entities([[tag for _, tag in sentence] for sentence in truth], said)

    def targets(self, samples: list) -> int:
        """How many targets the loss of a batch is the mean of."""
        if self.task["kind"] != "tokens":
            return len(samples)
        return sum(at is not None for _, target in samples for at, _ in target)

    def step(self, samples: list) -> None:
        self.optimizer.zero_grad()
        for piece in self.pieces(samples):
            (self.loss(piece) / self.targets(samples)).backward()
        clip = self.settings["optimizer"]["clip_norm"]
        if clip is not None:
            self.torch.nn.utils.clip_grad_norm_(self.model.parameters(), clip)
        self.optimizer.step()

    def batches(self):
        """Batches that go on over the ends of epochs, as ours do."""
        batch = []
        while True:
            for i in self.torch.randperm(len(self.train), generator=self.order).tolist():
                batch.append(self.train[i])
                if len(batch) == self.settings["training"]["batch_size"]:
                    yield batch
                    batch = []

    def run(self) -> list[dict]:
        import transformers

        training, schedule = self.settings["training"], self.settings["schedule"]
        epoch = math.ceil(len(self.train) / training["batch_size"])
        steps = training["steps"] or math.ceil(
            math.ceil(training["epochs"] * len(self.train)) / training["batch_size"]
        )
        every = self.settings["evaluation"]["every"] or epoch
        warmup, share = schedule["warmup_steps"], schedule["warmup_share"]
        if share is not None:
            warmup = math.floor(share * steps + 0.5)
        elif warmup is None:
            warmup = min(10000, steps // 10)
        make = {
            "linear": transformers.get_linear_schedule_with_warmup,
            "cosine": transformers.get_cosine_schedule_with_warmup,
        }
        # nystrom's schedule is that of transformers with one step more, read one step ahead.
        # Neither the first nor the last step has a learning rate of 0.
        rates = make[schedule["decay"]](self.optimizer, warmup, steps + 1, last_epoch=0)
        found, since_best, start = [], 0, time.monotonic()
        self.model.train()
        for step, batch in zip(range(1, steps + 1), self.batches(), strict=False):
            self.step(batch)
            rates.step()
            if step % every == 0 or step == steps:
                value = self.evaluate()
                better = not found or value > max(each["value"] for each in found)
                since_best = 0 if better else since_best + 1
                found.append({"step": step, "value": value})
                seconds = time.monotonic() - start
                print(
                    f"transformers: step {step}/{steps}: {self.task['metric']} "
                    f"{value:.4f}, {seconds:.0f} s",
                    file=sys.stderr,
                    flush=True,
                )
                if since_best == (self.settings["evaluation"]["early_stop_patience"] or math.inf):
                    break
        return found


# --- Comparison -----------------------------------------------------------------------------------


def check_settings(settings: dict) -> None:
    if settings["task"]["kind"] not in ("classification", "regression", "tokens"):
        stop(f"task.kind {settings['task']['kind']}: compares classification, regression, tokens")
    if (
        settings["optimizer"]["name"] != "adamw"
        or settings["training"]["ema"] is not None
        or settings["schedule"]["decay"] == "constant"
    ):
        stop("compares AdamW without training.ema, with linear or cosine decay")


def describe_attention(settings: dict, folder: Path) -> str:
    from transformers import AutoConfig

    attention, length = settings["model"]["attention"], settings["data"]["sequence_length"]
    landmarks = attention["num_landmarks"]
    exact = attention["kind"] == "softmax" or length <= landmarks
    ours = (
        "exact"
        if exact
        else f"{attention['kind']}, {landmarks} landmarks (texts of at most as many tokens: exact)"
    )
    theirs = (
        "exact"
        if is_exact(AutoConfig.from_pretrained(folder))
        else f"nystrom, {landmarks} landmarks, rows padded to {length}"
    )
    return f"attention: nystrom's {ours}; transformers' {theirs}"


def main() -> int:
    arguments = parse_arguments()
    # Settings for nystrom and for torch, which is not loaded yet. Spinning threads would slow each
    # other down on a busy machine.
    os.environ |= {
        "OMP_NUM_THREADS": str(arguments.threads),
        "OMP_WAIT_POLICY": "passive",
        "TOKENIZERS_PARALLELISM": "false",
    }
    first = int(option(arguments, "seed", 42))
    runs = []
    for seed in range(first, first + arguments.seeds):
        settings, ours = run_nystrom(arguments, seed)
        check_settings(settings)
        import torch

        torch.set_num_threads(arguments.threads)
        theirs = TorchRun(arguments, settings, seed).run()
        runs.append({"seed": seed, "nystrom": ours, "transformers": theirs})

    metric = settings["task"]["metric"]
    print(describe_attention(settings, arguments.model))
    print(
        f"best {metric}, %     "
        + "".join(f"  seed {run['seed']:>3}" for run in runs)
        + ("      mean" if len(runs) > 1 else "")
    )
    for name in ("nystrom", "transformers"):
        best = [100 * max(each["value"] for each in run[name]) for run in runs]
        mean = f"{statistics.mean(best):10.2f}" if len(best) > 1 else ""
        print(f"{name:<20}" + "".join(f"{value:10.2f}" for value in best) + mean)
    if arguments.output:
        report = {"machine": describe_machine(), "settings": settings, "metric": metric}
        write_json(arguments.output, report | {"runs": runs})
    return 0


if __name__ == "__main__":
    sys.exit(main())
