"""Data in memory for runs, from whatever holds it: the same run as from a file."""

import collections
import copy
import json
import pickle
import re
import shutil
import signal
import types
from pathlib import Path

import numpy as np
import pytest

import nystrom
from conftest import lines, python, tuning
from nystrom._rows import rows_of

ROWS = [(text, "calm" if "calm" in text else "rough") for text in lines(60, seed=2)]


@pytest.fixture
def task(trained: Path, tmp_path: Path) -> dict[str, object]:
    """A run of two steps on given rows."""
    return tuning(trained, tmp_path, steps=2) | {"task": {"kind": "classification"}}


def losses(run: nystrom.Run) -> list[float]:
    return [each["loss"] for each in run.history]


def as_dicts(rows=ROWS):
    return [{"text": text, "label": label} for text, label in rows]


def as_columns(rows=ROWS):
    texts, labels = zip(*rows)
    return {"text": list(texts), "label": list(labels)}


def pandas_frame():
    return pytest.importorskip("pandas").DataFrame(as_columns())


def pandas_categories():
    frame = pandas_frame()
    frame["label"] = frame["label"].astype("category")
    return frame


def polars_frame():
    return pytest.importorskip("polars").DataFrame(as_columns())


def arrow_table():
    return pytest.importorskip("pyarrow").table(as_columns())


def arrow_dictionary():
    pyarrow = pytest.importorskip("pyarrow")
    columns = as_columns()
    labels = pyarrow.array(columns["label"]).dictionary_encode()
    return pyarrow.table({"label": labels, "other": range(len(ROWS)), "text": columns["text"]})


def arrow_scanner():
    return pytest.importorskip("pyarrow.dataset").dataset(arrow_table()).scanner()


def hub_dataset():
    return pytest.importorskip("datasets").Dataset.from_dict(as_columns())


def hub_classes():
    datasets = pytest.importorskip("datasets")
    return hub_dataset().cast_column("label", datasets.ClassLabel(names=["calm", "rough"]))


def hub_stream():
    return hub_dataset().to_iterable_dataset()


FORMS = {
    "tuples": lambda: ROWS,
    "dicts": as_dicts,
    "a generator": lambda: iter(ROWS),
    "columns": as_columns,
    "an array": lambda: np.array(ROWS),
    "pandas": pandas_frame,
    "categories of pandas": pandas_categories,
    "tuples of pandas": lambda: pandas_frame().itertuples(),
    "polars": polars_frame,
    "Arrow": arrow_table,
    "a dictionary of Arrow": arrow_dictionary,
    "batches of Arrow": lambda: arrow_table().to_reader(),
    "a scanner of Arrow": arrow_scanner,
    "Dataset": hub_dataset,
    "classes of a Dataset": hub_classes,
    "a streamed Dataset": hub_stream,
}


@pytest.fixture(scope="module")
def of_a_file(trained, tmp_path_factory) -> list[float]:
    """The losses of the same run from a file."""
    folder = tmp_path_factory.mktemp("file")
    file = folder / "rows.tsv"
    file.write_text("\n".join(["text\tlabel", *map("\t".join, ROWS)]))
    config = task.__wrapped__(trained, folder)
    return losses(nystrom.finetune(config, train=file, validation=[str(file)], quiet=True))


@pytest.mark.parametrize("form", FORMS)
def test_rows_may_come_in_every_form(form, task, of_a_file):
    run = nystrom.finetune(task, train=FORMS[form](), validation=FORMS[form](), quiet=True)
    assert losses(run) == of_a_file
    assert nystrom.load(run).labels == ["calm", "rough"]


@pytest.mark.parametrize("values", [[3, 7], [True, False], [1.0, 2.5], [np.int64(4), np.int64(5)]])
def test_labels_keep_their_types(values, task, tmp_path):
    train = [(text, values[label == "calm"]) for text, label in ROWS]
    run = nystrom.finetune(task, train=train, validation=train, quiet=True)
    model = run.load()
    assert sorted(model.labels) == sorted(values)
    assert {type(each) for each in model.labels} == {type(np.asarray(values).tolist()[0])}
    first = model.predict(ROWS[0][0])[0]["label"]
    assert first in values and type(first) is type(model.labels[0])
    found = nystrom.evaluate(run, train)
    assert [each["label"] for each in found["classes"]] == found["labels"] == model.labels
    model.save(tmp_path / "saved")
    model.export(tmp_path / "exported")
    nystrom.extend(run, tmp_path / "extended", length=48)
    for folder in ("saved", "exported", "extended"):
        assert nystrom.load(tmp_path / folder).labels == model.labels
    (tmp_path / "link").symlink_to(model.path)
    for name in (f"{model.path}/", f"{model.path}/../step-2", tmp_path / "link"):
        assert nystrom.evaluate(name, train)["labels"] == nystrom.load(name).labels == model.labels
        nystrom.extend(name, tmp_path / "again", length=48)
        assert nystrom.load(tmp_path / "again").labels == model.labels
        shutil.rmtree(tmp_path / "again")


def test_the_form_of_other_files_does_not_matter(task, tmp_path):
    table = tmp_path / "table"
    table.write_text("\n".join(["sentence\tlabel", *map("\t".join, ROWS)]))
    task["task"] = {"recipe": "sst2", "labels": ["calm", "rough"]}
    rows = [{"sentence": text, "label": label} for text, label in ROWS]
    run = nystrom.finetune(task, train=table, validation=[table], quiet=True)
    expected = nystrom.evaluate(run, table)
    assert nystrom.evaluate(run, rows) == expected
    assert (
        nystrom.finetune(task, train=rows, validation=rows, quiet=True, overwrite=True).steps == 2
    )
    with pytest.raises(nystrom.InputError, match="table' is in the form tsv.*give all as rows or"):
        nystrom.finetune(task, train=rows, validation=table, overwrite=True)
    task["task"]["validation"] = [table]
    with pytest.raises(nystrom.InputError, match="table' is in the form tsv.*give all as rows or"):
        nystrom.finetune(task, train=rows, overwrite=True)
    assert nystrom.finetune(task, train=rows, validation=0.2, overwrite=True).steps == 2


