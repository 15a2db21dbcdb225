"""Compares the vectors of `nystrom embed` with those of sentence-transformers for its export.

usage: check_sentence_transformers.py [--program build/release/nystrom]

Pretrains small models, one of them with a projection and prompts, exports each with
--sentence-transformers (its own pooling, mean, cls), and encodes texts of unequal length in
batches, as queries and as documents. All cosines must be within 1e-5 of 1: between `nystrom embed`,
sentence-transformers, and what follows from the hidden states of `nystrom forward`. The card's code
must run. Numbers of the ONNX file's output sentence_embedding must be within 1e-6 of those of
`nystrom embed`."""

import json
import os
import tempfile

MODULES = tempfile.TemporaryDirectory()  # where transformers copies a folder's classes
os.environ["HF_MODULES_CACHE"] = MODULES.name

import torch
from check_export import LENGTH, TEXTS, outputs_of_card, run_forward, train
from check_sentence_folders import run_onnx
from common import from_json_lines, run, script
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer


TOLERANCE, ONNX_TOLERANCE = 1e-5, 1e-6
# `nystrom embed` reads names of special tokens as ordinary characters, so there are none here.
SHORT = [text.replace("[MASK]", "harbour") for text in TEXTS[:2]]
SHORT += ["old ships", "His hands were ragged and scarred."]
VECTORS = {
    "plain": [],
    "projected": [
        "--set=model.embedding.projection=24",
        "--set=model.embedding.query_prompt='query: '",
        "--set=model.embedding.document_prompt='passage: '",
    ],
}


def expected(program, folder, tokenizer, pooling, prompt):
    """Vectors from the hidden states of `nystrom forward`, not normalised."""
    vectors = []
    for text in SHORT:
        inputs = tokenizer(prompt + text, return_tensors="pt")
        hidden = run_forward(program, folder, inputs)["last_hidden_state"][0]
        vectors.append(hidden.mean(0) if pooling == "mean" else hidden[0])
    vectors = torch.stack(vectors)
    weights = load_file(folder / "model.safetensors")
    if "embedding.projection.weight" in weights:
        vectors = torch.nn.functional.linear(
            vectors, weights["embedding.projection.weight"], weights["embedding.projection.bias"]
        )
    return vectors


def embedded(program, folder, kind):
    lines = from_json_lines(run(program, "embed", folder, *SHORT, "--quiet", "--prompt", kind))
    return torch.tensor([line["vector"] for line in lines])


def finetune(program, folder, start, pooling):
    """A step of training for vectors: the result has no head."""
    name = f"{start.name}-{pooling}-vectors"
    rows = "".join(f"the old {word}\ta {word}\n" for word in ("ship", "house", "night", "king"))
    (folder / "texts.tsv").write_text("text\tpair\n" + rows)
    config = {
        "run_dir": str(folder / name),
        "model": {"from": str(start), "embedding": {"pooling": pooling}},
        "task": {"kind": "embeddings", "columns": {"text": "text", "pair": "pair"}},
        "data": {"sequence_length": LENGTH},
        "training": {"steps": 1, "batch_size": 2, "micro_batch_size": 2},
    }
    for files in ("train", "validation"):
        config["task"][files] = [str(folder / "texts.tsv")]
    (folder / f"{name}.yaml").write_text(json.dumps(config) + "\n")
    run(program, "finetune", folder / f"{name}.yaml", "--quiet")
    return folder / name


def check_onnx(check, program, folder, start):
    for pooling in ("mean", "cls"):
        vectors = finetune(program, folder, start, pooling)
        exported = folder / f"{vectors.name}-onnx"
        run(program, "export", vectors, exported, "--onnx", "--quiet")
        options = json.loads((exported / "config.json").read_text())["nystrom"].get("embedding", {})
        prompt = options.get("document_prompt", "")
        theirs = torch.from_numpy(run_onnx(exported, prompt, SHORT))
        worst = (theirs - embedded(program, exported, "document")).abs().max().item()
        check(worst <= ONNX_TOLERANCE, f"{start.name}, {pooling}, ONNX: numbers within {worst:.1e}")


def worst_cosine(a, b):
    return torch.nn.functional.cosine_similarity(a.double(), b.double()).min().item()


@script(__doc__)
def main(arguments, check, scratch):
    program = arguments.program
    for name in VECTORS:
        start = train(program, scratch, name, "nystrom", 33, *VECTORS[name])
        check_onnx(check, program, scratch, start)
        for pooling in ("own", "mean", "cls"):
            folder = scratch / f"{name}-{pooling}"
            run(program, "export", start, folder, "--sentence-transformers", pooling, "--quiet")
            model = SentenceTransformer(str(folder), trust_remote_code=True, device="cpu")
            check(model.max_seq_length == LENGTH, f"{name}, {pooling}: reads {LENGTH} tokens")
            for kind in ("query", "document"):
                prompt = model.prompts.get(kind) or ""
                check(bool(prompt) == (name == "projected"), f"{name}: {kind} prompt {prompt!r}")
                encode = model.encode_query if kind == "query" else model.encode_document
                theirs = encode(SHORT, convert_to_tensor=True, batch_size=len(SHORT))
                ours = embedded(program, folder, kind)
                kept = "cls" if pooling == "cls" else "mean"
                right = expected(program, folder, model.tokenizer, kept, prompt)
                lengths = (theirs.norm(dim=1) - 1).abs().max().item()
                cosine = min(worst_cosine(theirs, right), worst_cosine(ours, theirs))
                check(
                    cosine >= 1 - TOLERANCE and lengths < TOLERANCE,
                    f"{name}, {pooling}, {kind}: cosine of {len(SHORT)} texts in one batch is "
                    f"1 - {1 - cosine:.1e}, width {theirs.shape[1]}",
                )
            similarities = outputs_of_card(folder)[-1]
            check("tensor" in similarities, f"{name}, {pooling}: the card prints similarities")
