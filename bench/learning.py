"""Which changes of a recipe teach more in the same machine-time? Pretrains one small model in many
variants, each for as many steps as fit into --minutes at its own speed, seed after seed.

    python3 bench/learning.py --data DATA --speed      # on a quiet machine, once
    python3 bench/learning.py --data DATA --seeds 3    # then, on any machine, in stretches
    python3 bench/learning.py --data DATA --table
    python3 bench/learning.py --data DATA --draw docs/learning.svg    # the first seed's curves

The base is the model of bench/downstream.py: 4 layers of 192, 8,000 pieces, 64 sequences of 128
tokens, AdamW at 1e-3 with its peak after a tenth of the steps, on 64 novels. A variant changes one
thing, but for those called `together`, which have those that paid. --speed times 24 steps of each;
from then on a run has the steps of --minutes at that speed, whatever the machine does meanwhile.

Reported are the loss of held-out novels with 15 % of single tokens masked, where the vocabulary is
the base's, and the accuracy on BLiMP's minimal pairs, the first 100 of each of 67 kinds, which
compares all. A variant pays where it beats the base by more than two standard deviations of the
seeds. Finished runs are not repeated; a stopped one goes on. --output has a line for each run."""

import json
import statistics
import tempfile
from pathlib import Path

from charts import write_chart
from downstream import PRETRAINING
from equal_time import Results, over_minutes, shown, timed_parser_of
from nystrom_runs import novels, nystrom, records_of, write_settings

GEGLU = {"model.mlp": "geglu", "model.intermediate_size": 512}
PRE_NORM = {"model.norm": "pre", "model.final_norm": True}
MUON = {"optimizer.name": "muon", "optimizer.learning_rate": 5e-3}
FEWER_MASKS = {"masking.probability": {"0": 0.3, "end": 0.15}}
EXACT = {"model.attention.kind": "softmax", "model.attention.conv_kernel_size": None}
CONVOLUTION = {"model.attention.conv_kernel_size": 33}
TOGETHER = MUON | FEWER_MASKS | {"model.hidden_dropout_prob": 0.0}
MODERN = EXACT | GEGLU | {"model.positions": "rope", "model.bias": False}
PARAGRAPHS = {"data.documents": "lines", "data.packing": "isolated"}
REPLACED = {"pretraining.objective": "replaced_tokens"}
VARIANTS = {
    "base": {},
    "rate 5e-4": {"optimizer.learning_rate": 5e-4},
    "rate 2e-3": {"optimizer.learning_rate": 2e-3},
    "batch 32": {"training.batch_size": 32, "training.micro_batch_size": 32},
    "batch 128": {"training.batch_size": 128},
    "masks 30 %": {"masking.probability": 0.3},
    "masks 30 to 15 %": FEWER_MASKS,
    "whole words": {"masking.whole_word": True},
    "dropout 0": {"model.hidden_dropout_prob": 0.0},
    "muon 2e-3": MUON | {"optimizer.learning_rate": 2e-3},
    "muon 5e-3": MUON,
    "z-loss": {"training.z_loss": 1e-4},
    "average": {"training.ema": 0.998},
    "wsd": {"schedule.decay": "wsd", "schedule.decay_share": 0.2},
    "geglu": GEGLU,
    "pre-norm": PRE_NORM,
    "rope": {"model.positions": "rope"},
    "no biases": {"model.bias": False},
    "exact": EXACT,
    "exact, convolution": EXACT | CONVOLUTION,
    "window": {"model.attention.window": 32},
    "untied": {"model.tie_word_embeddings": False},
    "paragraphs": PARAGRAPHS,
    "512 tokens": {
        "data.sequence_length": 512,
        "model.max_position_embeddings": 512,
        "training.batch_size": 16,
        "training.micro_batch_size": 16,
    },
    "4,000 pieces": {"tokenizer.train.vocab_size": 4000},
    "16,000 pieces": {"tokenizer.train.vocab_size": 16000},
    "replaced tokens": REPLACED,
    "replaced tokens, 2e-3": REPLACED | {"optimizer.learning_rate": 2e-3},
    "together": TOGETHER,
    "together, exact": TOGETHER | EXACT,
    "together, modern": TOGETHER | MODERN,
    "together, modern, convolution": TOGETHER | MODERN | CONVOLUTION,
    "together, modern, convolution, paragraphs": TOGETHER | MODERN | CONVOLUTION | PARAGRAPHS,
}
SHARED = {k: v for k, v in PRETRAINING.items() if k not in ("seed", "schedule")}
# A loss compares models on one text, cut and masked in one way, whatever their training has.
JUDGED = {
    "data.sequence_length": 128,
    "data.documents": "files",
    "data.packing": "alone",
    "masking.probability": 0.15,
    "masking.whole_word": False,
}
OTHER_LOSS = ("4,000 pieces", "16,000 pieces", "replaced tokens", "replaced tokens, 2e-3")