def test_labels_keep_their_types_in_runs_without_a_name(task, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    del task["run_dir"], task["task"]
    train = [(text, int("calm" in text)) for text, _ in ROWS]
    assert nystrom.finetune(task, train=train, validation=0.2, quiet=True).load().labels == [0, 1]


def killed_at(step: int, task: dict[str, object], options: dict[str, object]) -> None:
    """A run whose process ends after a step."""
    script = """
        import os, pickle, signal, sys, nystrom
        last, task, options = pickle.load(sys.stdin.buffer)
        def end(step):
            if step.step == last:
                os.kill(os.getpid(), signal.SIGKILL)
        nystrom.finetune(task, on_step=end, **options)
    """
    done = python(script, input=pickle.dumps((step, task, options)), text=False)
    assert done.returncode == -signal.SIGKILL


def test_labels_keep_their_types_whatever_ends_a_run(task):
    """So that the same call goes on after the end of a process."""
    rows = [(text, int(label == "calm")) for text, label in ROWS]
    options = {"train": rows, "validation": rows, "quiet": True}
    task["checkpoint"], task["evaluation"] = {"every": 1}, {"every": 1}
    killed_at(2, task, options)
    assert nystrom.load(task["run_dir"]).labels == [0, 1]
    seen = []
    nystrom.finetune(
        task, **options, on_step=lambda _: seen.append(nystrom.load(task["run_dir"]).labels)
    )
    assert seen == [[0, 1]]


def test_a_run_that_kept_no_checkpoint_leaves_no_types(task):
    task["run_dir"].mkdir()
    (task["run_dir"] / ".lock").write_text("nystrom run\n")
    (task["run_dir"] / "label_types.json").write_text('{"calm": 1}')
    assert nystrom.finetune(task, train=ROWS, validation=ROWS).load().labels == ["calm", "rough"]


@pytest.mark.parametrize("labels", [[2, 1, 0], [2.5, 1.0, 0.0]])
def test_a_label_that_no_row_has_is_of_the_same_type(labels, task):
    task["task"]["labels"] = labels
    rows = [(text, labels[1 + (label == "calm")]) for text, label in ROWS]
    assert nystrom.finetune(task, train=rows, validation=rows).load().labels == labels


def test_rows_of_one_label_are_named_as_they_were_given(task):
    rows = [(text, "calm") for text, _ in ROWS]
    with pytest.raises(nystrom.InputError, match="train: all labels are 'calm'"):
        nystrom.finetune(task, train=rows, validation=ROWS)


@pytest.mark.parametrize("other", ["1", 1.0, True])
def test_labels_of_several_types_are_refused(task, other):
    rows = [("the sea", 1), ("pale stars", other)]
    with pytest.raises(nystrom.InputError, match=r"row 1: the label .* than 1 \(int\) before"):
        nystrom.finetune(task, train=rows, validation=rows)


def test_a_run_goes_on_with_the_same_data_alone(task):
    def stop(step: nystrom.Step) -> None:
        if step.step == 1:
            raise LookupError

    with pytest.raises(LookupError):
        nystrom.finetune(task, train=ROWS, validation=ROWS[:30], on_step=stop, quiet=True)
    changed = (
        r"holds a run with other settings; changed: task.train \(other data\); "
        "choose another run_dir, overwrite=True to replace that run, or undo the changes$"
    )
    with pytest.raises(nystrom.InputError, match=changed):
        nystrom.finetune(task, train=ROWS[1:], validation=ROWS[:30], quiet=True)
    steps = []
    nystrom.finetune(
        task, train=as_dicts(), validation=iter(ROWS[:30]), quiet=True,
        on_step=lambda step: steps.append(step.step),
    )  # fmt: skip
    assert steps == [2]


def test_columns_have_other_names(task):
    rows = [{"body": text, "stars": label, "id": at} for at, (text, label) in enumerate(ROWS)]
    run = nystrom.finetune(
        task, train=rows, validation=rows, text="body", label="stars", quiet=True
    )
    assert run.steps == 2


def test_columns_of_pandas_may_be_numbers(task):
    frame = pytest.importorskip("pandas").DataFrame(ROWS)
    run = nystrom.finetune(task, train=frame, validation=0.2, text=0, label=1, quiet=True)
    assert run.steps == 2


SQUAD = {"kind": "questions", "stride": 4}


def questions() -> list[dict[str, object]]:
    """Rows with SQuAD's columns: which word follows another one?"""
    rows = []
    for at, text in enumerate(lines(40, seed=5)):
        first, second, *_ = text.split()
        answers = {"text": [second], "answer_start": [len(first) + 1]}
        rows.append({"id": str(at), "question": first, "context": text, "answers": answers})
    return rows


def flat_questions():
    frame = pytest.importorskip("pandas").DataFrame(questions())
    frame["answer"] = [each["text"][0] for each in frame.answers]
    frame["answer_start"] = [each["answer_start"][0] for each in frame.answers]
    return frame.drop(columns="answers")


def squad_of(rows) -> dict[str, object]:
    """The rows in the form of SQuAD's files."""
    articles = []
    for row in rows:
        (text,), (start,) = row["answers"].values()
        question = {"id": row["id"], "question": row["question"]}
        question["answers"] = [{"text": text, "answer_start": start}]
        articles.append({"paragraphs": [{"context": row["context"], "qas": [question]}]})
    return {"data": articles}


QUESTIONS = {
    "dicts": questions,
    "pandas": lambda: pytest.importorskip("pandas").DataFrame(questions()),
    "polars": lambda: pytest.importorskip("polars").DataFrame(questions()),
    "Arrow": lambda: pytest.importorskip("pyarrow").Table.from_pylist(questions()),
    "Dataset": lambda: pytest.importorskip("datasets").Dataset.from_list(questions()),
    "tuples": lambda: [tuple(each.values())[1:] for each in questions()],
    "flat columns": flat_questions,
    "SQuAD's document": lambda: squad_of(questions()),
    "SQuAD's paragraphs": lambda: [each["paragraphs"][0] for each in squad_of(questions())["data"]],
}


@pytest.fixture(scope="module")
def of_squad(trained, tmp_path_factory) -> tuple[list[float], dict[str, float]]:
    """The losses of a run from a file of SQuAD, and the measures of its model."""
    folder = tmp_path_factory.mktemp("squad")
    file = folder / "squad.json"
    file.write_text(json.dumps(squad_of(questions())))
    config = task.__wrapped__(trained, folder) | {"task": SQUAD}
    run = nystrom.finetune(config, train=file, validation=file, quiet=True)
    return losses(run), nystrom.evaluate(run.load(), file)


@pytest.mark.parametrize("form", QUESTIONS)
def test_questions_are_as_those_of_squad(form, task, of_squad):
    task["task"] = SQUAD
    given = QUESTIONS[form]()
    label = ["answer", "answer_start"] if form == "flat columns" else None
    run = nystrom.finetune(task, train=given, validation=given, label=label, quiet=True)
    assert losses(run) == of_squad[0]
    assert nystrom.evaluate(run.load(), given, label=label) == of_squad[1]


def test_questions_may_have_no_answer(task):
    task["task"] = SQUAD | {"no_answer": True}
    frame = flat_questions()
    frame.loc[::2, ["answer", "answer_start"]] = None
    label = ["answer", "answer_start"]
    assert nystrom.finetune(task, train=frame, validation=0.2, label=label, quiet=True).steps == 2
    rows = questions()
    rows[0]["answers"] = {"text": [], "answer_start": []}
    assert nystrom.evaluate(task["run_dir"], rows)["exact_match"] >= 0


@pytest.mark.parametrize(
    "answers, message",
    [
        (
            {"text": ["sea"], "answer_start": [1]},
            "at answer_start 1 the context has 'he ', not the answer's text 'sea', which is at 4",
        ),
        ({"text": ["sea"], "answer_start": []}, "there are 1 texts but 0 of 'answer_start'"),
        ({"text": ["sea"], "answer_start": ["4"]}, r'answer_start\[0\]: got "4", expected a whole'),
        (
            {"text": ["sea"], "answer_start": [4.5]},
            r"answer_start\[0\]: got 4\.5, expected a whole",
        ),
        ({"text": [], "answer_start": []}, "it has no answer; set task.no_answer to true"),
        ("sea", r"row 0, column 'answers': got 'sea' \(str\).*label=\['answer', 'answer_start'\]"),
        (["sea"], r"'answers': got .*'sea'.*, expected SQuAD's answers"),
    ],
)
def test_wrong_answers_are_refused(answers, message, task):
    task["task"] = SQUAD
    rows = [{"question": "What?", "context": "the sea", "answers": answers}]
    with pytest.raises((TypeError, nystrom.InputError), match=message):
        nystrom.finetune(task, train=rows, validation=rows)


def answered(impossible):
    return [{**row, "is_impossible": impossible} for row in questions()]


# https://github.com/huggingface/datasets/issues/1964
@pytest.mark.parametrize(
    "form, label",
    [
        (answered, None),
        (lambda value: pytest.importorskip("pandas").DataFrame(answered(value)), None),
        (lambda value: pytest.importorskip("pyarrow").Table.from_pylist(answered(value)), None),
        (lambda value: pytest.importorskip("datasets").Dataset.from_list(answered(value)), None),
        (lambda value: flat_questions().assign(is_impossible=value), ["answer", "answer_start"]),
    ],
)
def test_what_is_impossible_has_no_answer(form, label, task, of_squad):
    task["task"] = SQUAD
    rows = form(False)
    run = nystrom.finetune(task, train=rows, validation=rows, label=label, quiet=True)
    assert losses(run) == of_squad[0]
    message = "row 0: 'is_impossible' is true, but it has an answer; correct one of them"
    with pytest.raises(nystrom.InputError, match=message):
        nystrom.evaluate(run, form(True), label=label)


def test_an_answer_has_two_columns(task):
    task["task"] = SQUAD
    with pytest.raises(nystrom.InputError, match="columns of an answer's text and of its beginn"):
        nystrom.finetune(task, train=flat_questions(), validation=0.2, label=["answer"])


def test_pairs_have_three_columns(task):
    rows = [(text, "old ships", label) for text, label in ROWS]
    run = nystrom.finetune(task, train=rows, validation=rows, pair="second", quiet=True)
    assert run.load().predict("the sea", "old ships")[0]["label"] in ("calm", "rough")


def test_words_and_their_tags_are_lists(task):
    rows = [
        {"tokens": text.split(), "tags": ["X" if word == "sea" else "O" for word in text.split()]}
        for text, _ in ROWS
    ]
    task["task"] = {"kind": "tokens", "metric": "accuracy"}
    run = nystrom.finetune(task, train=rows, validation=rows, quiet=True)
    assert run.load().labels == ["O", "X"]


def test_numbers_are_learned(task):
    task["task"] = {"kind": "regression"}
    rows = [(text, len(text) / 10) for text, _ in ROWS]
    run = nystrom.finetune(task, train=rows, validation=rows, quiet=True)
    assert isinstance(run.load().predict("the sea")["value"], float)


def test_the_kind_follows_from_labels(task):
    task.pop("task")
    assert nystrom.finetune(task, train=ROWS, validation=ROWS, quiet=True).metric == "accuracy"
    with pytest.raises(nystrom.InputError, match="labels such as 0.5 do not tell the kind"):
        nystrom.finetune(task, train=[("the sea", 0.5)], validation=0.1)
    task["run_dir"] /= "again"
    assert nystrom.finetune(task, train=iter(ROWS), validation=0.2, quiet=True).steps == 2


# https://github.com/scikit-learn/scikit-learn/pull/5057
@pytest.mark.parametrize(
    "form",
    [
        lambda values: {"text": as_columns()["text"], "label": values[:, None]},
        lambda values: [(text, np.array(value)) for (text, _), value in zip(ROWS, values)],
    ],
)
def test_an_array_of_one_number_is_a_label(form, task):
    task.pop("task")
    rows = form(np.array([int(label == "calm") for _, label in ROWS]))
    run = nystrom.finetune(task, train=rows, validation=rows, quiet=True)
    assert run.metric == "accuracy" and run.load().labels == [0, 1]


def test_lists_of_labels_are_told(task, capsys):
    task.pop("task")
    rows = [(text, [label]) for text, label in ROWS]
    assert nystrom.finetune(task, train=rows, validation=rows).metric == "f1_micro"
    assert "train: labels are lists, of any number for each text" in capsys.readouterr().err


@pytest.mark.parametrize(
    "label, message",
    [
        (None, "leave out what is missing"),
        (float("nan"), "the label is missing"),
        (b"calm", "decode it"),
        ({"a": 1}, "expected a str, a number or a bool"),
    ],
)
def test_a_first_label_that_is_none_is_named(label, message, task):
    task.pop("task")
    message = f"train, row 0, column 'label': .*{message}"
    with pytest.raises((TypeError, nystrom.InputError), match=message):
        nystrom.finetune(task, train=[("the sea", label), *ROWS], validation=ROWS)


# https://github.com/pandas-dev/pandas/issues/28406
@pytest.mark.parametrize("kind", ["classification", None])
def test_rows_that_cannot_be_read_are_left_out(kind, task, of_a_file, capsys):
    task["task"] = {"kind": kind, "bad_rows": "skip"}
    bad = [
        {"text": "pale stars"},
        {"text": "pale stars", "label": None},
        {"text": None, "label": "calm"},
        ("pale stars", "calm", 1),
        ("pale stars", ""),
        ("pale stars", 3),
    ]
    rows = [*bad[:3], *as_dicts()[:1], bad[3], *as_dicts()[1:], *bad[4:]]
    run = nystrom.finetune(task, train=iter(rows), validation=ROWS)
    assert losses(run) == of_a_file
    said = capsys.readouterr().err
    assert "train: 6 rows were left out; the first: train, row 0: there is no column" in said
    with pytest.raises(nystrom.InputError, match="train, row 0: there is no column 'label'"):
        nystrom.finetune(task, train=bad[:5], validation=ROWS, overwrite=True)
    assert nystrom.search(run, ["calm", "old ships"], "calm")
    found = nystrom.evaluate(run.load(), [*rows, ("old ships", None)], task={"bad_rows": "skip"})
    assert found["examples"] == len(ROWS)


# https://github.com/huggingface/datasets/issues/2083
@pytest.mark.parametrize("form", ["list", "DataFrame", "Dataset", "IterableDataset"])
def test_rows_for_vectors_lack_columns_as_files_do(form, task):
    columns = {"pair": "pair", "label": "label", "negatives": ["other"]}
    task["task"] = {"kind": "embeddings", "columns": columns}
    pairs = [{"text": text, "pair": pair} for (text, _), pair in zip(ROWS, lines(60, seed=4))]
    unlike = [{**row, "other": text} for row, text in zip(pairs, lines(60, seed=5))]
    if form == "DataFrame":
        pairs, unlike = map(pytest.importorskip("pandas").DataFrame, (pairs, unlike))
    elif form != "list":
        of_list = pytest.importorskip("datasets").Dataset.from_list
        pairs, unlike = of_list(pairs), of_list(unlike)
        if form == "IterableDataset":
            pairs, unlike = pairs.to_iterable_dataset(), unlike.to_iterable_dataset()
    columns["negatives"] = []
    run = nystrom.finetune(task, train=as_dicts(), validation=pairs, quiet=True)
    assert run.metric == "mrr"
    columns.update(negatives=["other"], label=None)
    run = nystrom.finetune(task, train=unlike, validation=pairs, quiet=True, overwrite=True)
    assert run.metric == "mrr"
    with pytest.raises(nystrom.InputError, match="there is no (key|column) 'other'"):
        nystrom.finetune(task, train=as_dicts(), validation=as_dicts(), overwrite=True)


class Stream:
    """Rows that come once."""

    def __init__(self, rows):
        self.rows = iter(rows)

    def __iter__(self):
        return self.rows


class Bar(Stream):
    """As tqdm is one of a stream."""

    def __len__(self):
        return len(ROWS)


class Batches:
    """Batches of Arrow that come once, as a database has them."""

    def __init__(self):
        self.reader = pytest.importorskip("pyarrow").RecordBatchReader.from_batches(
            arrow_table().schema, arrow_table().to_batches(max_chunksize=7)
        )

    def __arrow_c_stream__(self, schema=None):
        return self.reader.__arrow_c_stream__(schema)


def streamed_once():
    rows = iter(as_dicts())
    return pytest.importorskip("datasets").IterableDataset.from_generator(lambda: rows)


STREAMS = {
    "an iterator": lambda: Stream(ROWS),
    "a bar": lambda: Bar(ROWS),
    "Arrow": Batches,
    "a reader of Arrow": lambda: Batches().reader,
    "a streamed Dataset": streamed_once,
    "columns": as_columns,
    "pandas": pandas_frame,
    "an array": lambda: np.array(ROWS),
}


# https://github.com/huggingface/datasets/issues/3645
@pytest.mark.parametrize("form", STREAMS)
def test_the_first_row_of_a_stream_counts(form, task, of_a_file):
    task["task"].pop("kind")
    rows = STREAMS[form]()
    assert losses(nystrom.finetune(task, train=rows, validation=ROWS, quiet=True)) == of_a_file


def test_a_stream_without_a_kind_keeps_its_ids(task):
    task["task"] = {"columns": {"id": "number"}}
    rows = [(text, label, at) for at, (text, label) in enumerate(ROWS)]
    nystrom.finetune(task, train=Stream(rows), validation=rows, quiet=True)
    (file,) = task["data"]["cache"].glob("rows-*/rows.jsonl")
    assert [json.loads(line)["number"] for line in open(file)] == [str(at) for at in range(60)]


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_a_missing_id_is_refused(missing, task):
    task["task"] = SQUAD | {"columns": {"id": "id"}}
    rows = questions()
    rows[1]["id"] = missing
    with pytest.raises(TypeError, match="train, row 1, column 'id': .*leave out what is missing"):
        nystrom.finetune(task, train=rows, validation=rows)


def test_rows_are_named_as_they_were_given(task):
    wrong = [*ROWS[:2], ("pale stars", "unheard")]
    with pytest.raises(nystrom.InputError, match="^validation, row 2: unknown label 'unheard'"):
        nystrom.finetune(task, train=ROWS, validation=wrong, quiet=True)
    model = nystrom.finetune(task, train=ROWS, validation=ROWS, quiet=True).load()
    with pytest.raises(nystrom.InputError, match="^data, row 2: unknown label 'unheard'"):
        nystrom.evaluate(model, wrong)


def test_the_cause_of_rows_that_cannot_be_read_is_kept(task):
    class Broken:
        def __iter__(self):
            raise TypeError("the connection is lost")

    with pytest.raises(TypeError, match="the connection is lost"):
        nystrom.finetune(task, train=Broken(), validation=ROWS)


def test_an_argument_replaces_what_the_configuration_holds_out(task):
    held_out = {"task": {**task["task"], "validation_fraction": 0.3}}
    assert nystrom.finetune({**task, **held_out}, train=ROWS, validation=ROWS[:10]).steps == 2


def test_zeros_of_both_signs_are_one_label(task):
    rows = [(text, -0.0 if at % 3 else 0.0 if at % 2 else 1.0) for at, (text, _) in enumerate(ROWS)]
    assert nystrom.finetune(task, train=rows, validation=rows).load().labels == [0.0, 1.0]


# ---- A share ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"task": {"train": ["a.tsv"]}}, "task.train: the argument train gives it too; leave one out"),
        ({"task.validation_fraction": 0.3}, "task.validation_fraction: the argument validation"),
        ({"text": "a", "task": {"columns": {"text": "b"}}}, "task.columns.text: the argument text"),
        ({"label": ["a"], "task.columns": {"label": "b"}}, "task.columns.label: the argument label"),
    ],
)
def test_an_option_is_given_once(arguments, message, task, config):
    with pytest.raises(nystrom.InputError, match=message):
        nystrom.finetune(task, train=ROWS, validation=0.2, **arguments)
    with pytest.raises(nystrom.InputError, match="data.train: the argument texts gives it too"):
        nystrom.pretrain(config, texts=lines(9, seed=1), data={"train": ["a.txt"]})


