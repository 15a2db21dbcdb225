"""The same number by every road: in training, by `nystrom evaluate`, from `nystrom predict`, and by
transformers on the export.

usage: check_same_numbers.py [--program build/release/nystrom]

For tokenizers of each kind (SentencePiece, Unigram, WordPiece, byte-level BPE, BPE) a small masked
language model with exact attention, which transformers runs at any length, is pretrained; each kind
of task of text starts from it. What metrics.jsonl records at the end, what evaluate and predict say
of the held-out file, and what transformers computes for it with AutoModel and AutoTokenizer must
agree within 1e-4. Last, what transformers makes of the checkpoints themselves: it must compute the
same, or refuse them."""

import json
import math
import random
import shutil
from collections import Counter
from pathlib import Path

import torch
from common import FIXTURES, from_json_lines, run, script, squad, to_json_lines
from transformers import (
    AutoConfig,
    AutoModelForMaskedLM,
    AutoModelForMultipleChoice,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    pipeline,
)

SMALL = FIXTURES / "tokenizers/small"
TOLERANCE = 1e-4
WORDS = "that with said have were they little like this very would been when which from about"
WORDS = WORDS.split()
ASKED = "which were they"
TOKENIZERS = {
    "SentencePiece": None,
    "Unigram": "unigram",
    "WordPiece": "wordpiece",
    "byte-level BPE": "byte_level",
    "BPE": "suffixes",
}
SIZES = (
    "hidden_size: 32, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: "
    "32, max_position_embeddings: 64, initializer_range: 0.2"
)
BASE = """
run_dir: base
model: {{{sizes}, {model}attention: {{kind: {kind}, num_landmarks: 8, conv_kernel_size: 3}}}}
tokenizer: {tokenizer}
data: {{train: [train.txt], validation: [dev.txt], documents: lines,
  sequence_length: 64, cache: cache}}
masking: {{probability: 0.3, mask: 1.0, random: 0.0}}
optimizer: {{learning_rate: 3.0e-3}}
training: {{steps: 20, batch_size: 16, micro_batch_size: 16, dtype: f32}}
logging: {{tensorboard: false}}
evaluation: {{every: 20}}
"""
TASK = """
run_dir: {run}
model: {{from: base}}
task: {{{task}, train: [{file}], validation: [{file}]}}
data: {{sequence_length: 64}}
optimizer: {{learning_rate: 3.0e-3}}
training: {{steps: 20, batch_size: 16, micro_batch_size: 16, dtype: f32}}
logging: {{tensorboard: false}}
evaluation: {{every: 20}}
"""


class Folder:
    """A folder in which the program runs, and its runs."""

    def __init__(self, program, path):
        self.program, self.path = Path(program).resolve(), path

    def run(self, *arguments):
        return run(self.program, *arguments, "--quiet", folder=self.path)

    def recorded(self, run):
        lines = from_json_lines((self.path / run / "metrics.jsonl").read_text())
        return {
            key.removeprefix("validation_"): value
            for line in lines
            for key, value in line.items()
            if key.startswith("validation_")
        }

    def evaluated(self, run, *arguments):
        return json.loads(self.run("evaluate", run, *arguments, "--json"))

    def predicted(self, run, file, top_k=10):
        return from_json_lines(self.run("predict", run, file, "--json", "--top-k", str(top_k)))

    def exported(self, run, cls):
        target = self.path / f"{run}-exported"
        self.run("export", run, target)
        return cls.from_pretrained(target).eval(), AutoTokenizer.from_pretrained(target)


def text_of(rng, least, most):
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(least, most)))


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def pearson(a, b):
    a, b = torch.tensor(a, dtype=torch.float64), torch.tensor(b, dtype=torch.float64)
    a, b = a - a.mean(), b - b.mean()
    return ((a * b).sum() / (a.norm() * b.norm())).item()


@torch.no_grad()
def logits_of(model, tokenizer, *texts, **options):
    return model(**tokenizer(*texts, return_tensors="pt", **options)).logits[0]


