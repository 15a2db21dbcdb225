"""Compares fine-tuned, exported models with what transformers makes of them.

usage: check_finetune.py [--program build/release/nystrom]

Trains a toy of each kind of text task with exact attention (which transformers runs at any length),
exports it, and loads the folder with the Auto class of its task and AutoTokenizer: no weight may be
initialised anew or be left over, labels must be the task's, and what transformers predicts for
texts it was not trained on must be what `nystrom predict` says, probabilities within 1e-4."""

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path

import torch
from check_export import Checks, nystrom
from transformers import (
    AutoModelForMultipleChoice,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    pipeline,
)

ROOT = Path(__file__).resolve().parents[2]
NOVEL = ROOT / "examples/quickstart/corpus/stevenson-treasure.txt.gz"
TOLERANCE = 1e-4
WORDS = "the sea was calm and old ships sailed home under pale stars while men sang of gold".split()
BASE = """
run_dir: {folder}/base
model: {{hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 64,
  max_position_embeddings: 64, initializer_range: 0.1,
         attention: {{kind: softmax, num_landmarks: 8, conv_kernel_size: 5}}}}
tokenizer: {{train: {{vocab_size: 1000}}}}
data: {{train: ["{novel}"], validation: ["{novel}"], sequence_length: 64, cache: "{folder}/cache"}}
schedule: {{warmup_steps: 1}}
training: {{steps: 5, batch_size: 8, micro_batch_size: 8, dtype: f32}}
"""
RUN = """
run_dir: {folder}/{kind}
model: {{from: {folder}/base}}
task: {{kind: {kind}, train: ["{folder}/{kind}.{ending}"],
  validation: ["{folder}/{kind}.{ending}"]{more}}}
optimizer: {{learning_rate: 2.0e-3}}
training: {{steps: 40, batch_size: 16, micro_batch_size: 16, dtype: f32}}
logging: {{tensorboard: false}}
"""
QUESTION, CONTEXT = (
    "where are the ships?",
    "Under pale stars, men sang; the old ships sailed home over a calm sea.",
)


def sentence(rng, *wanted):
    words = [rng.choice(WORDS) for _ in range(rng.randint(2, 9))]
    for word in wanted:
        words.insert(rng.randrange(len(words) + 1), word)
    return " ".join(words)


def write_files(folder, rng):
    with open(folder / "classification.tsv", "w") as file:
        print("text\tlabel", file=file)
        for _ in range(64):
            label = rng.choice(["bad", "fine", "good"])
            print(sentence(rng, label) + "\t" + label, file=file)
    with open(folder / "regression.tsv", "w") as file:
        print("text\tlabel", file=file)
        for _ in range(64):
            value = rng.random() * 4 - 2
            print(sentence(rng, "more" if value > 0 else "less") + f"\t{value}", file=file)
    with open(folder / "tokens.conll", "w") as file:
        for _ in range(64):
            for word in sentence(rng, "Jim").split():
                print(
                    word,
                    "B-PER" if word == "Jim" else "B-SHIP" if word == "ships" else "O",
                    file=file,
                )
            print(file=file)
    paragraphs = []
    for number in range(64):
        context = sentence(rng, "Jim")
        qas = [
            {
                "id": str(number),
                "question": "who is it?",
                "answers": [{"text": "Jim", "answer_start": context.index("Jim")}],
            }
        ]
        paragraphs.append({"context": context, "qas": qas})
    (folder / "questions.json").write_text(
        json.dumps({"data": [{"title": "", "paragraphs": paragraphs}]})
    )
    with open(folder / "choice.jsonl", "w") as file:
        for _ in range(64):
            right = rng.randrange(3)
            choices = [sentence(rng, "gold" if i == right else "stone") for i in range(3)]
            print(
                json.dumps({"text": sentence(rng), "endings": choices, "label": right}), file=file
            )


def train(program, folder, kind, ending, more):
    config = folder / f"{kind}.yaml"
    config.write_text(RUN.format(folder=folder, kind=kind, ending=ending, more=more))
    nystrom(program, "finetune", config, "--quiet")
    exported = folder / f"{kind}-exported"
    nystrom(program, "export", folder / kind, exported, "--quiet")
    return exported


def load(check, kind, folder, cls):
    model, report = cls.from_pretrained(folder, output_loading_info=True)
    wrong = {key: value for key, value in report.items() if value}
    check(not wrong, f"{kind}: loads in transformers, initialised or left over: {wrong or 'none'}")
    return model.eval(), AutoTokenizer.from_pretrained(folder)


def predict(program, folder, *arguments):
    return json.loads(nystrom(program, "predict", folder, *arguments, "--json", "--quiet"))


def close(ours, theirs):
    return max(abs(a - b) for a, b in zip(ours, theirs, strict=True))


def check_classification(check, program, folder, rng):
    model, tokenizer = load(check, "classification", folder, AutoModelForSequenceClassification)
    check(
        model.config.id2label == {0: "bad", 1: "fine", 2: "good"},
        f"classification: labels {model.config.id2label}",
    )
    check(
        model.config.problem_type == "single_label_classification",
        f"classification: problem_type {model.config.problem_type}",
    )
    ids = (model.config.bos_token_id, model.config.eos_token_id)
    check(
        ids == (tokenizer.cls_token_id, tokenizer.sep_token_id),
        f"classification: bos and eos {ids} are the tokenizer's cls and sep",
    )
    classify = pipeline("text-classification", model=model, tokenizer=tokenizer, top_k=None)
    worst, same = 0.0, True
    for _ in range(10):
        text = sentence(rng, "fine")
        ours, theirs = predict(program, folder, text), classify([text])[0]
        same &= [guess["label"] for guess in ours] == [guess["label"] for guess in theirs]
        worst = max(
            worst, close([guess["score"] for guess in ours], [guess["score"] for guess in theirs])
        )
    check(
        same and worst <= TOLERANCE,
        "classification: the text-classification pipeline says the "
        f"same of 10 texts, scores differ by {worst:.1e}",
    )


