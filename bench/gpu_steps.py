"""Times one training step on a GPU: `nystrom bench --device cuda` beside PyTorch, at one number of
tokens a step and several lengths.

    python3 bench/gpu_steps.py --output bench/results/h200-steps.json
    python3 bench/gpu_steps.py --lengths 512 --tokens 16384 --rounds 1 --output quick.json

Contestants: nystrom (bf16); transformers' Nyströmformer with segment_means_seq_len = length, eager
and compiled; BertForMaskedLM with PyTorch's fused attention, compiled. PyTorch's run under bf16
autocast. Without torch or transformers nystrom is timed alone.

Each measurement is a process of its own. nystrom is timed at every length first, then the
contestants alternate, and one that failed at a length is not tried there again. All do a
whole step: masked language model with 15 % of the tokens chosen, hidden dropout 0.1, loss,
backward, clipping to norm 1, AdamW. PyTorch running out of memory gets half the sequences at once
and twice as many micro-batches, and the result says so. No text is padded, so no contestant gets a
mask: transformers 5 cannot mask its Nyström attention."""

import argparse
import importlib.util
import json
import statistics
import sys
import time

from gpu_common import Clock, Report, last_line, parser_of, say

MASKED_SHARE = 0.15
LANDMARKS, CONV, VOCAB = 64, 33, 30000
LAYERS, HIDDEN, HEADS = 12, 768, 12
CONTESTANTS = ["nystrom", "bert-compile", "hf-eager", "hf-compile"]
PROCESS_SECONDS = 150