def test_a_share_is_held_out_of_each_class_alike(task, capsys):
    rows = [(f"the sea {at}", "rare" if at % 10 == 0 else "often") for at in range(200)]
    nystrom.finetune(task, train=rows, validation=0.2)
    said = capsys.readouterr().err
    assert "training: 160 examples" in said and "labels: often 144, rare 16" in said
    assert "validation: 40 examples" in said and "labels: often 36, rare 4" in said


def test_a_share_of_files_is_that_of_their_rows(task, tmp_path, of_a_file):
    file = tmp_path / "rows.tsv"
    file.write_text("\n".join(["text\tlabel", *map("\t".join, ROWS)]))
    config = {**task, "task": {**task["task"], "validation": ["none.tsv"]}}
    of_files = nystrom.finetune(config, train=file, validation=0.2, quiet=True)
    task["run_dir"] /= "rows"
    of_rows = nystrom.finetune(task, train=iter(ROWS), validation=0.2, quiet=True)
    assert losses(of_rows) == losses(of_files) != of_a_file
    assert of_rows.evaluations == of_files.evaluations


@pytest.mark.parametrize("share", [0, 1, 1.5, -0.1])
def test_a_share_lies_between_0_and_1(task, share):
    with pytest.raises(nystrom.InputError, match="a share lies between 0 and 1"):
        nystrom.finetune(task, train=ROWS, validation=share)