def check_regression(check, program, folder, rng):
    model, tokenizer = load(check, "regression", folder, AutoModelForSequenceClassification)
    score = pipeline("text-classification", model=model, tokenizer=tokenizer)
    worst, of_pipeline = 0.0, 0.0
    for _ in range(10):
        text = sentence(rng, "more")
        with torch.no_grad():
            value = model(**tokenizer(text, return_tensors="pt")).logits.item()
        ours = predict(program, folder, text)["value"]
        worst, of_pipeline = (
            max(worst, abs(ours - value)),
            max(of_pipeline, abs(ours - score([text])[0]["score"])),
        )
    check(
        model.config.problem_type == "regression" and of_pipeline <= TOLERANCE,
        "regression: the text-classification pipeline gives the "
        f"values of 10 texts, within {of_pipeline:.1e}",
    )
    check(worst <= TOLERANCE, f"regression: values of 10 texts differ by {worst:.1e}")


def check_tokens(check, program, folder, rng):
    model, tokenizer = load(check, "tokens", folder, AutoModelForTokenClassification)
    check(
        sorted(model.config.label2id) == ["B-PER", "B-SHIP", "O"],
        f"tokens: labels {model.config.label2id}",
    )
    same, worst, found = True, 0.0, 0
    for _ in range(10):
        words = sentence(rng, "Jim").split()
        text = " ".join(words)
        inputs = tokenizer(words, is_split_into_words=True, return_tensors="pt")
        with torch.no_grad():
            scores = model(**inputs).logits[0].softmax(-1)
        ids = inputs.word_ids()
        theirs = []
        for number, word in enumerate(words):
            best = scores[ids.index(number)].max(-1)
            label = model.config.id2label[best.indices.item()]
            start = len(" ".join(words[:number])) + (number > 0)
            if label != "O":
                theirs.append((label[2:], word, start, start + len(word), best.values.item()))
        ours = [
            (e["entity_group"], e["word"], e["start"], e["end"], e["score"])
            for e in predict(program, folder, text)
        ]
        same &= [entity[:4] for entity in ours] == [entity[:4] for entity in theirs]
        if same and ours:
            worst = max(
                worst, close([entity[4] for entity in ours], [entity[4] for entity in theirs])
            )
        found += len(theirs)
    check(
        same and found > 0 and worst <= TOLERANCE,
        f"tokens: the same {found} entities in 10 texts, scores differ by {worst:.1e}",
    )


def check_questions(check, program, folder, rng):
    model, tokenizer = load(check, "questions", folder, AutoModelForQuestionAnswering)
    answer = pipeline("question-answering", model=model, tokenizer=tokenizer)
    different = []
    contexts = [sentence(rng, "Jim") for _ in range(10)] + [CONTEXT]
    for context in contexts:
        ours = predict(program, folder, QUESTION, "--pair", context)[0]
        theirs = answer(question=QUESTION, context=context, max_answer_len=30, align_to_words=False)
        found = theirs[
            "answer"
        ].strip()  # SentencePiece's tokens start with the space; nystrom's answers do not
        start = theirs["start"] + theirs["answer"].index(found)
        if (ours["answer"], ours["start"], ours["end"]) != (found, start, start + len(found)):
            different.append((context, ours, theirs))
    check(
        not different,
        "questions: the question-answering pipeline finds the same "
        f"{len(contexts)} answers; others: {different or 'none'}",
    )


def check_choice(check, program, folder, rng):
    model, tokenizer = load(check, "choice", folder, AutoModelForMultipleChoice)
    worst, same = 0.0, True
    for _ in range(10):
        text, choices = (
            sentence(rng),
            [sentence(rng, "gold"), sentence(rng, "stone"), sentence(rng)],
        )
        rows = [tokenizer(text, choice, return_tensors="pt") for choice in choices]
        with torch.no_grad():  # one choice at a time: padding changes transformers' convolution
            logits = torch.cat(
                [
                    model(**{name: value[None] for name, value in row.items()}).logits[0]
                    for row in rows
                ]
            )
        ours = {
            guess["choice"]: guess["score"]
            for guess in predict(
                program, folder, text, *[x for c in choices for x in ("--choice", c)]
            )
        }
        worst = max(worst, close([ours[choice] for choice in choices], logits.softmax(-1).tolist()))
    check(worst <= TOLERANCE, f"choice: scores of 10 questions differ by {worst:.1e}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--program", default=ROOT / "build/release/nystrom")
    program = parser.parse_args().program
    check, rng = Checks(), random.Random(5)
    kinds = [
        ("classification", "tsv", ", columns: {text: text, label: label}", check_classification),
        ("regression", "tsv", ", columns: {text: text, label: label}", check_regression),
        ("tokens", "conll", "", check_tokens),
        ("questions", "json", ", stride: 16", check_questions),
        (
            "choice",
            "jsonl",
            ", columns: {text: text, choices: [endings], label: label}",
            check_choice,
        ),
    ]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "base.yaml").write_text(BASE.format(folder=folder, novel=NOVEL))
        nystrom(program, "pretrain", folder / "base.yaml", "--quiet")
        write_files(folder, rng)
        for kind, ending, more, compare in kinds:
            compare(check, program, train(program, folder, kind, ending, more), rng)
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
