"""Compares the data side of tasks with the reference implementations.

usage: check_tasks.py [--tools build/release] [--seed N] [--golden
tests/fixtures/tasks/metrics.json]

Metrics: scikit-learn, scipy, seqeval and the SQuAD evaluation of transformers on random and on
hand-made cases. Encoding: transformers' fast ALBERT tokenizer on sentences of the bundled novels:
pairs cut longest first, words, windows of questions with their answers. Feature files: h5py. With
--golden a selection of the metrics' cases and their reference values is written instead, for the
tests in C++."""

import gzip
import itertools
import json
import math
import random
import string
from pathlib import Path

import h5py
import numpy
import scipy.stats
import seqeval.metrics
import sklearn.metrics
from common import FIXTURES, NOVELS, ROOT, from_json_lines, run, script, squad, to_json_lines
from transformers import AutoTokenizer
from transformers.data.metrics import squad_metrics

ALBERT = FIXTURES / "tokenizers/albert"

# ---- Metrics  ------------------------------------------------------------------------------------


def class_cases(rng, count):
    hand_made = [
        ([0], [0]),
        ([1], [0]),
        ([0, 0], [0, 0]),
        ([1, 1], [1, 1]),
        ([0, 1], [1, 0]),
        ([0, 1, 1], [1, 1, 1]),
        ([1, 1, 1], [0, 1, 0]),
        ([0, 0, 0], [0, 1, 0]),
        ([0, 1, 2], [2, 1, 0]),
        ([5, 5, 3], [5, 3, 9]),
    ]
    for truth, predicted in hand_made:
        yield {"kind": "classes", "truth": truth, "predicted": predicted}
    for _ in range(count):
        classes, size = rng.randrange(1, 6), rng.randrange(1, 60)
        truth = [rng.randrange(classes) for _ in range(size)]
        predicted = [t if rng.random() < 0.6 else rng.randrange(classes) for t in truth]
        yield {"kind": "classes", "truth": truth, "predicted": predicted}


def class_metrics(case):
    truth, predicted = case["truth"], case["predicted"]
    binary = [[int(label == 1) for label in labels] for labels in (truth, predicted)]
    precision, recall, f1, _ = sklearn.metrics.precision_recall_fscore_support(
        *binary, average="binary", zero_division=0
    )
    return {
        "accuracy": sklearn.metrics.accuracy_score(truth, predicted),
        "precision": precision,
        "recall": recall,
        "f1": f1,
        "f1_macro": sklearn.metrics.f1_score(truth, predicted, average="macro", zero_division=0),
        "matthews": sklearn.metrics.matthews_corrcoef(truth, predicted),
    }


def label_set_cases(rng, count):
    hand_made = [  # columns: labels
        ([[1]], [[1]], [[0.5]]),
        ([[0]], [[0]], [[0.5]]),
        ([[0, 0], [0, 0]], [[0, 1], [0, 0]], [[0, 1], [0, 0]]),
        ([[1, 1], [1, 1]], [[0, 0], [0, 0]], [[1, 1], [1, 1]]),
        ([[1, 0, 1], [0, 0, 1]], [[1, 0, 1], [0, 0, 1]], [[2, 0, 1], [1, 0, 2]]),
    ]
    rows = list(hand_made)
    for _ in range(count):
        labels, size, ties = rng.randrange(1, 8), rng.randrange(1, 40), rng.random() < 0.5
        draw = (lambda: float(rng.randrange(-2, 3))) if ties else (lambda: rng.gauss(0, 2))
        scores = [[draw() for _ in range(labels)] for _ in range(size)]
        truth = [[int(s + rng.gauss(0, 2) > 1) for s in row] for row in scores]
        rows.append((truth, [[int(s >= 0) for s in row] for row in scores], scores))
    for row in rows:
        flat = [[value for each in part for value in each] for part in row]
        names = {"truth": flat[0], "predicted": flat[1], "scores": flat[2]}
        yield {"kind": "label_sets", "labels": len(row[0][0]), **names}


def label_set_metrics(case):
    names = ("truth", "predicted", "scores")
    truth, predicted, scores = (numpy.array(case[n]).reshape(-1, case["labels"]) for n in names)
    precisions = [
        sklearn.metrics.average_precision_score(truth[:, i], scores[:, i])
        for i in range(case["labels"])
    ]
    f1 = {
        f"f1_{average}": sklearn.metrics.f1_score(
            # A column of its own keeps one label from being read as two classes.
            numpy.pad(truth, ((0, 0), (0, 1))) if case["labels"] == 1 else truth,
            numpy.pad(predicted, ((0, 0), (0, 1))) if case["labels"] == 1 else predicted,
            labels=list(range(case["labels"])),
            average=average,
            zero_division=0,
        )
        for average in ("micro", "macro")
    }
    return f1 | {
        "mean_average_precision": float(numpy.mean(precisions)),
        "exact_match": float(sklearn.metrics.accuracy_score(truth, predicted)),
    }


