"""Where do landmarks pay beside a window? Trains the same small model with each mixture of
attention at equal machine-time, seed after seed.

    build/interop/bin/python bench/windows.py --speed              # on a quiet machine, once
    build/interop/bin/python bench/windows.py --tasks mlm-512 mlm-2048 mlm-8192 recall --data DATA
    build/interop/bin/python bench/windows.py --tasks listops reviews retrieval --data DATA
    python3 bench/windows.py --draw docs       # docs/windows-N.svg: the first seed's curves

All models have ModernBERT's blocks: pre-norm, rotary positions, gated feed-forward layers, no
biases; 4 layers of 256, 4 heads, windows of 128 tokens, 64 landmarks. Landmarks alone have the
convolution that Nyströmformer has, and three of the others are there with it too. --speed times a
step of each that is not timed yet with `nystrom bench`, and from then on a run has as many steps as
fit into --minutes at that speed, whatever the machine does meanwhile. They train by Muon, whose 4 %
of a step the timing leaves out for all kinds.

    mlm-N     masked language model of novels in sequences of N tokens: loss of held-out novels
    recall    16 pairs of a key and a value, each twice in random order: the share of masked tokens
              that are found again at their other place. What grows with the length elsewhere is
              small here, so that minutes can learn it: 66 tokens, windows of 16, 8 landmarks, 2
              layers of 64
    listops   the same small models on lists of up to 62 symbols: accuracy
    reviews   the model of mlm-2048, fine-tuned on whole movie reviews by the mean of its outputs,
              since a first token sees no whole review through windows: accuracy on 200 of them
    retrieval the model of mlm-2048, trained to find 1,300 words of a novel by 30 of them: the mean
              reciprocal rank among those of other novels

Finished runs are not repeated; a stopped one goes on. Results go to --output."""

import json
import random
import statistics
from pathlib import Path
from typing import NamedTuple

from charts import write_chart
from equal_time import Results, over_minutes, shown, timed_parser_of
from nystrom_runs import files_of, listops, made, novels, nystrom, records_of, write_settings
from word_tokenizer import write_tokenizer


class Shape(NamedTuple):
    """The sizes of a task's models, and the sequences of a step."""

    length: int
    sequences: int
    layers: int = 4
    hidden: int = 256
    heads: int = 4
    window: int = 128
    landmarks: int = 64
    kernel: int = 33
    vocabulary: int = 8000
    learning_rate: float = 5e-3


TASKS = {
    "mlm-512": Shape(512, 16),
    "mlm-2048": Shape(2048, 4),
    "mlm-8192": Shape(8192, 1),
    "recall": Shape(66, 128, 2, 64, 2, 16, 8, 9, 133, 1e-2),
    "listops": Shape(66, 128, 2, 64, 2, 16, 8, 9, 133, 1e-2),
    "reviews": Shape(2048, 16),
    "retrieval": Shape(2048, 16),
}
# What a step costs beside the timed one of mlm-2048, of 8,192 tokens: reviews have 1,000 tokens on
# average, and gradient caching computes every text of the retrieval twice.
COST = {"reviews": 2, "retrieval": 16 * 2100 / 8192 * 4 / 3}
LISTS = (
    "--max-depth=6 --max-args=5 --min-length=15 --max-length=62 "
    "--train=400000 --validation=2000 --test=1"
)


def attention(kind, shape):
    """The options of a kind's attention; "KIND, convolution" has the convolution beside it."""
    name, _, convolution = kind.partition(", ")
    options = {
        "window": {"kind": "softmax", "window": shape.window},
        "in turn": {
            "kind": "nystrom",
            "layers": {str(layer): "softmax" for layer in range(0, shape.layers, 2)},
            "window": shape.window,
        },
        "in each layer": {"kind": "nystrom", "window": shape.window},
        "exact": {"kind": "softmax"},
        "landmarks": {"kind": "nystrom"},
    }[name]
    kernel = shape.kernel if convolution or name == "landmarks" else None
    return options | {"num_landmarks": shape.landmarks, "conv_kernel_size": kernel}