def pretrain(options, variant, run, steps, seed, **more):
    """The records of a run."""
    settings = {
        "run_dir": str(run),
        **{f"data.{part}": files for part, files in novels(options.data).items()},
        "data.sequence_length": 128,
        "data.cache": str(options.work / "cache"),
        "seed": seed,
        "schedule.warmup_steps": None,
        "schedule.warmup_share": 0.1,
        "training.steps": steps,
        "evaluation.every": max(1, steps // 8),
        "checkpoint.every": max(1, steps // 8),
        "logging.tensorboard": False,
    }
    sets = [f"{k}={json.dumps(v)}" for k, v in (settings | VARIANTS[variant] | more).items()]
    file = write_settings(run.with_name(f"{run.name}.yaml"), SHARED, sets=sets)
    nystrom(options, "pretrain", file, "--quiet", *(f"--set={each}" for each in sets))
    return records_of(run)


def measure_speed(options, results):
    for variant in options.variants:
        more = {"logging.every": 1, "evaluation.every": 1000}
        with tempfile.TemporaryDirectory(dir=options.work) as folder:
            records = pretrain(options, variant, Path(folder) / "run", 24, 1, **more)
        tokens = [r["tokens_per_second"] for r in records if "tokens_per_second" in r]
        settings = {"training.batch_size": 64, "data.sequence_length": 128} | VARIANTS[variant]
        step = settings["training.batch_size"] * settings["data.sequence_length"]
        seconds = step / statistics.median(tokens[4:])
        results.step_seconds[variant] = round(seconds, 4)
        print(f"{variant}: {seconds:.3f} s a step", flush=True)
    results.write()


def minimal_pairs(options):
    folder = options.work / "blimp"
    folder.mkdir(exist_ok=True)
    for file in sorted((options.data / "blimp").glob("*.jsonl")):
        lines = file.read_text().splitlines(keepends=True)[:100]
        (folder / file.name).write_text("".join(lines))
    return f"{folder}/*.jsonl"


def train(options, steps, variant, seed):
    run = options.work / f"{variant.replace(' ', '-').replace('%', 'percent')}-{seed}"
    records = pretrain(options, variant, run, steps, seed)

    def evaluated(*words):
        return json.loads(nystrom(options, "evaluate", run, "--json", "--quiet", *words))

    words = ("check", run / "config.yaml", "--speed", "1G", "--json", "--quiet")
    step = json.loads(nystrom(options, *words))["memory"]["computation_seconds"]
    line = {"steps": steps, "teraflops": round(steps * step / 1000)}
    if variant not in OTHER_LOSS:
        held_out = options.data / "corpus_novels/novels_valid.txt"
        sets = [f"--set={k}={json.dumps(v)}" for k, v in JUDGED.items()]
        found = evaluated("--text", held_out, *sets)
        line |= {"loss": found["loss"], "accuracy": found["accuracy"]}
    line["blimp"] = evaluated("--minimal-pairs", options.pairs)["accuracy"]
    print(line, flush=True)
    curve = [(r["step"], r["validation_loss"]) for r in records if "validation_loss" in r]
    return line | {"curve": [[step, round(loss, 4)] for step, loss in curve]}


def print_table(options, results):
    print(f"| variant | steps | PFLOP | loss | BLiMP, % | seeds |\n|---|{5 * '--:|'}")
    for variant in options.variants:
        runs = results.of(variant=variant)
        if not runs:
            continue
        losses = [run["loss"] for run in runs if "loss" in run]
        pairs = shown([100 * run["blimp"] for run in runs], 1)
        steps, loss = runs[0]["steps"], shown(losses, 3) if losses else "–"
        operations = f"{runs[0]['teraflops'] / 1000:.2f}" if "teraflops" in runs[0] else "–"
        print(f"| {variant} | {steps} | {operations} | {loss} | {pairs} | {len(runs)} |")


def draw(options, results):
    """The losses over time of variants that judge themselves as JUDGED does."""
    alike = [v for v in options.variants if v not in OTHER_LOSS and judges_alike(VARIANTS[v])]
    runs = [run for variant in alike for run in results.of(variant=variant, seed=1)]
    write_chart(
        options.draw,
        title="Held-out masked loss of one model, trained in many ways",
        x_label="minutes of two cores",
        y_label="loss",
        series=[over_minutes(run, run["variant"]) for run in runs],
    )


def judges_alike(changes):
    masks = changes.get("masking.probability")
    at_end = masks.get("end") if isinstance(masks, dict) else masks
    judged = {**changes, "masking.probability": at_end or 0.15}
    return all(judged.get(key, value) == value for key, value in JUDGED.items())


def main():
    parser = timed_parser_of(__doc__, 4, "learning")
    parser.add_argument("--data", type=Path, required=True, help="corpus_novels and blimp")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--draw", type=Path)
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    options = parser.parse_args()
    results = Results(options)
    if options.speed:
        return measure_speed(options, results)
    if options.draw:
        return draw(options, results)
    if not options.table:
        options.pairs = minimal_pairs(options)

        def own(seed, variant):
            steps = results.steps(results.step_seconds[variant])
            return train(options, steps, variant, seed)

        results.train([{"variant": variant} for variant in options.variants], own)
    return print_table(options, results)


if __name__ == "__main__":
    main()