def test_a_share_leaves_rows_for_both(task):
    with pytest.raises(nystrom.InputError, match="task.validation_fraction 0.1: of 3 examples"):
        nystrom.finetune(task, train=ROWS[:3], validation=0.1)


# ---- Documents ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "texts",
    [
        lambda: lines(300, seed=1),
        lambda: iter(lines(300, seed=1)),
        lambda: [{"text": line} for line in lines(300, seed=1)],
        lambda: pytest.importorskip("pandas").Series(lines(300, seed=1)),
        lambda: pytest.importorskip("pyarrow").chunked_array([lines(300, seed=1)]),
        lambda: pytest.importorskip("datasets").Dataset.from_dict({"text": lines(300, seed=1)}),
    ],
)
def test_texts_may_come_in_every_form(texts, config, trained):
    config["data"].pop("train")
    run = nystrom.pretrain(config, texts=texts(), quiet=True)
    assert losses(run) == losses_of_folder(trained)


# https://github.com/huggingface/tokenizers/issues/478
def test_names_of_files_are_no_texts(config, model):
    (file,) = config["data"].pop("train")
    names = [str(file), str(file)]
    for call in (
        lambda: nystrom.pretrain(config, texts=names),
        lambda: nystrom.pretrain(config, texts=file, validation=names),
        lambda: nystrom.evaluate(model, names),
        lambda: nystrom.search(model, names, "sea"),
    ):
        with pytest.raises(nystrom.InputError, match="each of these texts names a file; give file"):
            call()
    assert nystrom.search(model, iter(names), [str(file)])[0][0]["text"] == str(file)


def losses_of_folder(run_dir: Path) -> list[float]:
    records = map(json.loads, (run_dir / "metrics.jsonl").read_text().splitlines())
    return [each["loss"] for each in records if "loss" in each]


def test_documents_are_held_out_by_a_share(config, trained):
    del config["data"]["train"], config["data"]["validation_fraction"]
    run = nystrom.pretrain(config, texts=lines(300, seed=1), validation=0.1, quiet=True)
    assert losses(run) == losses_of_folder(trained)