KINDS = (
    "window",
    "in turn",
    "in each layer",
    "exact",
    "landmarks",
    "window, convolution",
    "in turn, convolution",
    "exact, convolution",
)


def model(kind, shape):
    return {
        "hidden_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "intermediate_size": 2 * shape.hidden,
        "max_position_embeddings": shape.length,
        "norm": "pre",
        "final_norm": True,
        "mlp": "geglu",
        "bias": False,
        "positions": "rope",
        "type_vocab_size": 0,
        "hidden_dropout_prob": 0.0,
        "attention": attention(kind, shape),
    }


def flat(values, prefix="model"):
    for name, value in values.items():
        if isinstance(value, dict) and name == "attention":
            yield from flat(value, f"{prefix}.{name}")
        else:
            yield f"{prefix}.{name}={json.dumps(value)}"


def measure_speed(options, results):
    """The median seconds of a step of each kind and length, in turn."""
    timed, chosen = results.step_seconds, ["mlm-2048" if t in COST else t for t in options.tasks]
    for shape in {TASKS[task].length: TASKS[task] for task in chosen}.values():
        length = str(shape.length)
        found = {kind: [] for kind in KINDS if length not in timed.get(kind, {})}
        for _ in range(2):
            for kind, seconds in found.items():
                sets = [f"--set={each}" for each in flat(model(kind, shape))]
                sizes = f"--layers={shape.layers} --hidden={shape.hidden} --heads={shape.heads}"
                run = f"--vocab={shape.vocabulary} --length={length} --steps=6 --dtype=bf16 --json"
                words = f"{sizes} {run} --tokens={shape.length * shape.sequences} --quiet".split()
                report = nystrom(options, "bench", *words, *sets)
                seconds += json.loads(report)["step_seconds"][1:]
        for kind, seconds in found.items():
            timed.setdefault(kind, {})[length] = statistics.median(seconds)
            print(f"{length} tokens, {kind}: {statistics.median(seconds):.3f} s a step", flush=True)
    results.write()


def make_recall(folder):
    """Texts of 16 of 64 keys with as many of 64 values, twice; and a tokenizer of words."""
    write_tokenizer(folder, [f"k{i}" for i in range(64)] + [f"v{i}" for i in range(64)])
    for name, count in (("train", 200_000), ("valid", 200)):
        draw = random.Random(name)
        with (folder / f"{name}.txt").open("w") as file:
            for _ in range(count):
                keys, values = draw.sample(range(64), 16), draw.sample(range(64), 16)
                pairs = 2 * [f"k{key} v{value}" for key, value in zip(keys, values)]
                draw.shuffle(pairs)
                file.write(" ".join(pairs) + "\n\n")


def make_pairs(data, folder):
    """Passages of novels and what they stand in, as pairs of texts."""
    folder.mkdir(parents=True)
    for name in "train", "valid":
        words = (data / f"corpus_novels/novels_{name}.txt").read_text().split()
        draw = random.Random(name)
        with (folder / f"{name}.tsv").open("w") as file:
            file.write("text\tpair\n")
            for begin in range(0, len(words) - 1300, 1300):
                own = words[begin : begin + 1300]
                place = draw.randrange(1270)
                file.write(f"{' '.join(own[place : place + 30])}\t{' '.join(own)}\n")


def pretraining(options, task, kind):
    if task == "recall":
        folder = made(options.work / "recall", make_recall)
        files, cache = files_of(folder, "train.txt", "valid.txt"), "cache-recall"
        tokenizer = {"path": str(folder)}
    else:
        files, cache = novels(options.data), "cache"
        tokenizer = {"train": {"kind": "unigram", "vocab_size": 8000}}
    return {
        "model": model(kind, TASKS[task]),
        "tokenizer": tokenizer,
        "data": files | {"cache": str(options.work / cache)},
    }


