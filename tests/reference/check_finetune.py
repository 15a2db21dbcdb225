"""Compares fine-tuned, exported models with what transformers makes of them.

usage: check_finetune.py [--program build/release/nystrom]

Trains a toy of each kind of text task with Nyström attention, exports it, and loads the folder with
the Auto class of its task and AutoTokenizer, in transformers 4.57.1 or 5.x: no weight may be
initialised anew or be left over, labels must be the task's, and what transformers predicts for
texts it was not trained on, alone and in padded batches, must be what `nystrom predict` says,
probabilities within 1e-4. Last, 50 steps of Trainer must follow those of `nystrom finetune`."""

import json
import random

import torch
from common import NOVEL, from_json_lines, run, script, squad, to_json_lines, trainer_losses
from transformers import (
    AutoModelForMultipleChoice,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    pipeline,
)
from transformers.pipelines import SUPPORTED_TASKS

TOLERANCE = 1e-4
TRUST = {"trust_remote_code": True}
WORDS = "the sea was calm and old ships sailed home under pale stars while men sang of gold".split()
BASE = """
run_dir: {folder}/base
model: {{hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 64,
  max_position_embeddings: 64, initializer_range: 0.1,
         attention: {{num_landmarks: 5, conv_kernel_size: 5}}}}
tokenizer: {{train: {{vocab_size: 1000}}}}
data: {{train: ["{novel}"], validation: ["{novel}"], sequence_length: 64, cache: "{folder}/cache"}}
schedule: {{warmup_steps: 1}}
training: {{steps: 5, batch_size: 8, micro_batch_size: 8, dtype: f32}}
"""
RUN = """
run_dir: {folder}/{name}
model: {{from: {folder}/base}}
task: {{kind: {kind}, train: ["{folder}/{name}.{ending}"],
  validation: ["{folder}/{name}.{ending}"]{more}}}
optimizer: {{learning_rate: 2.0e-3}}
training: {{steps: 40, batch_size: 16, micro_batch_size: 16, dtype: f32}}
logging: {{tensorboard: false}}
"""
CURVE = """
run_dir: {folder}/{name}-trainer
model: {{from: {start}, hidden_dropout_prob: 0}}
task: {{kind: classification, train: ["{folder}/{file}"], validation: ["{folder}/{file}"],
  multi_label: {several}}}
optimizer: {{learning_rate: 1.0e-3, weight_decay: 0.01}}
schedule: {{warmup_steps: 0, decay: constant}}
training: {{steps: {steps}, batch_size: 64, micro_batch_size: 64, dtype: f32}}
evaluation: {{every: 1000}}
logging: {{every: 1, tensorboard: false}}
"""
STEPS = 50
PIPELINE = "question-answering" in SUPPORTED_TASKS  # 5.x has none
QUESTION = "where are the ships?"
CONTEXT = "Under pale stars, men sang; the old ships sailed home over a calm sea."


def sentence(rng, *wanted):
    words = [rng.choice(WORDS) for _ in range(rng.randint(2, 9))]
    for word in wanted:
        words.insert(rng.randrange(len(words) + 1), word)
    return " ".join(words)


def write_files(folder, rng):
    own, tags = random.Random(6), {"Jim": "B-PER", "ships": "B-SHIP"}
    classes, sets, values, tagged, choices = [], [], [], [], []
    for _ in range(64):
        label = rng.choice(["bad", "fine", "good"])
        classes.append(f"{sentence(rng, label)}\t{label}\n")
        labels = own.sample(["bad", "fine", "good"], own.randrange(4))
        sets.append({"text": sentence(own, *labels), "label": labels})
        value = rng.random() * 4 - 2
        values.append(f"{sentence(rng, 'more' if value > 0 else 'less')}\t{value}\n")
        words = sentence(rng, "Jim").split()
        tagged.append("".join(f"{word} {tags.get(word, 'O')}\n" for word in words))
        right = rng.randrange(3)
        endings = [sentence(rng, "gold" if i == right else "stone") for i in range(3)]
        choices.append({"text": sentence(rng), "endings": endings, "label": right})
    contexts = [sentence(rng, "Jim") for _ in range(64)]
    rows = [(context, "who is it?", "Jim", context.index("Jim")) for context in contexts]
    for name, text in {
        "classification.tsv": "text\tlabel\n" + "".join(classes),
        "label_sets.jsonl": to_json_lines(sets),
        "regression.tsv": "text\tlabel\n" + "".join(values),
        "tokens.conll": "\n".join(tagged),
        "questions.json": squad(rows),
        "choice.jsonl": to_json_lines(choices),
    }.items():
        (folder / name).write_text(text)


