"""Does a model learn ListOps better if it first fills masks in the task's own inputs?

    python3 bench/self_pretraining.py --nystrom build/release/nystrom

After Amos et al., "Never Train from Scratch" (ICLR 2024). Long Range Arena's ListOps with its model
(2 layers of width 64, mean pooling) and expressions of 100 to 500 symbols, drawn by `nystrom
listops`. For each seed and share, that part of --steps pretrains on the expressions without their
values, and the rest fine-tunes; share 0 is training from scratch. Finished runs are not repeated; a
stopped one goes on. Prints held-out accuracy, the best of eight evaluations, and writes it to
--output."""

from pathlib import Path

from compare_attention import LISTOPS
from equal_time import shown
from nystrom_runs import listops, nystrom, parser_of, records_of, write_json, write_settings

MODEL = LISTOPS | {"attention": {"num_landmarks": 64, "conv_kernel_size": 33}}


def settings(options, run, steps, seed):
    return {
        "run_dir": str(options.work / run),
        "seed": seed,
        "optimizer": {"learning_rate": 1e-3},
        "schedule": {"warmup_share": 0.1, "decay": "linear"},
        "training": {"steps": steps, "batch_size": 32, "micro_batch_size": 16, "dtype": "f32"},
        "evaluation": {"every": max(1, steps // 8)},
        "checkpoint": {"every": 100, "keep": 2},
        "logging": {"tensorboard": False},
    }


def call(options, command, run, config):
    nystrom(options, command, write_settings(options.work / f"{run}.yaml", config), "--quiet")
    return records_of(options.work / run, "validation_loss")


def train(options, share, seed):
    pretraining = round(share * options.steps)
    name = f"{share}-{seed}"
    own = listops(options) | {"data": {"sequence_length": 512}}
    model = MODEL
    if pretraining > 0:
        run = f"pretrained-{name}"
        config = settings(options, run, pretraining, seed) | own | {"model": MODEL}
        config["masking"] = {"probability": options.masked}
        call(options, "pretrain", run, config)
        model = {"from": str(options.work / run)}
        del own["tokenizer"]
    run = f"tuned-{name}"
    config = settings(options, run, options.steps - pretraining, seed) | own
    config["model"] = model | {"pooling": "mean"}
    scores = call(options, "finetune", run, config)
    return max(each["validation_accuracy"] for each in scores)


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--nystrom", type=Path, default=Path("build/release/nystrom"))
    parser.add_argument("--work", type=Path, default=Path("build/self-pretraining"))
    parser.add_argument("--output", type=Path, default=Path("bench/results/self-pretraining.json"))
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--masked", type=float, default=0.15, help="share of masked symbols")
    parser.add_argument("--shares", type=float, nargs="+", default=[0.0, 0.5])
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    results = {}
    for seed in range(1, options.seeds + 1):
        for share in options.shares:
            accuracy = train(options, share, seed)
            results.setdefault(str(share), []).append(accuracy)
            print(f"seed {seed}, {share:.0%} of {options.steps} steps: {accuracy:.3f}", flush=True)
    for share, values in results.items():
        print(f"{float(share):.0%} of the steps: {shown(values, 3)}")
    write_json(
        options.output, {"steps": options.steps, "masked": options.masked, "accuracy": results}
    )


if __name__ == "__main__":
    main()