def of_probabilities(rows):
    """Accuracy and loss from (probabilities by label, the right label)."""
    return {
        "accuracy": mean(max(row, key=row.get) == right for row, right in rows),
        "loss": mean(-math.log(row[right]) for row, right in rows),
    }


# ---- Each kind of task: its file and examples, and its numbers from predictions and from ---------


def write_classes(path, rng):
    rows = [(text_of(rng, 2, 8), rng.choice(["bad", "fine", "good"])) for _ in range(48)]
    path.write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows))
    return rows


def classes_of_predictions(rows, predictions):
    return of_probabilities(
        [
            ({guess["label"]: guess["score"] for guess in each}, label)
            for each, (_, label) in zip(predictions, rows, strict=True)
        ]
    )


def classes_of_transformers(rows, model, tokenizer):
    names = model.config.id2label
    found = [
        dict(enumerate(logits_of(model, tokenizer, text).softmax(-1).tolist())) for text, _ in rows
    ]
    return of_probabilities(
        [
            ({names[i]: p for i, p in each.items()}, label)
            for each, (_, label) in zip(found, rows, strict=True)
        ]
    )


def write_values(path, rng):
    rows = [(text_of(rng, 2, 8), round(rng.random() * 4 - 2, 3)) for _ in range(48)]
    path.write_text("text\tlabel\n" + "".join(f"{text}\t{value}\n" for text, value in rows))
    return rows


def of_values(rows, values):
    truth = [value for _, value in rows]
    return {
        "pearson": pearson(truth, values),
        "mse": mean((a - b) ** 2 for a, b in zip(truth, values, strict=True)),
    }


def values_of_predictions(rows, predictions):
    return of_values(rows, [each["value"] for each in predictions])


def values_of_transformers(rows, model, tokenizer):
    return of_values(rows, [logits_of(model, tokenizer, text).item() for text, _ in rows])


def write_tags(path, rng):
    rows = [
        [(word, rng.choice(["long", "short"])) for word in text_of(rng, 2, 6).split()]
        for _ in range(48)
    ]
    path.write_text("\n".join("".join(f"{word} {label}\n" for word, label in row) for row in rows))
    return rows


def tags_of_predictions(rows, predictions):
    return {
        "accuracy": mean(
            guess["label"] == label
            for row, each in zip(rows, predictions, strict=True)
            for (_, label), guess in zip(row, each, strict=True)
        )
    }


def tags_of_transformers(rows, model, tokenizer):
    right = []
    # nystrom reads every word as if a space preceded it. Among these tokenizers only byte-level BPE
    # distinguishes that from a word at the start of a text.
    space = " " if "ByteLevel" in type(tokenizer.backend_tokenizer.pre_tokenizer).__name__ else ""
    for row in rows:
        inputs = tokenizer(
            [space + word for word, _ in row], is_split_into_words=True, return_tensors="pt"
        )
        with torch.no_grad():
            best = model(**inputs).logits[0].argmax(-1).tolist()
        ids = inputs.word_ids()
        right += [
            model.config.id2label[best[ids.index(number)]] == label
            for number, (_, label) in enumerate(row)
        ]
    return {"accuracy": mean(right)}


def write_questions(path, rng):
    rows = []
    for _ in range(48):
        before, answer = text_of(rng, 1, 8), text_of(rng, 1, 2)
        rows.append((f"{before} {answer} {text_of(rng, 1, 4)}", len(before) + 1, answer))
    path.write_text(squad((context, ASKED, answer, start) for context, start, answer in rows))
    return rows


def of_answers(rows, answers):
    """Exact matches, and F1 of the words."""
    f1 = []
    for (_, _, truth), answer in zip(rows, answers, strict=True):
        same = (Counter(truth.split()) & Counter(answer.split())).total()
        f1.append(2 * same / (len(truth.split()) + len(answer.split())))
    return {
        "exact_match": mean(
            answer == truth for (_, _, truth), answer in zip(rows, answers, strict=True)
        ),
        "f1": mean(f1),
    }