def test_a_tokenizer_has_the_pieces_that_the_texts_support(config, capsys):
    del config["data"]["train"], config["tokenizer"]
    texts = lines(300, seed=1)
    run = nystrom.pretrain(config, texts=texts)
    told = re.search(r"the text supports a tokenizer of (\d+) pieces", capsys.readouterr().err)
    size = int(told[1])
    assert run.load().config["vocab_size"] == size
    options = {"texts": texts, "quiet": True, "overwrite": True}
    with pytest.raises(nystrom.InputError, match=f"expected at most {size}: lower it"):
        nystrom.pretrain(config, tokenizer={"train": {"vocab_size": size + 1}}, **options)
    nystrom.pretrain(config, tokenizer={"train": {"vocab_size": size}}, **options)


def test_a_run_whose_tokenizer_has_no_size_goes_on(config):
    del config["tokenizer"]
    run = nystrom.pretrain(config, quiet=True)
    assert Path(run.run_dir, "config.yaml").read_text().count("vocab_size: null") == 1
    config["training"]["steps"] += 1
    assert nystrom.pretrain(config, quiet=True).steps == run.steps + 1


def test_a_corpus_takes_bounded_memory(config):
    """A stream of 40 MB is written without holding it."""
    script = """
        import resource, sys, json
        from nystrom._given import Columns, GivenData
        with GivenData(sys.argv[1]) as data:
            texts = ("the sea was calm and old " * 40 + str(at) for at in range(40_000))
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            data.write(texts, "texts", Columns.of_texts("text"))
            print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    done = python(script, config["data"]["cache"], check=True)
    assert int(done.stdout) < 4_000  # KB


def test_the_cache_lists_given_rows_and_prunes_them(task, program):
    nystrom.finetune(task, train=ROWS, validation=ROWS[:20], quiet=True)
    cache = task["data"]["cache"]
    entries = json.loads(program.run("cache", cache, "--json"))["entries"]
    assert len([each for each in entries if each["name"].startswith("rows-")]) == 2
    assert not any(each["in_use"] for each in entries)
    program.run("cache", cache, "--prune")
    assert not list(cache.iterdir())


# ---- Parquet ------------------------------------------------------------------------------------


@pytest.fixture
def parquet():
    return pytest.importorskip("pyarrow.parquet")


def test_parquet_is_read(task, of_a_file, tmp_path, parquet):
    parquet.write_table(arrow_table(), tmp_path / "rows.parquet", row_group_size=7)
    run = nystrom.finetune(
        task, train=tmp_path / "rows.parquet", validation=str(tmp_path / "rows.parquet"), quiet=True
    )
    assert losses(run) == of_a_file


# https://github.com/kylebarron/parquet-wasm/issues/758
def test_other_columns_of_parquet_are_not_read(tmp_path, parquet):
    """Such as the pictures beside texts."""
    file = tmp_path / "rows.parquet"
    pictures = [bytes([at]) * 400_000 for at in range(60)]
    parquet.write_table(arrow_table().append_column("picture", [pictures]), file)
    script = """
        import pyarrow.parquet, resource, sys
        from pathlib import Path
        from nystrom._rows import rows_of
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert len(list(rows_of(Path(sys.argv[1]), "train", ["text"]))) == 60
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    assert int(python(script, file, check=True).stdout) < 20_000  # KB


def test_a_list_of_parquet_files_tells_the_kind(trained, tmp_path, parquet):
    for name, part in (("a", slice(0, 10)), ("b", slice(10, None))):
        parquet.write_table(arrow_table()[part], tmp_path / f"{name}.parquet")
    names = [str(tmp_path / f"{name}.parquet") for name in "ab"]
    run = nystrom.finetune(
        {
            "model": {"from": str(trained)},
            "data": {"sequence_length": 16},
            "training": {"steps": 1},
        },
        train=names,
        validation=names[1:],
        run_dir=str(tmp_path / "run"),
        quiet=True,
    )
    assert run.load().labels == ["calm", "rough"]


def test_a_folder_of_the_hub_has_parts(task, of_a_file, tmp_path):
    pytest.importorskip("pyarrow")
    folder = tmp_path / "hub" / "data"
    folder.mkdir(parents=True)
    rows = hub_classes()
    for shard in range(2):
        rows.shard(2, shard, contiguous=True).to_parquet(
            folder / f"train-{shard:05}-of-00002.parquet"
        )
    rows.to_parquet(folder / "validation-00000-of-00001.parquet")
    run = nystrom.finetune(task, train=folder.parent, validation=folder.parent, quiet=True)
    assert losses(run) == of_a_file
    assert run.load().labels == ["calm", "rough"]


def test_a_saved_dataset_is_read(task, of_a_file, tmp_path):
    hub_classes().save_to_disk(tmp_path / "saved")
    saved = tmp_path / "saved"
    import datasets

    datasets.load_from_disk(saved).map(lambda row: row)  # leaves its cache there
    assert list(saved.glob("cache-*"))
    run = nystrom.finetune(task, train=saved, validation=saved, quiet=True)
    assert losses(run) == of_a_file


def test_a_saved_dict_of_datasets_has_parts(task, of_a_file, tmp_path):
    datasets, saved = pytest.importorskip("datasets"), tmp_path / "saved"
    datasets.DatasetDict(train=hub_classes(), dev=hub_classes()).save_to_disk(saved)
    run = nystrom.finetune(task, train=saved, validation=saved, quiet=True)
    assert losses(run) == of_a_file


def test_the_part_that_an_argument_reads(tmp_path, parquet):
    for folder, part in (("all/train", 0), ("all/test", 1), ("one/dev", 2)):
        (tmp_path / folder).mkdir(parents=True)
        parquet.write_table(arrow_table()[part : part + 1], tmp_path / folder / "0000.parquet")
    texts = arrow_table()["text"].to_pylist()
    for name, folder, row in (("classify", "all", 0), ("test", "all", 1), ("data", "one", 2)):
        assert list(rows_of(tmp_path / folder, name, ["text"])) == [[texts[row]]]
    with pytest.raises(nystrom.InputError, match="data: .*all' has the parts test, train, more"):
        rows_of(tmp_path / "all", "data", ["text"])
    with pytest.raises(nystrom.InputError, match="train: .*one' has the parts dev, none for train"):
        rows_of(tmp_path / "one", "train", ["text"])
    with pytest.raises(nystrom.InputError, match="has the parts test, train, none for validation"):
        rows_of(tmp_path / "all", "validation", ["text"])


@pytest.mark.parametrize(
    "names, name, read",
    [
        (["train-00000-of-00001", ".old", "._train-0"], "train", [0]),
        (["Train", "Test"], "train", [0]),
        (["Train", "Test"], "test", [1]),
        (["my_training", "my_testing"], "train", [0]),
        (["train", "train_2", "val.1"], "train", [0, 1]),
        (["train-cats", "train-dogs", "eval"], "test", [2]),
        (["train-0-of-1", "train_extra-0-of-1", "unsupervised-0-of-1"], "train", [0]),
        (["Train/0", "training-notes/0", "dev/0"], "train", [0]),
        (["part-0", "part-1", ".part-2"], "train", [0, 1]),
        (["train", "extra"], "train", "has the parts train, and extra.parquet, whose name"),
        (["train", "validation_a-0-of-1", "validation_b-0-of-1"], "validation", "more than one"),
        (["train", "training"], "train", "has the parts train, training, more than one"),
    ],
)
def test_names_of_files_tell_their_part(names, name, read, tmp_path, parquet):
    for at, each in enumerate(names):
        file = tmp_path / f"{each}.parquet"
        file.parent.mkdir(exist_ok=True)
        parquet.write_table(arrow_table()[at : at + 1], file)
    if isinstance(read, str):
        with pytest.raises(nystrom.InputError, match=read):
            rows_of(tmp_path, name, ["text"])
        return
    texts = arrow_table()["text"].to_pylist()
    assert [text for (text,) in rows_of(tmp_path, name, ["text"])] == [texts[at] for at in read]


