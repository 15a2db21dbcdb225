"""Compares answers to questions with the question-answering pipeline of transformers 4.57: texts,
places and scores of the best ones. Some contexts are longer than a window.

usage: check_answers.py [--program build/release/nystrom] [--texts 20] [--seed 0]

Models of random weights with the tokenizers of tests/fixtures: WordPiece from vocab.txt alone,
WordPiece, byte-level and Unigram. Version 5 of transformers has no such pipeline."""

import json
import random
import shutil

import torch
from common import FIXTURES, run, script
from transformers import (
    AutoModelForQuestionAnswering,
    AutoTokenizer,
    BertConfig,
    RobertaConfig,
    pipeline,
)

TOKENIZERS = FIXTURES / "tokenizers"
# A fixture, its tokenizer's class, and the model's configuration.
FOLDERS = {
    "vocab.txt alone": ("bert-base-uncased", None, BertConfig),
    "wordpiece": ("small/wordpiece", "BertTokenizerFast", BertConfig),
    "byte-level": ("small/byte_level", "RobertaTokenizerFast", RobertaConfig),
    "unigram": ("small/xlm_roberta", "XLMRobertaTokenizerFast", RobertaConfig),
}
WORDS = "I don't know the captain's ship (of 1,200 tons), naïve O'Brien won't sail 東京 Sea sea SEA"
TOP = 5


def write_folder(folder, tokenizer, its_class, config_class):
    shutil.copytree(TOKENIZERS / tokenizer, folder, ignore=shutil.ignore_patterns("expected*"))
    if its_class:
        (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": its_class}))
    config = config_class(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48
    )
    config.architectures = [config_class.__name__.replace("Config", "ForQuestionAnswering")]
    config.save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    config.vocab_size = len(tokenizer)
    config.pad_token_id = tokenizer.pad_token_id
    config.max_position_embeddings = 514
    torch.manual_seed(3)
    model = AutoModelForQuestionAnswering.from_config(config).eval()
    for parameter in model.qa_outputs.parameters():
        parameter.data.mul_(40)
    model.save_pretrained(folder)
    return model, tokenizer


@script(__doc__, texts=20, seed=0)
def main(arguments, check, scratch):
    rng = random.Random(arguments.seed)
    for name, described in FOLDERS.items():
        folder = scratch / name.replace(" ", "-")
        model, tokenizer = write_folder(folder, *described)
        answer = pipeline("question-answering", model=model, tokenizer=tokenizer)
        different, worst = [], 0.0
        for number in range(arguments.texts):
            length = 500 if number % 8 == 0 else rng.randrange(3, 40)
            context = " ".join(rng.choices(WORDS.split(" "), k=length))
            question = " ".join(rng.choices(WORDS.split(" "), k=4)) + "?"
            theirs = answer(question=question, context=context, top_k=TOP, max_answer_len=30)
            options = ["--pair", context, "--json", "--quiet", "--top-k", TOP]
            options += ["--set", "data.sequence_length=384"]  # the pipeline's windows
            ours = json.loads(run(arguments.program, "predict", folder, question, *options))
            wanted = [each["answer"].strip() for each in theirs]
            if [each["answer"] for each in ours] != wanted or any(
                context[each["start"] : each["end"]] != each["answer"] for each in ours
            ):
                different.append((context, ours, theirs))
                continue
            scores = zip(ours, theirs, strict=True)
            worst = max([worst, *(abs(a["score"] - b["score"]) for a, b in scores)])
        check(
            not different and worst <= 2e-6,
            f"{name}: {arguments.texts} questions, scores of {TOP} answers differ by "
            f"{worst:.1e}; others: {different[:2] or 'none'}",
        )
