"""Compares the vectors of `nystrom embed` with sentence-transformers for folders that it wrote.

usage: check_sentence_folders.py [--program build/release/nystrom] [--short]

Makes small encoders with random weights and each pooling, with dense layers, normalisation and
prompts, saves them with sentence-transformers, and encodes texts of unequal length as queries and
documents, in float64. Numbers must agree within 1e-6 of the largest one. So must those of the ONNX
file, and of the export, read by sentence-transformers again. --short: queries alone."""

import numpy
import onnxruntime
import torch
import transformers
from common import deviation, from_json_lines, run, script
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules as library

TOLERANCE = 1e-6
TEXTS = [
    "the grey harbour was quiet",
    "a ship",
    "two old ships lay near the bridge, and nobody came to see them sail in the rain",
    "rain",
]
WORDS = "the grey harbour was quiet a ship two old ships lay near bridge and nobody came to see"
WORDS = [*WORDS.split(), "them", "sail", "in", "rain", ",", "question", "text", ":"]
ACTIVATIONS = {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU, "gelu": torch.nn.GELU}
ACTIVATIONS["linear"] = torch.nn.Identity
POOLINGS = ["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
# Name: pooling, layers (width, activation, bias), normalised, prompts.
CASES = {p: (p, [], False, {}) for p in POOLINGS} | {
    "normal": ("cls", [], True, {"query": "question: ", "document": "text: "}),
    "passage": ("mean", [], True, {"query": "question: ", "passage": "text: "}),
    "dense": ("mean", [(8, "tanh", True)], True, {"query": "question: "}),
    "several": ("mean", [(24, "gelu", True), (12, "relu", False), (8, "linear", True)], False, {}),
}


def encoder(folder, seed):
    torch.manual_seed(seed)
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    folder.mkdir()
    (folder / "vocab.txt").write_text("".join(token + "\n" for token in tokens))
    tokenizer = transformers.BertTokenizer(str(folder / "vocab.txt"))
    config = transformers.BertConfig(
        vocab_size=len(tokens),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
        initializer_range=0.5,
    )
    transformers.BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def make(folder, seed, pooling, layers, normal, prompts):
    encoder(folder / "encoder", seed)
    parts = [library.Transformer(str(folder / "encoder"), max_seq_length=32)]
    parts.append(library.Pooling(16, pooling))
    width = 16
    for out, activation, bias in layers:
        parts.append(library.Dense(width, out, bias, ACTIVATIONS[activation]()))
        width = out
    if normal:
        parts.append(library.Normalize())
    model = SentenceTransformer(modules=parts, prompts=prompts, device="cpu")
    model.save(str(folder / "model"), create_model_card=False)
    return SentenceTransformer(str(folder / "model"), device="cpu").double()


def embed(program, folder, kind):
    options = ["--prompt", kind, "--quiet", "--compute-dtype", "f64"]
    lines = from_json_lines(run(program, "embed", folder, *TEXTS, *options))
    return numpy.array([line["vector"] for line in lines])


def encode(model, kind):
    return model.encode_query(TEXTS) if kind == "query" else model.encode_document(TEXTS)


def run_onnx(folder, prompt, texts=TEXTS):
    """The vectors of the ONNX file."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
    batch = tokenizer([prompt + text for text in texts], padding=True, return_tensors="np")
    session = onnxruntime.InferenceSession(str(folder / "onnx" / "model.onnx"))
    names = {each.name for each in session.get_inputs()}
    inputs = {key: value.astype("int64") for key, value in batch.items() if key in names}
    return session.run(["sentence_embedding"], inputs)[0]


@script(__doc__, short=False)
def main(arguments, check, scratch):
    program = arguments.program
    for seed, (name, (pooling, layers, normal, prompts)) in enumerate(CASES.items()):
        folder = scratch / name
        folder.mkdir()
        theirs = make(folder, seed, pooling, layers, normal, prompts)
        out = folder / "export"
        options = ["--quiet", "--onnx", "--sentence-transformers"]
        run(program, "export", folder / "model", out, *options)
        again = SentenceTransformer(str(out), device="cpu", trust_remote_code=True).double()
        for kind in ("query",) if arguments.short else ("query", "document"):
            want = encode(theirs, kind)
            for what, got in {
                "embed": embed(program, folder / "model", kind),
                "export": encode(again, kind),
                "onnx": run_onnx(out, prompts.get(kind, "")),
            }.items():
                worst = deviation(got, want) if got.shape == want.shape else 9.0
                check(worst <= TOLERANCE, f"{name}, {kind}, {what}: {worst:.1e}")