def test_a_pattern_means_no_hidden_files(tmp_path, parquet):
    for each in ("a", ".b"):
        parquet.write_table(arrow_table()[:1], tmp_path / f"{each}.parquet")
    assert len(list(rows_of(tmp_path / "*.parquet", "train", ["text"]))) == 1
    assert len(list(rows_of(tmp_path / ".*.parquet", "train", ["text"]))) == 1


@pytest.mark.parametrize("before", [False, True])
def test_a_broken_parquet_file_is_an_input_error(before, task, tmp_path, parquet):
    folder = tmp_path / "tables"
    folder.mkdir()
    if before:
        parquet.write_table(arrow_table(), folder / "a.parquet")
    (folder / "broken.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(nystrom.InputError, match="broken.parquet"):
        nystrom.finetune(task, train=folder, validation=ROWS)


# ---- Errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rows, error, message",
    [
        ([], nystrom.InputError, "train: holds no rows"),
        ({}, nystrom.InputError, "train: there is no column 'text'; columns: none"),
        ([("the sea",)], nystrom.InputError, r"train, row 0: 1 values, expected 2: \(text, label\)"),
        ([("the sea", "a"), (None, "b")], TypeError, "train, row 1, column 'text': got None"),
        ([("the sea", float("nan"))], nystrom.InputError, "train, row 0, column 'label': the label is missing"),
        ([("the sea", None)], TypeError, "train, row 0, column 'label': got None"),
        ([(b"the sea", "a")], TypeError, "decode it"),
        ([("half \ud800", "a")], nystrom.InputError, "half a surrogate pair"),
        ([("a\0b", "a")], nystrom.InputError, "holds the character NUL"),
        ([{"txt": "the sea", "label": "a"}], nystrom.InputError, "there is no column 'text'; did you mean 'txt'"),
        ({"text": ["a", "b"], "label": ["x"]}, nystrom.InputError, "column 'text' has 2 values, 'label' 1"),
        ({"text": "the sea", "label": "a"}, TypeError, r"train\['text'\]: got 'the sea'"),
        (7, TypeError, "train: got 7 \\(int\\), expected a data frame"),
        ([("the sea", "a"), ["text", "label"]], nystrom.InputError, "train, row 1: is a header, as csv.reader"),
        (["the sea", 3], TypeError, "train, row 0: got 'the sea' \\(str\\), expected a dict or a tuple"),
    ],
)  # fmt: skip
def test_wrong_rows_are_named(task, rows, error, message):
    with pytest.raises(error, match=message):
        nystrom.finetune(task, train=rows, validation=ROWS)
    assert not list(task["data"]["cache"].glob("*.tmp-*"))
    assert not task["run_dir"].exists()


def records():
    frame = pytest.importorskip("pandas").DataFrame(as_columns())
    return frame[["label", "text"]].to_records(index=False)


def test_records_of_numpy_have_names(task, of_a_file):
    run = nystrom.finetune(task, train=records(), validation=records(), quiet=True)
    assert losses(run) == of_a_file


# https://github.com/PyPSA/linopy/issues/827
def test_columns_of_other_rows_are_refused(task):
    frame = pandas_frame()
    columns = {"text": frame.text, "label": frame.label.sort_values()}
    with pytest.raises(nystrom.InputError, match="'text' and 'label' have different indexes; give"):
        nystrom.finetune(task, train=columns, validation=ROWS)
    columns["label"] = columns["label"].to_numpy()
    assert len(list(rows_of(columns, "train", ["text", "label"]))) == len(ROWS)


# https://github.com/huggingface/course/pull/1047
def test_groups_are_no_rows(task, model):
    for frame in (pandas_frame().groupby("label"), polars_frame().group_by("label")):
        with pytest.raises(TypeError, match="GroupBy; its rows lie in groups; pass the table itse"):
            nystrom.finetune(task, train=frame, validation=ROWS)
        with pytest.raises(TypeError):
            model.encode(frame)


def test_columns_without_an_order_are_refused(task):
    columns = as_columns()
    texts = dict(enumerate(columns["text"]))
    for text in (texts, set(columns["text"]), collections.UserDict(texts), pandas_frame()):
        with pytest.raises(TypeError, match="expected a list of values"):
            nystrom.finetune(task, train={**columns, "text": text}, validation=ROWS)


# https://github.com/numpy/numpy/pull/10549
@pytest.mark.parametrize("form", ["npz", "UserDict", "MappingProxyType"])
def test_what_is_used_as_a_dict_has_columns(form, task, of_a_file, tmp_path):
    rows = as_columns()
    if form == "npz":
        np.savez(tmp_path / "rows.npz", **rows)
        rows = np.load(tmp_path / "rows.npz")
    elif form == "UserDict":
        rows = collections.UserDict(rows)
    else:
        rows = types.MappingProxyType(rows)
    assert losses(nystrom.finetune(task, train=rows, validation=ROWS, quiet=True)) == of_a_file


class ByPlace:
    """As data sets of torch are: they end by their length alone."""

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, at):
        return self.rows[at % len(self.rows)]


# https://github.com/pytorch/pytorch/issues/3636 https://github.com/pytorch/pytorch/issues/45040
def test_rows_end_by_their_length(task, of_a_file, model):
    run = nystrom.finetune(task, train=ByPlace(ROWS), validation=ByPlace(ROWS), quiet=True)
    assert losses(run) == of_a_file
    assert model.encode(ByPlace(["the sea", "old ships"])).shape == (2, 32)


def test_a_set_of_rows_is_refused(task, config, model):
    for call in (
        lambda: nystrom.finetune(task, train=set(ROWS), validation=ROWS),
        lambda: nystrom.pretrain(config, texts={"the sea", "old ships"}),
        lambda: nystrom.search(model, frozenset({"the sea", "old ships"}), "sea"),
    ):
        with pytest.raises(TypeError, match="set, which has no order; pass a list"):
            call()


def test_two_columns_of_one_name_in_arrow_are_refused(task):
    arrow = pytest.importorskip("pyarrow")
    texts, labels = as_columns().values()
    table = arrow.Table.from_arrays([texts, labels, labels], names=["text", "label", "text"])
    with pytest.raises(nystrom.InputError, match="two columns are called 'text'"):
        nystrom.finetune(task, train=table, validation=ROWS)


def test_files_that_name_classes_otherwise_are_refused(task, tmp_path):
    datasets = pytest.importorskip("datasets")
    for name, classes in (("a", ["calm", "rough"]), ("b", ["rough", "calm"])):
        labels = datasets.ClassLabel(names=classes)
        hub_dataset().cast_column("label", labels).to_parquet(tmp_path / f"{name}.parquet")
    with pytest.raises(nystrom.InputError, match="names the classes otherwise than"):
        nystrom.finetune(task, train=str(tmp_path / "*.parquet"), validation=ROWS)


def test_equal_parquet_files_count_each(task, tmp_path, capsys, parquet, program):
    for name in ("one/a", "two/a"):
        (tmp_path / name).parent.mkdir()
        parquet.write_table(arrow_table(), tmp_path / f"{name}.parquet")
    files = [tmp_path / "one/a.parquet", tmp_path / "two/a.parquet", tmp_path / "one/a.parquet"]
    for train in (files, tmp_path / "*/a.parquet"):
        nystrom.finetune(task, train=train, validation=ROWS, overwrite=True)
        assert "training: 120 examples" in capsys.readouterr().err
    # A copy belongs to its entry.
    cache = task["data"]["cache"]
    assert program.run("cache", cache).count("rows-") == len(list(Path(cache).glob("rows-*")))
    nystrom.finetune(task, train=files[::2], validation=ROWS, overwrite=True)
    assert "training: 60 examples" in capsys.readouterr().err


