"""Checks what nystrom has of Long Range Arena against Python: values of ListOps and the built-in
tokenizers.

usage: check_lra.py [--program build/release/nystrom] [--tokenizer-tool
build/release/tokenizer_tool]

Generates ListOps by `nystrom listops` at the published settings and computes every target anew;
fine-tunes a toy of each built-in tokenizer for a step, whose checkpoint's tokenizer must give the
same ids and offsets in Hugging Face's tokenizers."""

import json
import random
import statistics

from check_tokenizer import compare, compare_offsets, mixed_lines
from common import NOVEL, run, script
from tokenizers import Tokenizer

RUN = """
run_dir: {folder}/{name}
model: {{hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 8,
  max_position_embeddings: 64, pooling: mean}}
tokenizer: {{builtin: {name}}}
task: {{recipe: listops, train: ["{folder}/data/basic_val.tsv"],
  validation: ["{folder}/data/basic_test.tsv"]}}
data: {{sequence_length: 64}}
training: {{steps: 1, batch_size: 4, micro_batch_size: 4, dtype: f32}}
logging: {{tensorboard: false}}
"""
OPERATORS = {
    "[MIN": min,
    "[MAX": max,
    "[MED": lambda values: int(statistics.median(values)),
    "[SM": lambda values: sum(values) % 10,
    "[FIRST": lambda values: values[0],
    "[LAST": lambda values: values[-1],
}


def value_of(source):
    """By a stack of what is open."""
    stack = [[]]
    for word in source.replace("(", " ").replace(")", " ").split():
        if word == "]":
            operator, *values = stack.pop()
            stack[-1].append(OPERATORS[operator](values))
        elif word in OPERATORS:
            stack.append([word])
        else:
            stack[-1].append(int(word))
    (result,) = stack[0]
    return result


def check_listops(check, program, folder):
    counts = ["--train", 300, "--validation", 40, "--test", 40]
    run(program, "listops", folder / "data", *counts, "--seed", 7, "--quiet")
    rows = [
        line.split("\t")
        for name in ("train", "val", "test")
        for line in (folder / f"data/basic_{name}.tsv").read_text().splitlines()[1:]
    ]
    wrong = sum(value_of(source) != int(target) for source, target in rows)
    lengths = [sum(word not in "()" for word in source.split()) for source, _ in rows]
    labels = [sum(int(target) == label for _, target in rows) for label in range(10)]
    check(
        len(rows) == 380 and wrong == 0 and all(500 < length < 2000 for length in lengths),
        f"listops: {len(rows)} samples, {wrong} wrong targets, {min(lengths)} to {max(lengths)} "
        f"symbols, mean {statistics.mean(lengths):.0f}, labels {labels}",
    )
    return [source for source, _ in rows]


def check_tokenizer(check, program, tool, folder, name, lines):
    config = folder / f"{name}.yaml"
    config.write_text(RUN.format(folder=folder, name=name))
    run(program, "finetune", config, "--quiet", "--threads", 1)
    checkpoint = folder / name / "checkpoints/step-1"
    theirs = Tokenizer.from_file(str(checkpoint / "tokenizer.json"))
    compare(check, tool, name, checkpoint, lines)
    compare_offsets(check, tool, name, checkpoint, theirs, lines)
    if name == "bytes":
        theirs.encode_special_tokens = True
        exact = all(
            theirs.encode(line).ids == [byte + 1 for byte in line.encode()] for line in lines
        )
        check(exact, "bytes: the ids are the bytes plus 1")
    block = json.loads((checkpoint / "config.json").read_text())["nystrom"]
    check(
        block["pooling"] == "mean" and block["pairs"] == "joined",
        f"{name}: config.json keeps the pooling",
    )


@script(__doc__, tokenizer_tool="tokenizer_tool")
def main(arguments, check, folder):
    program, tool = arguments.program, arguments.tokenizer_tool
    sources = check_listops(check, program, folder)
    check_tokenizer(check, program, tool, folder, "listops", sources)
    lines = sources[:20] + mixed_lines([NOVEL], random.Random(0), 200_000)
    check_tokenizer(check, program, tool, folder, "bytes", lines)