def answers_of_predictions(rows, predictions):
    return of_answers(rows, [each[0]["answer"] for each in predictions])


def answers_of_transformers(rows, model, tokenizer):
    """Those of the question-answering pipeline of version 4, which ranks as many as nystrom."""
    answer = pipeline("question-answering", model=model, tokenizer=tokenizer)
    found = [
        answer(question=ASKED, context=context, max_answer_len=30, top_k=5)
        for context, _, _ in rows
    ]
    return of_answers(rows, [answers[0]["answer"].strip() for answers in found])


def write_choices(path, rng):
    rows = [
        (
            text_of(rng, 1, 4),
            [text_of(rng, 2, 4) + " " + WORDS[i] for i in range(3)],
            rng.randrange(3),
        )
        for _ in range(48)
    ]
    keys = ("text", "endings", "label")
    path.write_text(to_json_lines(dict(zip(keys, row)) for row in rows))
    return rows


def choices_of_predictions(rows, predictions):
    return of_probabilities(
        [
            ({guess["choice"]: guess["score"] for guess in each}, choices[right])
            for each, (_, choices, right) in zip(predictions, rows, strict=True)
        ]
    )


def choices_of_transformers(rows, model, tokenizer):
    result = []
    for text, choices, right in rows:
        inputs = [tokenizer(text, choice, return_tensors="pt") for choice in choices]
        with torch.no_grad():  # one choice at a time: padding changes transformers' convolution
            logits = torch.cat(
                [
                    model(**{name: value[None] for name, value in each.items()}).logits[0]
                    for each in inputs
                ]
            )
        result.append((dict(zip(choices, logits.softmax(-1).tolist())), choices[right]))
    return of_probabilities(result)


TASKS = {
    "classification": (
        "tsv",
        "kind: classification, columns: {text: text, label: label}",
        write_classes,
        classes_of_predictions,
        classes_of_transformers,
        AutoModelForSequenceClassification,
    ),
    "regression": (
        "tsv",
        "kind: regression, columns: {text: text, label: label}",
        write_values,
        values_of_predictions,
        values_of_transformers,
        AutoModelForSequenceClassification,
    ),
    "tokens": (
        "conll",
        "kind: tokens, metric: accuracy",
        write_tags,
        tags_of_predictions,
        tags_of_transformers,
        AutoModelForTokenClassification,
    ),
    "questions": (
        "json",
        "kind: questions, stride: 8",
        write_questions,
        answers_of_predictions,
        answers_of_transformers,
        AutoModelForQuestionAnswering,
    ),
    "choice": (
        "jsonl",
        "kind: choice, columns: {text: text, choices: [endings], label: label}",
        write_choices,
        choices_of_predictions,
        choices_of_transformers,
        AutoModelForMultipleChoice,
    ),
}


def compare(check, name, roads):
    """`roads`: numbers by name, of each road; those that all have must agree."""
    shared = set.intersection(*(set(numbers) for numbers in roads.values()))
    worst = max(
        abs(numbers[key] - roads["training"][key]) for numbers in roads.values() for key in shared
    )
    values = ", ".join(f"{key} {roads['training'][key]:.4f}" for key in sorted(shared))
    check(
        shared and worst <= TOLERANCE, f"{name}: {values}: by {len(roads)} roads within {worst:.1e}"
    )


def check_task(check, folder, tokenizer, name, rng):
    ending, options, write, of_predictions, of_transformers, cls = TASKS[name]
    file = f"{name}.{ending}"
    # Of answers in whole words as many are added up as are ranked, in evaluations five.
    top_k = 5 if name == "questions" else 10
    rows = write(folder.path / file, rng)
    (folder.path / f"{name}.yaml").write_text(TASK.format(run=name, task=options, file=file))
    folder.run("finetune", f"{name}.yaml")
    roads = {
        "training": folder.recorded(name),
        "evaluate": folder.evaluated(name, "--file", file),
        "predict": of_predictions(rows, folder.predicted(name, file, top_k)),
        "transformers": of_transformers(rows, *folder.exported(name, cls)),
    }
    compare(check, f"{tokenizer}, {name}", roads)