def value_cases(rng, count):
    hand_made = [
        ([1, 2], [2, 4]),
        ([1, 2, 3], [3, 2, 1]),
        ([1, 1, 1], [1, 2, 3]),
        ([1, 2, 3], [5, 5, 5]),
        ([1, 1, 2, 2], [1, 2, 1, 2]),
        ([0, 0, 0, 1], [0, 0, 1, 1]),
    ]
    for truth, predicted in hand_made:
        yield {"kind": "values", "truth": truth, "predicted": predicted}
    for _ in range(count):
        size, ties = rng.randrange(2, 80), rng.random() < 0.5
        draw = (lambda: rng.randrange(6)) if ties else (lambda: rng.gauss(2.5, 3))
        yield {
            "kind": "values",
            "truth": [float(draw()) for _ in range(size)],
            "predicted": [float(draw()) for _ in range(size)],
        }


def value_metrics(case):
    values = {
        "pearson": scipy.stats.pearsonr(case["truth"], case["predicted"]).statistic,
        "spearman": scipy.stats.spearmanr(case["truth"], case["predicted"]).statistic,
    }
    return {name: None if math.isnan(value) else float(value) for name, value in values.items()}


ANSWER_PARTS = (
    "the¦The¦a¦an¦theory¦A.¦U.S.¦US¦1,000¦1000¦don't¦caf\u00e9¦CAF\u00c9¦a\u2013b¦\u00c5land¦"
    "a\u0301¦\u0130stanbul¦stra\u00dfe¦\u00bd¦\u2163¦a\u00a0b¦x_a_y¦\u6771\u4eac¦$5¦(the)¦-¦"
    "the-end¦\u2014"
).split("¦")


def answer_cases(rng, count):
    hand_made = [
        (["the cat"], "The  Cat!"),
        (["cat"], ""),
        ([""], ""),
        ([], ""),
        ([], "cat"),
        (["the"], "a"),
        (["a b c", "d"], "d"),
        (["x x y"], "x y y"),
        (["\u03a3"], "\u03c3"),
        (["1,000"], "1000"),
    ]
    for truth, predicted in hand_made:
        yield {"kind": "answers", "truth": truth, "predicted": predicted}

    def text():
        return rng.choice([" ", "  ", ""]).join(
            rng.choice(ANSWER_PARTS) for _ in range(rng.randrange(0, 6))
        )

    for _ in range(count):
        yield {
            "kind": "answers",
            "truth": [text() for _ in range(rng.randrange(1, 4))],
            "predicted": text(),
        }


def answer_metrics(case):
    truths = [t for t in case["truth"] if squad_metrics.normalize_answer(t)] or [""]
    predicted = case["predicted"]
    return {
        "exact": max(squad_metrics.compute_exact(truth, predicted) for truth in truths),
        "f1": max(squad_metrics.compute_f1(truth, predicted) for truth in truths),
        "normalized": squad_metrics.normalize_answer(predicted),
    }


def entity_cases(rng, count):
    hand_made = [
        ([["O", "O"]], [["O", "O"]]),
        ([["B-X"]], [["O"]]),
        ([["O"]], [["B-X"]]),
        ([["I-X", "I-X", "B-X"]], [["B-X", "I-X", "I-X"]]),
        ([["B-X", "I-Y"]], [["I-X", "I-Y"]]),
        ([["B-X", "E-X"], ["S-Y"]], [["I-X", "I-X"], ["B-Y"]]),
    ]
    for truth, predicted in hand_made:
        yield {"kind": "entities", "truth": truth, "predicted": predicted}
    for _ in range(count):
        letters = rng.choice(["I", "BI", "BIES"])
        tags = ["O"] + [f"{letter}-{kind}" for letter in letters for kind in ["PER", "LOC", "A-B"]]
        truth = [
            [rng.choice(tags) for _ in range(rng.randrange(1, 12))]
            for _ in range(rng.randrange(1, 8))
        ]
        predicted = [
            [tag if rng.random() < 0.7 else rng.choice(tags) for tag in sentence]
            for sentence in truth
        ]
        yield {"kind": "entities", "truth": truth, "predicted": predicted}


def entity_metrics(case):
    truth, predicted = case["truth"], case["predicted"]
    return {
        "precision": seqeval.metrics.precision_score(truth, predicted, zero_division=0),
        "recall": seqeval.metrics.recall_score(truth, predicted, zero_division=0),
        "f1": seqeval.metrics.f1_score(truth, predicted, zero_division=0),
        "accuracy": seqeval.metrics.accuracy_score(truth, predicted),
    }