def train(program, folder, name, ending, more):
    config = folder / f"{name}.yaml"
    kind = "classification" if name == "label_sets" else name
    config.write_text(RUN.format(folder=folder, name=name, kind=kind, ending=ending, more=more))
    run(program, "finetune", config, "--quiet")
    exported = folder / f"{name}-exported"
    run(program, "export", folder / name, exported, "--quiet")
    return exported


def load(check, kind, folder, cls):
    model, report = cls.from_pretrained(folder, output_loading_info=True, **TRUST)
    wrong = {key: value for key, value in report.items() if value}
    check(not wrong, f"{kind}: loads in transformers, initialised or left over: {wrong or 'none'}")
    return model.eval(), AutoTokenizer.from_pretrained(folder, **TRUST)


def predict(program, folder, *arguments):
    return json.loads(run(program, "predict", folder, *arguments, "--json", "--quiet"))


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
    texts = [sentence(rng, "fine") for _ in range(10)]
    for text, theirs in zip(texts, classify(texts, batch_size=5)):
        ours = predict(program, folder, text)
        same &= [guess["label"] for guess in ours] == [guess["label"] for guess in theirs]
        worst = max(worst, close([g["score"] for g in ours], [g["score"] for g in theirs]))
    check(
        same and worst <= TOLERANCE,
        "classification: the text-classification pipeline, in padded batches, says the same of "
        f"10 texts, scores differ by {worst:.1e}",
    )


def check_label_sets(check, program, folder, rng):
    model, tokenizer = load(check, "label_sets", folder, AutoModelForSequenceClassification)
    problem = model.config.problem_type
    check(problem == "multi_label_classification", f"label sets: problem_type {problem}")
    classify = pipeline("text-classification", model=model, tokenizer=tokenizer, top_k=None)
    own = random.Random(7)
    worst, same, texts = 0.0, True, [sentence(own, "fine", "bad") for _ in range(10)]
    for text, theirs in zip(texts, classify(texts, batch_size=5)):
        ours = predict(program, folder, text, "--set", "task.threshold=0")
        same &= [guess["label"] for guess in ours] == [guess["label"] for guess in theirs]
        worst = max(worst, close([g["score"] for g in ours], [g["score"] for g in theirs]))
        half = [guess for guess in ours if guess["score"] >= 0.5]
        same &= predict(program, folder, text) == half
    check(
        same and worst <= TOLERANCE,
        "label sets: the text-classification pipeline says the same of 10 texts, scores differ by "
        f"{worst:.1e}",
    )
    rows = label_set_rows(folder.parent, model)
    inputs = tokenizer([text for text, _ in rows], padding=True, return_tensors="pt")
    with torch.no_grad():
        theirs = model(**inputs, labels=torch.stack([labels for _, labels in rows])).loss.item()
    file = folder.parent / "label_sets.jsonl"
    options = ("--file", file, "--set", "task.multi_label=true", "--json", "--quiet")
    ours = json.loads(run(program, "evaluate", folder, *options))["loss"]
    check(abs(ours - theirs) <= 1e-6, f"label sets: the loss differs by {abs(ours - theirs):.1e}")


def label_set_rows(folder, model):
    """Texts and their labels, as transformers takes them."""
    rows = from_json_lines((folder / "label_sets.jsonl").read_text())
    names = model.config.label2id
    return [(r["text"], torch.tensor([float(n in r["label"]) for n in names])) for r in rows]