def tuning(options, task, start):
    """On top of the model that novels in sequences of 2,048 tokens have made."""
    model = {"from": str(start)}
    if task == "reviews":
        model["pooling"] = "mean"
        files = files_of(options.data / "movie_reviews", "train.tsv", "test.tsv")
        own = {"kind": "classification"} | files
    else:
        folder = made(options.work / "pairs", lambda folder: make_pairs(options.data, folder))
        own = {"kind": "embeddings", "columns": {"text": "text", "pair": "pair"}}
        own |= files_of(folder, "train.tsv", "valid.tsv")
    return {"model": model, "task": own}


def train(options, results, task, kind, seed):
    shape = TASKS[task]
    seconds = COST.get(task, 1) * results.step_seconds[kind][str(shape.length)]
    steps = results.steps(seconds)
    run, start = options.work / f"{task}-{kind.replace(' ', '-')}-{seed}", None
    command, micro_batch = "finetune", shape.sequences
    optimizer = {"name": "muon", "learning_rate": shape.learning_rate}
    if task == "listops":
        settings = {"model": model(kind, shape) | {"pooling": "mean"}} | listops(options, LISTS)
    elif task in COST:
        start = options.work / f"mlm-2048-{kind.replace(' ', '-')}-{seed}"
        if not start.exists():
            train(options, results, "mlm-2048", kind, seed)
        settings, micro_batch = tuning(options, task, start), 4
        optimizer = {"learning_rate": 3e-4}
    else:
        command, settings = "pretrain", pretraining(options, task, kind)
    settings["data"] = settings.get("data", {}) | {"sequence_length": shape.length}
    settings |= {
        "run_dir": str(run),
        "seed": seed,
        "optimizer": optimizer,
        "schedule": {"warmup_share": 0.1, "decay": "linear"},
        "evaluation": {"every": max(1, steps // 8)},
        "checkpoint": {"every": 50 if shape.length > 66 else 200, "keep": 2},
        "logging": {"tensorboard": False},
        "training": {
            "steps": steps,
            "batch_size": shape.sequences,
            "micro_batch_size": micro_batch,
            "dtype": "bf16",
        },
    }
    file = write_settings(options.work / f"{run.name}.yaml", settings, start)
    nystrom(options, command, file, "--quiet")
    measure, score = ("mrr", "mrr") if task == "retrieval" else ("loss", "accuracy")
    curve = records_of(run, f"validation_{measure}")
    found = {name: curve[-1][f"validation_{name}"] for name in (measure, score)}
    points = [[record["step"], round(record[f"validation_{measure}"], 4)] for record in curve]
    return {"steps": curve[-1]["step"]} | found | {"curve": points}


def draw(options, results):
    for task in ("mlm-512", "mlm-2048", "mlm-8192"):
        length = task.removeprefix("mlm-")
        runs = results.of(task=task, seed=1)
        write_chart(
            options.draw / f"windows-{length}.svg",
            title=f"Held-out masked loss at {length} tokens",
            x_label="minutes of two quiet cores",
            y_label="loss",
            series=[over_minutes(run, run["kind"]) for run in runs],
        )


def print_table(options, results):
    for task in options.tasks:
        for kind in options.kinds:
            if runs := results.of(task=task, kind=kind):
                scores = [name for name in ("loss", "accuracy", "mrr") if name in runs[0]]
                row = [f"{name} {shown([run[name] for run in runs], 4)}" for name in scores]
                told = f"{', '.join(row)}, {runs[0]['steps']} steps, {len(runs)} seeds"
                print(f"{task}, {kind}: {told}")


def main():
    parser = timed_parser_of(__doc__, 2, "windows")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--draw", type=Path)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--data", type=Path, help="the folder of corpus_novels and movie_reviews")
    options = parser.parse_args()
    results = Results(options)
    if options.speed:
        return measure_speed(options, results)
    if options.draw:
        return draw(options, results)
    kinds = [{"task": task, "kind": kind} for task in options.tasks for kind in options.kinds]
    results.train(kinds, lambda seed, task, kind: train(options, results, task, kind, seed))
    return print_table(options, results)


if __name__ == "__main__":
    main()