def test_files_may_differ_in_columns_that_are_not_read(task, of_a_file, tmp_path, parquet):
    table = arrow_table()
    parquet.write_table(table[:20].append_column("extra", [[1] * 20]), tmp_path / "a.parquet")
    parquet.write_table(table[20:], tmp_path / "b.parquet")
    run = nystrom.finetune(task, train=tmp_path / "*.parquet", validation=ROWS, quiet=True)
    assert losses(run) == of_a_file
    parquet.write_table(table[20:].drop_columns("label"), tmp_path / "b.parquet")
    with pytest.raises(nystrom.InputError, match="b.parquet': lacks the column 'label'"):
        nystrom.finetune(task, train=tmp_path / "*.parquet", validation=ROWS, overwrite=True)


def of_classes(names):
    datasets = pytest.importorskip("datasets")
    rows = {"text": as_columns()["text"], "label": [names.index(label) for _, label in ROWS]}
    return datasets.Dataset.from_dict(rows).cast_column("label", datasets.ClassLabel(names=names))


# https://github.com/huggingface/setfit/issues/462
@pytest.mark.parametrize("form", ["Dataset", "Arrow", "Parquet"])
@pytest.mark.parametrize("kind", ["classification", None])
def test_classes_keep_the_numbers_of_a_dataset(form, kind, task, tmp_path):
    names = ["rough", "none", "calm"]
    task["task"] = {"kind": kind}
    rows = of_classes(names)
    if form == "Arrow":
        rows = rows.data.table
    elif form == "Parquet":
        rows.to_parquet(tmp_path / "rows.parquet")
        rows = tmp_path / "rows.parquet"
    run = nystrom.finetune(task, train=rows, validation=rows, quiet=True)
    assert run.load().labels == names
    task["run_dir"] /= "next"
    again = {"train": of_classes(names[::-1]), "validation": 0.2, "quiet": True}
    kept = nystrom.finetune(task, model={"from": run}, **again)
    assert kept.load().labels == names
    options = {"model": {"from": run, "fresh_head": True}, "overwrite": True}
    assert nystrom.finetune(task, **options, **again).load().labels == names[::-1]


def test_tags_keep_the_numbers_of_a_dataset(task):
    datasets = pytest.importorskip("datasets")
    tags = datasets.Sequence(datasets.ClassLabel(names=["O", "B-X", "I-X"]))
    rows = {
        "tokens": [text.split() for text, _ in ROWS],
        "tags": [[int(word == "sea") for word in text.split()] for text, _ in ROWS],
    }
    rows = datasets.Dataset.from_dict(rows).cast_column("tags", tags)
    task["task"] = {"kind": "tokens"}
    run = nystrom.finetune(task, train=rows, validation=rows, quiet=True)
    assert run.load().labels == ["O", "B-X", "I-X"]


# https://github.com/huggingface/datasets/pull/6616
def test_bools_have_no_names_of_classes(task):
    table = hub_classes().data.table
    bools = pytest.importorskip("pyarrow").array([at % 2 == 0 for at in range(60)])
    table = table.set_column(table.schema.get_field_index("label"), "label", bools)
    assert nystrom.finetune(task, train=table, validation=table).load().labels == [False, True]


@pytest.mark.parametrize("state", ["[1]", '{"_data_files": []}', '{"_data_files": [3]}'])
def test_a_wrong_folder_of_save_to_disk_is_an_input_error(state, task, tmp_path):
    hub_classes().save_to_disk(tmp_path / "saved")
    (tmp_path / "saved" / "state.json").write_text(state)
    with pytest.raises(nystrom.InputError, match="saved' (is no folder of|holds no rows)"):
        nystrom.finetune(task, train=tmp_path / "saved", validation=ROWS)


@pytest.mark.parametrize("cache", ["/proc/none", "file", "file/below"])
def test_a_cache_that_cannot_be_written_is_named(cache, task, tmp_path):
    (tmp_path / "file").touch()
    task["data"]["cache"] = tmp_path / cache
    with pytest.raises(nystrom.InputError, match=f"{cache}': cannot be written: .*another data.c"):
        nystrom.finetune(task, train=ROWS, validation=ROWS)

    def lost():
        yield ROWS[0]
        raise ConnectionError("the server is gone")

    task["data"]["cache"] = tmp_path / "cache"
    with pytest.raises(ConnectionError, match="the server is gone"):
        nystrom.finetune(task, train=lost(), validation=ROWS)


def test_a_transform_is_refused(task):
    rows = hub_dataset().with_transform(lambda batch: batch)
    with pytest.raises(nystrom.InputError, match="has a transform"):
        nystrom.finetune(task, train=rows, validation=ROWS)


TIMES = np.arange(60).astype("datetime64[ns]")


def records_of_times():
    records = np.zeros(60, dtype=[("text", object), ("label", TIMES.dtype)])
    records["text"], records["label"] = as_columns()["text"], TIMES
    return records


# https://github.com/numpy/numpy/issues/8546 https://github.com/vaexio/vaex/issues/978
@pytest.mark.parametrize(
    "form",
    [
        lambda: {"text": as_columns()["text"], "label": TIMES},
        records_of_times,
        lambda: list(records_of_times()),
        lambda: {"text": as_columns()["text"], "label": [TIMES[at : at + 2] for at in range(60)]},
        lambda: {"text": as_columns()["text"], "label": TIMES - TIMES[0]},
    ],
)
@pytest.mark.parametrize("kind", ["classification", "regression"])
def test_times_are_no_labels(form, kind, task):
    task["task"] = {"kind": kind}
    with pytest.raises(TypeError, match="expected a str, a number or a bool"):
        nystrom.finetune(task, train=form(), validation=ROWS)


def test_options_are_plain_values(task):
    with pytest.raises(TypeError, match="expected a text, a number, a list or a dict"):
        nystrom.finetune(task, train=ROWS, validation=ROWS, task={"labels": {"calm", "rough"}})


def test_a_missing_value_of_pandas_is_named(task):
    frame = pandas_frame()
    frame.loc[3, "text"] = None
    with pytest.raises(TypeError, match="train, row 3, column 'text'.*dropna"):
        nystrom.finetune(task, train=frame, validation=ROWS)


def test_a_dictionary_of_parts_is_refused(task):
    parts = pytest.importorskip("datasets").DatasetDict({"train": hub_dataset()})
    with pytest.raises(TypeError, match=r"pass one of its parts: data\['train'\]"):
        nystrom.finetune(task, train=parts, validation=ROWS)


def test_two_columns_of_one_name_are_refused(task):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([["a", "b", "x"]], columns=["text", "text", "label"])
    with pytest.raises(nystrom.InputError, match="two columns are called 'text'"):
        nystrom.finetune(task, train=frame, validation=ROWS)


# ---- Folders ------------------------------------------------------------------------------------