def check_trainer(check, program, exported, rng):
    """Both programs train the exported classifier further, on all samples in every step."""
    folder, name = exported.parent, exported.name.removesuffix("-exported")
    several = name == "label_sets"
    config, file = folder / f"{name}-trainer.yaml", f"{name}.{'jsonl' if several else 'tsv'}"
    config.write_text(
        CURVE.format(
            folder=folder, name=name, file=file, start=exported, steps=STEPS,
            several=str(several).lower(),
        )
    )  # fmt: skip
    run(program, "finetune", config, "--quiet")
    lines = from_json_lines((folder / f"{name}-trainer" / "metrics.jsonl").read_text())
    ours = [line["loss"] for line in lines if "loss" in line]

    model = AutoModelForSequenceClassification.from_pretrained(
        exported, hidden_dropout_prob=0.0, **TRUST
    )
    tokenizer = AutoTokenizer.from_pretrained(exported, **TRUST)
    if several:
        rows = label_set_rows(folder, model)
        labels = torch.stack([labels for _, labels in rows])
    else:
        rows = [line.split("\t") for line in (folder / file).read_text().splitlines()[1:]]
        labels = torch.tensor([model.config.label2id[label] for _, label in rows])
    inputs = tokenizer([text for text, _ in rows], padding=True, return_tensors="pt")
    data = [
        {name: value[i] for name, value in inputs.items()} | {"labels": labels[i]}
        for i in range(len(rows))
    ]
    theirs = trainer_losses(
        model,
        data,
        folder / "hf-trainer",
        max_steps=STEPS,
        per_device_train_batch_size=len(rows),
        learning_rate=1e-3,
        weight_decay=0.01,
        lr_scheduler_type="constant",
    )
    # Trainer logs four or more digits.
    worst = max(abs(a - b) / b for a, b in zip(ours, theirs, strict=True) if b > 0.01)
    check(
        worst <= 0.01 and theirs[-1] < 0.5 * theirs[0],
        f"trainer of {name}: the losses of {len(theirs)} steps, {theirs[0]:.3f} to {theirs[-1]:.3f}, "
        f"differ by {worst:.1e} of the loss",
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
        worst = max(worst, abs(ours - value))
        of_pipeline = max(of_pipeline, abs(ours - score([text])[0]["score"]))
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
    find = pipeline(
        "token-classification", model=model, tokenizer=tokenizer, aggregation_strategy="first"
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
        same &= [e["entity_group"] for e in find(text)] == [entity[0] for entity in ours]
        if same and ours:
            worst = max(worst, close([e[4] for e in ours], [e[4] for e in theirs]))
        found += len(theirs)
    check(
        same and found > 0 and worst <= TOLERANCE,
        f"tokens: the same {found} entities in 10 texts, scores differ by {worst:.1e}",
    )


def check_questions(check, program, folder, rng):
    model, tokenizer = load(check, "questions", folder, AutoModelForQuestionAnswering)
    if not PIPELINE:
        return print("questions: this version of transformers has no pipeline to compare with")
    answer = pipeline("question-answering", model=model, tokenizer=tokenizer)
    different, worst = [], 0.0
    contexts = [sentence(rng, "Jim") for _ in range(10)] + [CONTEXT]
    for context in contexts:
        ours = predict(program, folder, QUESTION, "--pair", context)[0]
        theirs = answer(question=QUESTION, context=context, max_answer_len=30)
        # SentencePiece's tokens start with the space; nystrom's answers do not.
        found = theirs["answer"].strip()
        start = theirs["start"] + theirs["answer"].index(found)
        worst = max(worst, abs(ours["score"] - theirs["score"]))
        if (ours["answer"], ours["start"], ours["end"]) != (found, start, start + len(found)):
            different.append((context, ours, theirs))
    check(
        not different and worst <= TOLERANCE,
        f"questions: the question-answering pipeline finds the same {len(contexts)} answers, "
        f"scores differ by {worst:.1e}; others: {different or 'none'}",
    )


def check_choice(check, program, folder, rng):
    model, tokenizer = load(check, "choice", folder, AutoModelForMultipleChoice)
    worst = 0.0
    for _ in range(10):
        text = sentence(rng)
        choices = [sentence(rng, "gold"), sentence(rng, "stone"), sentence(rng)]
        rows = tokenizer([text] * 3, choices, padding=True, return_tensors="pt")
        with torch.no_grad():
            logits = model(**{name: value[None] for name, value in rows.items()}).logits[0]
        given = [word for choice in choices for word in ("--choice", choice)]
        guesses = predict(program, folder, text, *given)
        ours = {guess["choice"]: guess["score"] for guess in guesses}
        worst = max(worst, close([ours[choice] for choice in choices], logits.softmax(-1).tolist()))
    check(worst <= TOLERANCE, f"choice: scores of 10 questions differ by {worst:.1e}")


@script(__doc__)
def main(arguments, check, folder):
    program, rng = arguments.program, random.Random(5)
    columns = ", columns: {text: text, label: label}"
    choices = ", columns: {text: text, choices: [endings], label: label}"
    kinds = [
        ("classification", "tsv", columns, check_classification),
        ("label_sets", "jsonl", ", multi_label: true", check_label_sets),
        ("regression", "tsv", columns, check_regression),
        ("tokens", "conll", "", check_tokens),
        ("questions", "json", ", stride: 16", check_questions),
        ("choice", "jsonl", choices, check_choice),
    ]
    (folder / "base.yaml").write_text(BASE.format(folder=folder, novel=NOVEL))
    run(program, "pretrain", folder / "base.yaml", "--quiet")
    write_files(folder, rng)
    for kind, ending, more, compare in kinds:
        compare(check, program, train(program, folder, kind, ending, more), rng)
    for name in ("classification", "label_sets"):
        check_trainer(check, program, folder / f"{name}-exported", rng)