METRICS = {
    "classes": (class_cases, class_metrics),
    "values": (value_cases, value_metrics),
    "answers": (answer_cases, answer_metrics),
    "entities": (entity_cases, entity_metrics),
    "label_sets": (label_set_cases, label_set_metrics),
}


def close(ours, theirs):
    if isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(close(ours[key], theirs[key]) for key in theirs)
    if isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(close, ours, theirs))
    if theirs is None or ours is None or isinstance(theirs, str):
        return ours == theirs
    return abs(ours - theirs) <= 1e-12


def check_metrics(check, tool, rng):
    for kind, (cases, reference) in METRICS.items():
        cases = list(cases(rng, 1000))
        ours = from_json_lines(run(tool, "metrics", given=to_json_lines(cases)))
        different = [i for i, case in enumerate(cases) if not close(ours[i], reference(case))]
        check(not different, f"metrics of {kind}: {len(cases)} cases, {len(different)} differ")
        for i in different[:3]:
            print("  ", cases[i], ours[i], reference(cases[i]))


def write_golden(path, rng):
    golden = []
    for cases, reference in METRICS.values():
        golden += [case | {"expected": reference(case)} for case in cases(rng, 12)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(case, default=float) + "\n" for case in golden))


# ---- Encoding  -----------------------------------------------------------------------------------


def encoded(tool, task, tokenizer, length):
    return from_json_lines(run(tool, "encode", json.dumps(task), tokenizer, length))


def report(check, name, different):
    check(not any(different), f"{name}: {len(different)} examples, {sum(different)} differ")


def check_texts(check, tool, tokenizer, folder, sentences, rng):
    for pair in [False, True]:
        for length in [16, 33, 64]:
            rows = [
                {"text": rng.choice(sentences), "pair": rng.choice(sentences), "label": str(i % 2)}
                for i in range(1000)
            ]
            (folder / "rows.jsonl").write_text(to_json_lines(rows))
            task = {
                "kind": "classification",
                "train": [str(folder / "rows.jsonl")],
                "columns": {"pair": "pair"} if pair else {},
            }
            ours = encoded(tool, task, folder / "albert", length)
            different = []
            for sample, row in zip(ours, rows, strict=True):
                texts = [row["text"], row["pair"]] if pair else [row["text"]]
                theirs = tokenizer(*texts, truncation="longest_first", max_length=length)
                row = {"ids": theirs["input_ids"], "types": theirs["token_type_ids"]}
                different.append(sample["rows"] != [row])
            report(check, f"{'pairs' if pair else 'texts'} of {length} tokens", different)


def check_words(check, tool, tokenizer, folder, sentences, rng):
    rows = [sentence.split() for sentence in rng.sample(sentences, 1000)]
    text = "".join(
        "".join(f"{word}\t{'BI'[i % 2]}-X\n" for i, word in enumerate(words)) + "\n"
        for words in rows
    )
    (folder / "words.conll").write_text(text)
    task = {"kind": "tokens", "train": [str(folder / "words.conll")]}
    ours = encoded(tool, task, folder / "albert", 32)
    different = []
    for sample, words in zip(ours, rows, strict=True):
        theirs = tokenizer(words, is_split_into_words=True, truncation=True, max_length=32)
        places = theirs.word_ids()
        starts = [places.index(word) if word in places else -1 for word in range(len(words))]
        same = sample["rows"][0]["ids"] == theirs["input_ids"] and sample["word_starts"] == starts
        different.append(not same)
    report(check, "words of 32 tokens", different)


def expected_span(offsets, text, begin):
    """First and last token that share a character with the answer; none unless all of it is
    there."""
    end = begin + len(text)
    places = [i for i, (first, last) in offsets if first < end and last > begin and first < last]
    found = dict(offsets)
    covered = places and found[places[0]][0] <= begin and found[places[-1]][1] >= end
    return (places[0], places[-1]) if covered else (0, 0)


