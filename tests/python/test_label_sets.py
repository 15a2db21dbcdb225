"""Texts with any number of labels, from data in memory to predictions."""

import json
from pathlib import Path

import numpy as np
import pytest

import nystrom
from conftest import lines, tuning

TEXTS = lines(120, seed=5)
SETS = [[word for word in ("calm", "ships", "men") if word in text.split()] for text in TEXTS]
COLUMNS = {
    "text": TEXTS,
    **{name: [int(name in labels) for labels in SETS] for name in ("men", "calm", "ships")},
}


@pytest.fixture
def task(trained: Path, tmp_path: Path) -> dict[str, object]:
    config = tuning(trained, tmp_path, steps=60, batch_size=16, micro_batch_size=16)
    return config | {"optimizer": {"learning_rate": 1e-2}}


@pytest.fixture(scope="module")
def labelled(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> nystrom.Model:
    """A model of three labels."""
    config = task.__wrapped__(trained, tmp_path_factory.mktemp("labels"))
    config["training"]["steps"] = 400
    config["optimizer"]["learning_rate"] = 5e-3
    rows = list(zip(TEXTS, SETS))
    run = nystrom.finetune(config, train=rows, validation=rows, quiet=True)
    assert run.metric == "f1_micro"
    assert run.best_value > 0.9
    return run.load()


def frame():
    return pytest.importorskip("pandas").DataFrame({"text": TEXTS, "label": SETS})


FORMS = {
    "tuples": (lambda: list(zip(TEXTS, SETS)), {}),
    "a generator": (lambda: zip(TEXTS, SETS), {}),
    "sets": (lambda: [(text, set(labels)) for text, labels in zip(TEXTS, SETS)], {}),
    "pandas": (frame, {}),
    "polars": (lambda: pytest.importorskip("polars").DataFrame({"text": TEXTS, "label": SETS}), {}),
    "Dataset": (
        lambda: pytest.importorskip("datasets").Dataset.from_dict({"text": TEXTS, "label": SETS}),
        {},
    ),
    "separators": (
        lambda: [(text, ";".join(labels)) for text, labels in zip(TEXTS, SETS)],
        {"task": {"label_separator": ";"}},
    ),
    "columns": (lambda: COLUMNS, {"label": ["calm", "men", "ships"]}),
    "columns of bools": (
        lambda: pytest.importorskip("pandas").DataFrame(COLUMNS).astype(
            {"men": bool, "calm": bool, "ships": float}
        ),
        {"label": ["calm", "men", "ships"]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_sets_of_labels_come_in_every_form(form, task):
    rows, arguments = FORMS[form]
    task["training"]["steps"] = 3
    run = nystrom.finetune(task, train=rows(), validation=rows(), quiet=True, **arguments)
    model = run.load()
    assert model.labels == ["calm", "men", "ships"]
    assert model.config["problem_type"] == "multi_label_classification"
    task["run_dir"] = task["run_dir"].parent / "lists"
    lists = nystrom.finetune(task, train=list(zip(TEXTS, SETS)), validation=frame(), quiet=True)
    assert [each["loss"] for each in run.history] == [each["loss"] for each in lists.history]


def test_predictions_are_the_labels_that_reach_the_threshold(labelled, program, tmp_path):
    probabilities = labelled.predict_proba(TEXTS)
    assert probabilities.shape == (120, 3)
    for threshold in (None, 0.0, 0.2, 0.9, 1.0):
        found = labelled.predict(TEXTS, threshold=threshold, top_k=1)
        for row, guesses in zip(probabilities, found):
            expected = {
                (label, score)
                for label, score in zip(labelled.labels, row)
                if score >= (0.5 if threshold is None else threshold)
            }
            assert {(guess["label"], guess["score"]) for guess in guesses} == expected
            assert [g["score"] for g in guesses] == sorted(g["score"] for g in guesses)[::-1]
    file = tmp_path / "texts.txt"
    file.write_text("\n".join(TEXTS))
    printed = program.run("predict", labelled.path, file, "--json", "--quiet")
    assert [json.loads(line) for line in printed.splitlines()] == labelled.predict(TEXTS)
    assert "(no label)" in program.run(
        "predict", labelled.path, "the sea", "--set", "task.threshold=1"
    )
    assert program.error("predict", labelled.path, "the sea", "--top-k", 1).startswith(
        "--top-k: a text has all labels from a probability of task.threshold on"
    )


def test_measures_are_those_of_scikit_learn(labelled):
    metrics = pytest.importorskip("sklearn.metrics")
    truth = np.array([[label in labels for label in labelled.labels] for labels in SETS])
    probabilities = labelled.predict_proba(TEXTS)
    for threshold in (0.5, 0.1):
        predicted = probabilities >= threshold
        found = nystrom.evaluate(labelled, frame(), task={"threshold": threshold})
        expected = {
            "f1_micro": metrics.f1_score(truth, predicted, average="micro"),
            "f1_macro": metrics.f1_score(truth, predicted, average="macro"),
            "mean_average_precision": metrics.average_precision_score(truth, probabilities),
            "exact_match": metrics.accuracy_score(truth, predicted),
        }
        assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-12)
        logits = np.log(probabilities / (1 - probabilities))
        loss = np.logaddexp(0, logits) - logits * truth
        assert found["loss"] == pytest.approx(loss.mean(), rel=1e-5)
        assert "confusion" not in found
    columns = nystrom.evaluate(labelled, COLUMNS, label=["ships", "men", "calm"])
    assert columns == nystrom.evaluate(labelled, frame())


def test_labels_keep_their_types(task):
    task["training"]["steps"] = 2
    rows = [(text, [3 + len(label) for label in labels]) for text, labels in zip(TEXTS, SETS)]
    model = nystrom.finetune(task, train=rows, validation=rows, quiet=True).load()
    assert model.labels == [6, 7, 8]
    assert {guess["label"] for guess in model.predict("the sea", threshold=0)} == {6, 7, 8}


def test_a_hub_folder_is_read_as_it_says(labelled, tmp_path):
    labelled.export(tmp_path / "hub")
    (tmp_path / "plain").mkdir()
    for file in ("config.json", "model.safetensors", "tokenizer.json"):
        (tmp_path / "plain" / file).write_bytes((tmp_path / "hub" / file).read_bytes())
    model = nystrom.load(tmp_path / "plain")
    np.testing.assert_array_equal(model.predict_proba(TEXTS), labelled.predict_proba(TEXTS))
    file = tmp_path / "one.tsv"
    file.write_text("text\tlabel\nthe sea\tcalm\nold ships\tmen\n")
    with pytest.raises(nystrom.InputError, match="gives a text any number of labels, but"):
        nystrom.evaluate(model, str(file), task={"multi_label": False})


def test_training_goes_on_from_a_model_of_label_sets(labelled, task):
    task["model"] = {"from": labelled.path}
    task["optimizer"] = {"learning_rate": 1e-6}
    task["training"]["steps"] = 1
    rows = list(zip(TEXTS, SETS))
    run = nystrom.finetune(task, train=rows, validation=rows, quiet=True)
    assert run.best_value > 0.9
    task["run_dir"] /= "other"
    one = [(text, "calm" if "calm" in text else "men") for text in TEXTS]
    task["task"] = {"labels": ["calm", "men", "ships"]}
    with pytest.raises(nystrom.InputError, match="its head gives a text any number of labels"):
        nystrom.finetune(task, train=one, validation=one, quiet=True)


def test_the_forward_pass_takes_zeros_and_ones(labelled):
    inputs = labelled.tokenizer(TEXTS[:4], padding=True)
    labels = np.array([[1, 0, 0], [0, 0, 0], [1, 1, 1], [0, 1, 0]])
    out = labelled(**inputs, labels=labels)
    x = out["logits"].astype(float)
    loss = (np.logaddexp(0, x) - x * labels).mean()
    assert out["loss"] == pytest.approx(loss, rel=1e-5)
    assert labelled(**inputs, labels=labels.astype(np.float32))["loss"] == out["loss"]
    with pytest.raises(nystrom.InputError, match=r"labels\[0, 0\] is 0.5; expected 0 or 1"):
        labelled(**inputs, labels=labels / 2)


@pytest.mark.parametrize(
    "rows, arguments, message",
    [
        ([("x", ["a", "b"]), ("y", "a")], {}, "row 1, column 'label': got 'a'"),
        ([("x", ["a", "a"]), ("y", ["b"])], {}, "has the label 'a' twice"),
        ([("x", [0, 1, 1]), ("y", [1, 0, 0])], {}, "the lists hold 0 and 1 for each label"),
        ([("x", ["a"]), ("y", [1])], {}, "of another type"),
        ([("x", 1, 2)], {"label": ["a", "b"]}, "row 0, column 'b': got 2"),
        ([("x", 1, None)], {"label": ["a", "b"]}, "row 0, column 'b': got None"),
    ],
)
def test_wrong_sets_are_named(rows, arguments, message, task):
    with pytest.raises((nystrom.InputError, TypeError), match=message):
        nystrom.finetune(task, train=rows, validation=rows, quiet=True, **arguments)


def test_a_model_of_one_label_has_no_threshold(classifier):
    with pytest.raises(nystrom.InputError, match="threshold: .* leave it out"):
        nystrom.load(classifier).predict("the sea", threshold=0.5)