def check_masks(check, folder, name):
    """transformers gets the text with a mask for each word in turn; so does predict."""
    evaluated = folder.evaluated("base", "--text", "dev.txt")
    roads = {"training": folder.recorded("base"), "evaluate": evaluated}
    compare(check, f"{name}, masked LM", roads)
    model, tokenizer = folder.exported("base", AutoModelForMaskedLM)
    texts = [
        " ".join(
            tokenizer.mask_token if place == number else word
            for place, word in enumerate(line.split())
        )
        for number, line in enumerate((folder.path / "dev.txt").read_text().splitlines()[:4])
    ]
    (folder.path / "masked.txt").write_text("".join(text + "\n" for text in texts))
    worst, same = 0.0, True
    for text, ours in zip(texts, folder.predicted("base", "masked.txt"), strict=True):
        inputs = tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            logits = model(**inputs).logits[0]
        masked = inputs["input_ids"][0] == tokenizer.mask_token_id
        theirs = logits[masked][0].softmax(-1)
        same &= theirs.topk(10).indices.tolist() == [guess["token"] for guess in ours]
        worst = max(worst, *(abs(guess["score"] - theirs[guess["token"]].item()) for guess in ours))
    check(
        same and worst <= TOLERANCE,
        f"{name}, masked LM: predict and transformers fill "
        f"{len(texts)} masks alike, scores within {worst:.1e}",
    )


def pretrain(program, path, tokenizer, rng, kind="softmax", model=""):
    folder = Folder(program, path)
    path.mkdir()
    if tokenizer:
        shutil.copytree(
            SMALL / tokenizer, path / "tokenizer", ignore=shutil.ignore_patterns("expected.json")
        )
    for file, lines in (("train.txt", 300), ("dev.txt", 20)):
        (path / file).write_text("".join(text_of(rng, 5, 12) + "\n" for _ in range(lines)))
    named = "{path: tokenizer}" if tokenizer else "{train: {vocab_size: 40}}"
    (path / "base.yaml").write_text(
        BASE.format(tokenizer=named, kind=kind, model=model, sizes=SIZES)
    )
    folder.run("pretrain", "base.yaml")
    return folder


def check_checkpoint(check, program, path, name, kind, model, same):
    """A checkpoint as it lies there: transformers computes what nystrom does, or refuses it by its
    model_type."""
    folder = pretrain(program, path, "wordpiece", random.Random(1), kind, model)
    checkpoint = path / "base/checkpoints/step-20"
    try:
        AutoConfig.from_pretrained(checkpoint)
        loads = True
    except ValueError as error:
        loads = "nystrom" not in str(error)
    check(
        loads == same, f"checkpoint with {name}: transformers {'loads' if loads else 'refuses'} it"
    )
    if not same:
        return
    model = AutoModelForMaskedLM.from_pretrained(checkpoint).eval()
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    text = "that would [MASK] very little"
    theirs = logits_of(model, tokenizer, text).softmax(-1)[3]
    worst = max(
        abs(guess["score"] - theirs[guess["token"]].item())
        for guess in json.loads(folder.run("predict", "base", text, "--json"))
    )
    check(
        worst <= TOLERANCE,
        f"checkpoint with {name}: transformers fills a mask as predict does, within {worst:.1e}",
    )


@script(__doc__)
def main(arguments, check, root):
    program, rng = arguments.program, random.Random(7)
    for name, tokenizer in TOKENIZERS.items():
        folder = pretrain(program, root / name, tokenizer, rng)
        check_masks(check, folder, name)
        for task in TASKS:
            check_task(check, folder, name, task, rng)
    for name, kind, model, same in [
        ("exact attention", "softmax", "", True),
        ("Nystrom attention", "nystrom", "", False),
        ("linear attention", "linear", "", False),
        ("pre-LN", "softmax", "norm: pre, ", False),
        ("no positions", "softmax", "positions: none, ", False),
    ]:
        check_checkpoint(check, program, root / f"checkpoint {name}", name, kind, model, same)