def check_questions(check, tool, tokenizer, folder, sentences, rng):
    questions = []
    for _ in range(300):
        context = " ".join(rng.sample(sentences, rng.randrange(1, 9)))
        words = context.split()
        first = rng.randrange(len(words))
        text = " ".join(words[first : first + rng.randrange(1, 5)])
        text = text.strip(string.punctuation + " ") or words[first]
        questions.append((context, rng.choice(sentences)[:60], text, context.index(text)))
    (folder / "questions.json").write_text(squad(questions))
    task = {
        "kind": "questions",
        "stride": 24,
        "whole_words": False,
        "train": [str(folder / "questions.json")],
    }
    ours = encoded(tool, task, folder / "albert", 96)
    different, windows = [], 0
    for number, (context, question, *answer) in enumerate(questions):
        mine = [sample for sample in ours if sample["example"] == number]
        theirs = tokenizer(
            question,
            context,
            truncation="only_second",
            max_length=96,
            stride=24,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        same = len(mine) == len(theirs["input_ids"])
        for i, sample in enumerate(mine if same else []):
            windows += 1
            parts = enumerate(zip(theirs["offset_mapping"][i], theirs.sequence_ids(i)))
            offsets = [(k, offset) for k, (offset, part) in parts if part == 1]
            in_bytes = [[len(context[:end].encode()) for end in offset] for _, offset in offsets]
            # A bare word mark: Hugging Face's range covers the space or nothing, and nystrom's is
            # empty.
            spans = [
                (a, b)
                for a, b in zip(sample["places"], in_bytes, strict=True)
                if a[0] < a[1] and context.encode()[b[0] : b[1]].strip()
            ]
            same &= sample["rows"][0]["ids"] == theirs["input_ids"][i]
            same &= sample["context_begin"] == offsets[0][0]
            same &= all(
                context.encode()[a[0] : a[1]].strip() == context.encode()[b[0] : b[1]].strip()
                for a, b in spans
            )
            same &= (sample["start"], sample["end"]) == expected_span(offsets, *answer)
        different.append(not same)
    report(check, f"questions in {windows} windows", different)


def check_encoding(check, tools, rng, folder):
    sentences = []
    for path in NOVELS:
        with gzip.open(path, "rt", encoding="utf8") as file:
            sentences += [
                part.strip() for line in file for part in line.split(". ") if 20 < len(part) < 400
            ]
    (folder / "albert").mkdir()
    run(tools / "tokenizer_tool", "export", ALBERT / "spiece.model", folder / "albert")
    tokenizer = AutoTokenizer.from_pretrained(folder / "albert", model_max_length=10**9)
    for each in (check_texts, check_words, check_questions):
        each(check, tools / "task_tool", tokenizer, folder, sentences, rng)


# ---- Features  -----------------------------------------------------------------------------------


def check_features(check, tool, rng, path):
    chunks = {"chunks": (3, 2, 5)}
    options = [
        {},
        {"chunks": True},
        {"compression": "gzip"},
        {"compression": "gzip", "shuffle": True, "fletcher32": True},
        {"compression": "lzf"},
        {"compression": "lzf", "shuffle": True, "fletcher32": True},
        {"scaleoffset": 3},
        {"maxshape": (None, None, None)},
        chunks,
        chunks | {"fletcher32": True},
        {"chunks": (1, 1, 1), "compression": "gzip"},
    ]
    files = [
        {},
        {"libver": ("earliest", "v110")},
        {"libver": ("v110", "v110")},
        {"track_order": True},
        {"userblock_size": 512},
        {"fs_strategy": "page"},
    ]
    different = []
    for option, form in itertools.product(options, files):
        for dtype in ["f2", "f4", "f8", ">f4", "g", "i2", ">i4", "u1"]:
            if dtype in ["f2", "g"] and "scaleoffset" in option:
                continue  # not in HDF5
            target = rng.choice(["i1", "u2", "i4", ">i8", "u8", "f4", "f8"])
            samples, steps, width = (rng.randrange(1, 9) for _ in range(3))
            values = numpy.random.default_rng(rng.randrange(2**32))
            features = numpy.abs(10 * values.normal(size=(samples, steps, width))).astype(dtype)
            lengths = [rng.randrange(1, steps + 1) for _ in range(samples)]
            targets = numpy.array([rng.randrange(5) for _ in range(samples)], target)
            limits = dict(option)
            if type(option.get("chunks")) is tuple:
                limits["chunks"] = tuple(map(min, option["chunks"], features.shape))
            if "scaleoffset" in option and features.dtype.kind in "iu":
                limits["scaleoffset"] = 0
            with h5py.File(path, "w", **form) as file:
                file.create_dataset("features", data=features, **limits)
                file["lengths"] = lengths
                file["values" if target[0] == "f" else "labels"] = targets
                file["features"].attrs["note"] = "x" * rng.randrange(200)
                for extra in range(rng.randrange(20)):
                    file[f"extra{extra}"] = numpy.arange(3)
            with h5py.File(path) as file:
                features = file["features"][:]
            ours = json.loads(run(tool, "features", path))
            theirs = [
                features[i, : lengths[i]].astype("f4").ravel().tolist() for i in range(samples)
            ]
            different.append(ours != {"features": theirs, "targets": targets.tolist()})
    report(check, "feature files of h5py", different)


@script(__doc__, program=None, tools=ROOT / "build/release", seed=0, golden=Path)
def main(arguments, check, folder):
    rng, tools = random.Random(arguments.seed), arguments.tools
    if arguments.golden:
        return write_golden(arguments.golden, rng)
    check_metrics(check, tools / "task_tool", rng)
    check_encoding(check, tools, rng, folder)
    check_features(check, tools / "task_tool", rng, folder / "features.h5")