def test_runs_without_a_name_have_folders_of_their_own(task, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    del task["run_dir"]
    first = nystrom.finetune(task, train=ROWS, validation=ROWS, quiet=True)
    second = nystrom.finetune(task, train=ROWS[1:], validation=ROWS, quiet=True)
    assert [first.run_dir, second.run_dir] == ["runs/finetuned-1", "runs/finetuned-2"]
    with pytest.raises(nystrom.InputError):
        nystrom.finetune(task, train=ROWS, validation=ROWS, training={"stepz": 1})
    with pytest.raises(TypeError):
        nystrom.finetune(task, train=[3], validation=ROWS)
    assert sorted(path.name for path in Path("runs").iterdir()) == ["finetuned-1", "finetuned-2"]


def test_overwriting_removes_the_old_run_alone(task):
    nystrom.finetune(task, train=ROWS, validation=ROWS, quiet=True)
    (task["run_dir"] / "notes.txt").write_text("mine")
    run = nystrom.finetune(task, train=ROWS[5:], validation=ROWS, quiet=True, overwrite=True)
    assert run.steps == 2 and (task["run_dir"] / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("step", [1, 2])
def test_the_next_call_ends_an_overwriting_that_was_killed(step, task):
    nystrom.finetune(task, train=ROWS, validation=ROWS, quiet=True)
    before = losses_of_folder(task["run_dir"])
    task["checkpoint"] = {"every": 1}
    options = {"train": ROWS[5:], "validation": ROWS, "quiet": True}
    killed_at(step, task, options | {"overwrite": True})
    assert len(list(task["run_dir"].glob(".replaced-*"))) == 1
    if step == 1:
        with pytest.raises(nystrom.InputError, match="holds a run with other settings"):
            nystrom.finetune(task, **options)
        assert losses_of_folder(task["run_dir"]) == before
        assert nystrom.load(task["run_dir"]).labels == ["calm", "rough"]
    else:
        assert nystrom.finetune(task, **options).steps == 2
        assert losses_of_folder(task["run_dir"]) != before
    assert not list(task["run_dir"].glob(".replaced-*"))


def test_a_folder_that_is_no_run_stays_as_it_is(task):
    for name in (".replaced-by-me", ".replaced-0123abcd"):
        (task["run_dir"] / name).mkdir(parents=True)
        (task["run_dir"] / name / "thesis.txt").write_text("mine")
    before = sorted(task["run_dir"].rglob("*"))
    for overwrite in (False, True):
        with pytest.raises(nystrom.InputError, match="is not empty and holds no run"):
            nystrom.finetune(task, train=ROWS, validation=ROWS, overwrite=overwrite)
        assert sorted(task["run_dir"].rglob("*")) == before


def test_a_refused_run_overwrites_nothing(task):
    nystrom.finetune(task, train=ROWS, validation=ROWS, quiet=True)
    run = Path(task["run_dir"])
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    wrong = [
        ({"label": "labell"}, {}),
        ({}, {"device": "gpu"}),
        ({}, {"on_step": 3}),
        ({}, {"model": {"from": run}}),
    ]
    for columns, options in wrong:
        with pytest.raises((nystrom.InputError, TypeError)):
            nystrom.finetune(
                task, train=as_columns(), validation=0.2, overwrite=True, **columns, **options
            )
        assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    assert [path.name for path in run.parent.glob("run*")] == ["run"]
    for place in (run, nystrom.load(run).path):
        task["model"] = {"from": place}
        with pytest.raises(nystrom.InputError, match="model.from: .* is of the run that overw"):
            nystrom.finetune(task, train=ROWS, validation=ROWS, overwrite=True)


def test_a_refused_run_leaves_the_types_of_labels(task):
    numbers = [(text, int(label == "calm")) for text, label in ROWS]
    nystrom.finetune(task, train=numbers, validation=numbers, quiet=True)
    with pytest.raises(nystrom.InputError, match="other settings"):
        bools = [(text, bool(label)) for text, label in numbers[5:]]
        nystrom.finetune(task, train=bools, validation=bools, quiet=True)
    assert nystrom.load(task["run_dir"]).labels == [0, 1]


@pytest.mark.parametrize(
    "types", ["5", "[1]", '{"0": {"a": 1}}', '{"0": 7, "1": 7}', '{"1": 1, "true": true}', "x", "["]
)
def test_wrong_types_of_labels_are_an_input_error(types, task, tmp_path):
    numbers = [(text, int(label == "calm")) for text, label in ROWS]
    model = nystrom.finetune(task, train=numbers, validation=numbers, quiet=True).load()
    model.save(tmp_path / "saved")
    (tmp_path / "saved" / "label_types.json").write_text(types * (1 if types != "[" else 100_000))
    with pytest.raises(nystrom.InputError, match="label_types.json': does not give the numbers"):
        nystrom.load(tmp_path / "saved")


def test_labels_of_another_type_are_no_more_of_the_run(task):
    numbers = [(text, int(label == "calm")) for text, label in ROWS]
    nystrom.finetune(task, train=numbers, validation=numbers, quiet=True)
    texts = [(text, str(label)) for text, label in numbers]
    with pytest.raises(nystrom.InputError, match="changed: the types of its labels"):
        nystrom.finetune(task, train=texts, validation=texts, quiet=True)
    run = nystrom.finetune(task, train=numbers, validation=numbers, quiet=True)
    assert run.load().labels == [0, 1]


def test_a_model_is_the_same_from_another_folder(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(trained.parent)
    model = nystrom.load(trained.name)
    monkeypatch.chdir(tmp_path)
    np.testing.assert_array_equal(copy.deepcopy(model).encode("sea"), model.encode("sea"))
    assert pickle.loads(pickle.dumps(model.tokenizer)).vocab_size == model.tokenizer.vocab_size


# https://github.com/apax-hub/apax/issues/190
def test_a_run_is_the_same_from_another_folder(task, tmp_path, monkeypatch):
    del task["run_dir"]
    runs = []
    for place, rows in (("one", ROWS), ("two", ROWS[9:])):
        (tmp_path / place).mkdir()
        monkeypatch.chdir(tmp_path / place)
        runs.append(nystrom.finetune(task, train=rows, validation=ROWS, quiet=True))
    assert [each.run_dir for each in runs] == 2 * ["runs/finetuned-1"]
    first = tmp_path / "one" / "runs" / "finetuned-1"
    for run in (runs[0], pickle.loads(pickle.dumps(runs[0]))):
        assert losses(run) == losses_of_folder(first)
        assert nystrom.evaluate(run, ROWS) == nystrom.evaluate(first, ROWS)
        assert run.load().path.startswith(str(first))


def test_a_model_keeps_the_task_of_a_replaced_run(task, tmp_path):
    model = nystrom.finetune(task, train=ROWS, validation=ROWS, quiet=True).load()
    before = nystrom.evaluate(model, ROWS)
    pairs = [(text, "old ships", label) for text, label in ROWS[:30]]
    options = {"pair": "second", "quiet": True, "overwrite": True}
    nystrom.finetune(task, train=pairs, validation=pairs, **options)
    assert model.predict("the sea")[0]["label"] in model.labels
    assert nystrom.evaluate(model, ROWS) == before
    model.save(tmp_path / "saved")
    assert nystrom.evaluate(tmp_path / "saved", ROWS) == before


def test_a_run_is_pickled(task):
    run = nystrom.finetune(task, train=ROWS, validation=ROWS, quiet=True)
    twin = pickle.loads(pickle.dumps(run))
    assert (twin.run_dir, twin.steps, twin.history) == (run.run_dir, run.steps, run.history)


def test_a_folder_without_a_run_is_not_overwritten(task):
    task["run_dir"].mkdir()
    (task["run_dir"] / "thesis.txt").write_text("mine")
    with pytest.raises(nystrom.InputError, match="is not empty and holds no run"):
        nystrom.finetune(task, train=ROWS, validation=ROWS, overwrite=True)
    assert [path.name for path in task["run_dir"].iterdir()] == ["thesis.txt"]
