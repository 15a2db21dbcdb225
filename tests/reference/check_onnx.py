"""Compares ONNX files in ONNX Runtime with `nystrom forward`.

usage: check_onnx.py [--program build/release/nystrom] [--short] [CASE ...]

Models of every option and head are those of check_modeling.py, and so are batches: unequal rows,
holes, one token, fewer tokens than landmarks, full rows. Added are rows longer than the longest
text, rows without tokens, odd lengths, and batches of 1 with padding. In float32 results must agree
within 1e-4 of a model's largest result. int8 is only shown: a task's metric judges it. --short: one
head for each option, another each time."""

import subprocess

import onnx
import onnxruntime
import torch
from check_modeling import (
    F32,
    LANDMARKS,
    LENGTH,
    OPTIONS,
    at_tokens,
    batches,
    counts_places,
    heads_of,
    make_batch,
    make_folder,
    run_program,
)
from common import script

FILES = ("onnx/model.onnx", "onnx/model_int8.onnx")
NO_INVERSE = "attention.inverse is exact, and ONNX has no singular value decomposition"
NO_SORT = "attention.kind is reformer, which sorts tokens by random hashes"
REFUSED = {
    "exact_inverse": NO_INVERSE,
    "features_mean": NO_INVERSE,
    "transformers_exact_inverse": NO_INVERSE,
    "reformer": NO_SORT,
    "reformer_pairs_of_buckets": NO_SORT,
    "every_kind": NO_SORT,
}


def make_session(path):
    onnx.checker.check_model(path, full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def run_session(session, batch):
    """The outputs, under the names of `nystrom forward`."""
    shape = batch["features"].shape[:2] if "features" in batch else batch["input_ids"].shape
    given = {"attention_mask": torch.ones(shape, dtype=torch.int64)} | batch
    given = {entry.name: given[entry.name].numpy() for entry in session.get_inputs()}
    names = [entry.name.replace("pooler_output", "output") for entry in session.get_outputs()]
    return {name: torch.from_numpy(x) for name, x in zip(names, session.run(None, given))}


def padded_batches(name, head):
    """The batches of check_modeling.py, and padding of more kinds."""
    found = batches(name, head)
    if OPTIONS[name].get("attention", {}).get("semantics") == "transformers":
        return found
    for length, longest in ((LENGTH, 19), (40, LENGTH), (LANDMARKS + 2, LANDMARKS), (7, 1)):
        batch = make_batch(name, head, length, True)
        mask = batch["attention_mask"]
        mask[..., longest:] = 0
        if not counts_places(name):  # nystrom refuses rows without tokens there
            mask[-1] = 0
        if "features" in batch:  # padding may hold anything
            batch["features"][mask == 0] = float("nan")
        found.append(batch)
    alone = {key: value[:1] for key, value in make_batch(name, head, 23, True).items()}
    alone["attention_mask"][..., 17:] = 0
    return [*found, alone]


def compare(session, batch, expected, largest, worst):
    """Keeps the largest result and the largest difference of each output in two dictionaries."""
    mask, got = batch.get("attention_mask"), run_session(session, batch)
    if not all(value.isfinite().all() for value in got.values()):
        raise SystemExit("results are not finite")
    for name, value in got.items():
        if name == "sentence_embedding":
            continue  # check_sentence_transformers.py compares it
        ours, theirs = (at_tokens(name, x, mask) for x in (expected[name], value))
        largest[name] = max(largest.get(name, 0), ours.abs().max().item())
        worst[name] = max(worst.get(name, 0), (ours - theirs).abs().max().item())


def check_head(program, folder, name, head):
    """The largest differences of both files, and the number of nodes; or why there is no file."""
    out = folder / "exported"
    command = [program, "export", folder, out, "--onnx", "int8", "--quiet"]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        return result.stderr.removeprefix(f"nystrom: {folder}: ").strip()
    sessions = [make_session(out / file) for file in FILES]
    largest, worst = {}, [{} for _ in sessions]
    for batch in padded_batches(name, head):
        expected = run_program(program, folder, batch)
        for session, found in zip(sessions, worst):
            compare(session, batch, expected, largest, found)
    nodes = len(onnx.load(out / FILES[0]).graph.node)
    return [max(found[key] / largest[key] for key in found) for found in worst], nodes


def check_option(check, program, scratch, name, short):
    heads = heads_of(name, short)
    worst, most = [0.0, 0.0], 0
    for head in heads:
        found = check_head(program, make_folder(scratch, name, head), name, head)
        if isinstance(found, str):
            expected = "cannot be written as ONNX: " + REFUSED.get(name, "(nothing)")
            return check(found.startswith(expected), f"{name}: {found}")
        worst, most = [max(pair) for pair in zip(worst, found[0])], max(most, found[1])
    check(
        worst[0] <= F32 and name not in REFUSED,
        f"{name}, {len(heads)} heads, {most} nodes: {worst[0]:.1e}; int8 {worst[1]:.1e}",
    )


@script(__doc__, names=OPTIONS, short=False)
def main(arguments, check, scratch):
    print(f"onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}")
    torch.set_num_threads(1)  # models are small
    for name in arguments.names or OPTIONS:
        check_option(check, arguments.program, scratch, name, arguments.short)