def parse_arguments() -> argparse.Namespace:
    parser = parser_of(__doc__, 500)
    # The lengths of the targets come first.
    parser.add_argument("--lengths", nargs="+", type=int, default=[512, 4096, 1024, 2048, 8192])
    parser.add_argument("--tokens", type=int, default=65536, help="tokens of one step")
    parser.add_argument(
        "--rounds", type=int, default=2, help="processes of each contestant and length"
    )
    parser.add_argument("--steps", type=int, default=8, help="counted steps of each process")
    parser.add_argument("--warmup", type=int, default=4, help="steps before those, not counted")
    parser.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=CONTESTANTS)
    parser.add_argument("--worker", choices=CONTESTANTS[1:], help=argparse.SUPPRESS)
    parser.add_argument("--micro-batch", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.dry_run and not arguments.worker:
        arguments.lengths, arguments.tokens, arguments.rounds = [128], 256, 1
        arguments.steps, arguments.warmup = 1, 1
    return arguments


# --- One PyTorch process --------------------------------------------------------------------------


def make_model(contestant: str, length: int, layers: int):
    import transformers

    sizes = {
        "vocab_size": VOCAB,
        "hidden_size": HIDDEN,
        "num_hidden_layers": layers,
        "num_attention_heads": HEADS,
        "intermediate_size": 4 * HIDDEN,
        "max_position_embeddings": length,
        "hidden_dropout_prob": 0.1,
    }
    if contestant == "bert-compile":
        # Like nystrom, without attention dropout.
        config = transformers.BertConfig(
            **sizes, attention_probs_dropout_prob=0.0, attn_implementation="sdpa"
        )
        return transformers.BertForMaskedLM(config)
    config = transformers.NystromformerConfig(
        **sizes, segment_means_seq_len=length, num_landmarks=LANDMARKS, conv_kernel_size=CONV
    )
    return transformers.NystromformerForMaskedLM(config)


def run_worker(arguments: argparse.Namespace) -> None:
    """Prints one JSON object, like `nystrom bench`."""
    import torch

    device = "cpu" if arguments.dry_run else "cuda"
    synchronize = (lambda: None) if arguments.dry_run else torch.cuda.synchronize
    length, micro = arguments.lengths[0], arguments.micro_batch
    parts = arguments.tokens // length // micro
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = True
    layers = 1 if arguments.dry_run else LAYERS
    model = make_model(arguments.worker, length, layers).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    forward = torch.compile(model) if arguments.worker.endswith("compile") else model

    seconds, losses = [], []
    for _ in range(arguments.warmup + arguments.steps):
        ids = torch.randint(5, VOCAB, (parts, micro, length), device=device)
        chosen = torch.rand(ids.shape, device=device) < MASKED_SHARE
        labels, inputs = torch.where(chosen, ids, -100), torch.where(chosen, 4, ids)
        synchronize()

        start = time.perf_counter()
        optimizer.zero_grad()
        total = 0.0
        for part in range(parts):
            with torch.autocast(device, torch.bfloat16):
                loss = forward(input_ids=inputs[part], labels=labels[part]).loss / parts
            loss.backward()
            total += loss.detach()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(total.item())
        synchronize()
        seconds.append(time.perf_counter() - start)
    peak = 0 if arguments.dry_run else torch.cuda.max_memory_allocated()
    print(json.dumps({"step_seconds": seconds, "losses": losses, "peak_memory_bytes": peak}))


# --- The rounds -----------------------------------------------------------------------------------


def command(contestant: str, length: int, micro: int, arguments: argparse.Namespace) -> list:
    dry = arguments.dry_run
    if contestant == "nystrom":
        return [
            (arguments.folder / "nystrom").resolve(),
            "bench",
            f"--device={'cpu' if dry else 'cuda'}",
            f"--layers={1 if dry else LAYERS}",
            f"--hidden={HIDDEN}",
            f"--heads={HEADS}",
            f"--landmarks={LANDMARKS}",
            f"--length={length}",
            f"--batch={micro}",
            f"--vocab={VOCAB}",
            f"--conv={CONV}",
            "--dtype=bf16",
            f"--steps={arguments.warmup + arguments.steps}",
            "--json",
        ]
    return [
        sys.executable,
        __file__,
        f"--worker={contestant}",
        f"--lengths={length}",
        f"--micro-batch={micro}",
        f"--steps={arguments.steps}",
        f"--warmup={arguments.warmup}",
        f"--tokens={arguments.tokens}",
        f"--output={arguments.output}",
        *(["--dry-run"] if dry else []),
    ]


def measure(
    contestant: str, length: int, micro: int, arguments: argparse.Namespace, clock: Clock
) -> dict:
    """One process; after running out of memory, one with half the sequences at once."""
    while True:
        done = clock.run(command(contestant, length, micro, arguments), PROCESS_SECONDS)
        if done.returncode == 0:
            break
        if "out of memory" not in done.stderr or micro == 1 or contestant == "nystrom":
            return {"error": last_line(done.stderr)}
        micro //= 2
    report = json.loads(done.stdout)
    return {
        "micro_batch": micro,
        "step_seconds": report["step_seconds"][arguments.warmup :],
        "losses": report["losses"],
        "peak_memory_bytes": report["peak_memory_bytes"],
    }


def plan(arguments: argparse.Namespace, contestants: list[str]) -> list[tuple[int, str]]:
    """What to measure, by value: nystrom at every length, then all contestants in turns."""
    first = [(length, "nystrom") for length in arguments.lengths if "nystrom" in contestants]
    others = [name for name in contestants if name != "nystrom"]
    turns = [
        (length, name)
        for length in arguments.lengths
        for turn in range(arguments.rounds)
        for name in (contestants if turn > 0 else others)
    ]
    return first + turns


def summarise(runs: list[dict], tokens: int) -> dict:
    failed = [run for run in runs if "error" in run]
    runs = [run for run in runs if "error" not in run]
    if not runs:
        return {"error": failed[0]["error"]}
    seconds = [second for run in runs for second in run["step_seconds"]]
    median = statistics.median(seconds)
    return {
        "median_step_seconds": median,
        "fastest_step_seconds": min(seconds),
        "slowest_step_seconds": max(seconds),
        "tokens_per_second": tokens / median,
        "peak_memory_bytes": max(run["peak_memory_bytes"] for run in runs),
        "micro_batch": min(run["micro_batch"] for run in runs),
        "runs": runs,
    }


def main() -> None:
    arguments = parse_arguments()
    if arguments.worker:
        import torch

        try:
            return run_worker(arguments)
        except torch.OutOfMemoryError:
            sys.exit("out of memory")
    contestants = arguments.contestants
    if not (importlib.util.find_spec("torch") and importlib.util.find_spec("transformers")):
        say("torch or transformers is missing: nystrom is timed alone")
        contestants = [name for name in contestants if name == "nystrom"]
    clock, report = Clock(arguments.seconds), Report(arguments.output)
    runs: dict[tuple[int, str], list[dict]] = {}
    rows: dict[str, dict] = {str(length): {} for length in arguments.lengths}
    report["tokens_per_step"], report["lengths"] = arguments.tokens, rows
    for length, name in plan(arguments, contestants):
        done = runs.setdefault((length, name), [])
        if done and "error" in done[-1]:
            continue  # it would take as long again to fail
        micro = done[-1]["micro_batch"] if done else arguments.tokens // length
        done.append(measure(name, length, micro, arguments, clock))
        rows[str(length)][name] = summary = summarise(done, arguments.tokens)
        report.save()
        told = (
            summary.get("error")
            or f"{summary['tokens_per_second']:,.0f} tokens/s, "
            f"{summary['peak_memory_bytes'] / 1e9:.2f} GB"
        )
        say(f"length {length:5d}  {name:12s} {told}")


if __name__ == "__main__":
    main()
