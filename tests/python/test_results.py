"""What comes back: records, probabilities, copies, messages."""

import contextlib
import copy
import io
import json
import logging
import os
import pickle
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import nystrom
from conftest import lines

TEXTS = lines(70, seed=7)
EMBEDDINGS = "nystromformer.embeddings.word_embeddings.weight"


@pytest.fixture(scope="module")
def classes(classifier: Path) -> nystrom.Model:
    return nystrom.load(classifier)


# ---- Runs ---------------------------------------------------------------------------------------


def test_a_run_tells_its_history(config):
    seen = []
    run = nystrom.pretrain(config, quiet=True, on_evaluation=seen.append)
    assert [each["step"] for each in run.history] == list(range(1, 13))
    assert {"loss", "learning_rate", "grad_norm"} <= run.history[0].keys()
    assert [each["step"] for each in run.evaluations] == [6, 12]
    assert seen == run.evaluations
    assert run.best_value == min(each["validation_loss"] for each in run.evaluations)
    assert repr(run).startswith(f"nystrom.Run({run.run_dir!r}, 12 steps, best loss ")
    assert "<th>loss</th>" in run._repr_html_() and "12 steps" in run._repr_html_()
    assert run.load().fill_mask("the [MASK] was calm", top_k=1)


def test_a_finished_run_does_not_change():
    run = nystrom.Run("runs/a", 3, None, None, "loss")
    with pytest.raises(AttributeError, match="steps: got 4, but a finished run does not change"):
        run.steps = 4
    with pytest.raises(AttributeError, match="steps: cannot be deleted; a finished run does not"):
        del run.steps


def test_a_fifo_in_the_place_of_the_records_is_refused(tmp_path):
    os.mkfifo(tmp_path / "metrics.jsonl")
    with pytest.raises(nystrom.InputError, match="metrics.jsonl': is not a regular file"):
        nystrom.Run(str(tmp_path), 3, None, None, "loss").history


def test_part_of_a_record_of_a_killed_run_is_passed_over(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "loss": 2.0}\n{"step": 2, "lo')
    assert nystrom.Run(str(tmp_path), 3, None, None, "loss").history == [{"step": 1, "loss": 2.0}]


def test_the_history_is_a_table(config):
    pandas = pytest.importorskip("pandas")
    run = nystrom.pretrain(config, quiet=True, training={"steps": 3}, schedule={"warmup_steps": 1})
    assert list(pandas.DataFrame(run.history).loss) == [each["loss"] for each in run.history]


def test_what_an_observer_of_evaluations_raises_stops_the_run(config):
    def observer(metrics: dict[str, object]) -> None:
        raise LookupError(metrics["step"])

    with pytest.raises(LookupError, match="6"):
        nystrom.pretrain(config, on_evaluation=observer, quiet=True)
    assert (config["run_dir"] / "checkpoints" / "step-6").is_dir()
    assert nystrom.pretrain(config, quiet=True).steps == 12


# ---- Predictions --------------------------------------------------------------------------------


def test_probabilities_are_an_array(classes):
    found = classes.predict_proba(TEXTS)
    assert found.shape == (70, 2) and found.dtype == np.float64
    np.testing.assert_allclose(found.sum(axis=1), 1)
    best = [classes.labels[at] for at in found.argmax(axis=1)]
    predictions = classes.predict(TEXTS, top_k=1)
    assert best == [each[0]["label"] for each in predictions]
    np.testing.assert_array_equal(found.max(axis=1), [each[0]["score"] for each in predictions])
    assert classes.predict_proba([]).shape == (0, 2)
    np.testing.assert_allclose(classes.predict_proba(TEXTS[0]), found[0], atol=1e-5)


def test_a_masked_language_model_has_no_probabilities(model):
    assert model.labels == []
    with pytest.raises(nystrom.InputError, match="does not classify texts"):
        model.predict_proba(TEXTS)


def test_all_guesses_come_without_a_limit(model, classes):
    assert len(model.fill_mask("the [MASK]", top_k=None)) == 36
    assert len(classes.predict(TEXTS[0], top_k=None)) == 2


@pytest.mark.parametrize("with_tqdm", [True, False])
def test_progress_changes_no_result(model, classes, with_tqdm, monkeypatch, capsys):
    if with_tqdm:
        pytest.importorskip("tqdm")
    else:
        monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    for call in (
        lambda **o: model.encode(TEXTS, batch_size=1, **o).tolist(),
        lambda **o: classes.predict(TEXTS, batch_size=1, **o),
        lambda **o: model.fill_mask(["the [MASK]"] * 70, batch_size=1, **o),
    ):
        assert call(progress=True) == call()
        assert "70/70" in capsys.readouterr().err


def test_long_texts_are_cut_with_a_warning_or_refused(classes, capsys):
    long = " ".join(TEXTS)
    classes.predict(["the sea", long])
    assert "warning: 2 examples: 1 cut to 32 tokens" in capsys.readouterr().err
    with pytest.raises(nystrom.InputError, match="has more than the 32 tokens.*truncate=True"):
        classes.predict(["the sea", long], truncate=False)
    classes.predict(["the sea"], truncate=False)


def test_vectors_of_long_texts(model, capsys):
    texts = ["the sea", " ".join(TEXTS)]
    words = texts[1].split()
    short, windows = model.encode(texts)
    assert capsys.readouterr().err == ""
    beginning = model.encode(texts, truncate=True)
    assert "warning: 2 examples: 1 cut to 32 tokens" in capsys.readouterr().err
    np.testing.assert_array_equal(beginning[0], short)
    np.testing.assert_array_equal(beginning[1], model.encode(" ".join(words[:-1]), truncate=True))
    assert np.abs(beginning[1] - windows).max() > 1e-3
    with pytest.raises(nystrom.InputError, match="has more than the 32 tokens.*truncate=True"):
        model.encode(texts, truncate=False)
    np.testing.assert_array_equal(model.encode(["the sea"], truncate=False)[0], short)


# ---- Texts --------------------------------------------------------------------------------------


def frames():
    yield {"text": ["the sea"], "label": [1]}
    for name in ("pandas", "polars"):
        with contextlib.suppress(ImportError):
            yield __import__(name).DataFrame({"text": ["the sea"], "label": [1]})
    with contextlib.suppress(ImportError):
        yield __import__("pyarrow").table({"text": ["the sea"], "label": [1]})


@pytest.mark.parametrize("call", ["encode", "predict", "fill_mask", "predict_proba"])
def test_tables_are_no_texts(call, classes, model):
    it = model if call in ("encode", "fill_mask") else classes
    for frame in frames():
        with pytest.raises(TypeError, match=r"pass one column, such as data\['text'\]") as raised:
            getattr(it, call)(frame)
        assert type(frame).__name__ in str(raised.value)


def test_columns_are_texts(model):
    expected = model.encode(TEXTS)
    for module, name in (("pandas", "Series"), ("polars", "Series"), ("numpy", "array")):
        with contextlib.suppress(ImportError):
            column = getattr(__import__(module), name)(TEXTS)
            np.testing.assert_array_equal(model.encode(column), expected)


@pytest.mark.parametrize(
    "texts, message",
    [
        (["the sea", None], r"texts\[1\]: got None, expected a str; leave out what is missing"),
        (["the sea", float("nan")], r"texts\[1\]: got nan \(float\), expected a str; leave out"),
        (["the sea", 3], r"texts\[1\]: got 3 \(int\), expected a str; convert it: str\(value\)"),
        ([["the", "sea"]], r"texts\[0\]: got \['the', 'sea'\] \(list\), expected a str; give one"),
        ([b"the sea"], r"texts\[0\]: got b'the sea' \(bytes\).*decode it"),
        (b"the sea", "texts: got bytes; decode it"),
        (7, r"texts: got 7 \(int\), expected a str or several"),
        (None, "texts: got None, expected a str or several"),
    ],
)
def test_what_is_no_text_is_named(model, classes, texts, message):
    for call in (model.encode, model.fill_mask, classes.predict, model.tokenizer):
        with pytest.raises(TypeError, match=message):
            call(texts)


def test_half_a_character_is_named(model):
    with pytest.raises(nystrom.InputError, match=r"texts\[1\]: is no Unicode text: character 2"):
        model.encode(["sea", "a \ud83d"])


def test_pairs_are_named_too(classes):
    with pytest.raises(TypeError, match=r"pairs\[1\]: got 3 \(int\)"):
        classes.predict(["a", "b"], ["c", 3])


# ---- Weights ------------------------------------------------------------------------------------


@pytest.fixture
def changed(trained: Path) -> nystrom.Model:
    """A model that is not that of its folder any more."""
    model = nystrom.load(trained)
    model.parameters()[EMBEDDINGS][7] += 1
    return model


def logits(model: nystrom.Model) -> np.ndarray:
    return model([[2, 7, 3]])["logits"]


def test_what_is_written_has_the_weights_of_the_moment(changed, model, tmp_path):
    assert not np.array_equal(logits(changed), logits(model))
    changed.export(tmp_path / "exported")
    changed.save(tmp_path / "saved")
    for folder in ("exported", "saved"):
        np.testing.assert_array_equal(logits(nystrom.load(tmp_path / folder)), logits(changed))


def test_a_saved_model_keeps_its_task(classes, tmp_path):
    classes.save(tmp_path / "saved")
    assert nystrom.load(tmp_path / "saved").predict(TEXTS) == classes.predict(TEXTS)
    with pytest.raises(nystrom.InputError, match="not empty"):
        classes.save(tmp_path / "saved")


def test_a_config_of_another_program_is_not_saved(classes, tmp_path):
    classes.export(tmp_path / "exported")
    (tmp_path / "exported" / "config.yaml").write_text("lines: 1\n")
    nystrom.load(tmp_path / "exported").save(tmp_path / "saved")
    assert not (tmp_path / "saved" / "config.yaml").exists()
    assert nystrom.load(tmp_path / "saved").predict(TEXTS) == classes.predict(TEXTS)


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, copy.copy, lambda m: pickle.loads(pickle.dumps(m))]
)
def test_copies_have_the_weights_of_the_moment(changed, model, copied):
    for original in (changed, model):
        np.testing.assert_array_equal(logits(copied(original)), logits(original))


# https://github.com/skorch-dev/skorch/issues/848 https://github.com/aidotse/LeakPro/pull/415
def test_a_model_whose_folder_was_replaced_is_itself(config, tmp_path):
    model = nystrom.pretrain(config, quiet=True).load()
    loss, expected = nystrom.evaluate(model, TEXTS)["loss"], logits(model)
    pickled, twin = pickle.dumps(model), copy.deepcopy(model)
    again = nystrom.pretrain(config, seed=9, quiet=True, overwrite=True)
    assert again.load().path == model.path and nystrom.evaluate(again, TEXTS)["loss"] != loss
    for each in (model, twin):
        np.testing.assert_array_equal(logits(each), expected)
        assert nystrom.evaluate(each, TEXTS)["loss"] == loss
    model.export(tmp_path / "exported")
    assert nystrom.evaluate(tmp_path / "exported", TEXTS)["loss"] == loss
    with pytest.raises(nystrom.InputError, match="holds another model than the one that was pick"):
        pickle.loads(pickled)
    for copied in (pickle.dumps, copy.deepcopy):
        with pytest.raises(nystrom.InputError, match="holds another model by now.*model.save"):
            copied(model)
    assert pickle.dumps(again.load()) != pickled


def test_a_model_whose_folder_is_gone_is_saved(config, tmp_path):
    model = nystrom.pretrain(config, quiet=True).load()
    loss = nystrom.evaluate(model, TEXTS)["loss"]
    shutil.rmtree(model.path)
    assert nystrom.evaluate(model, TEXTS)["loss"] == loss
    model.save(tmp_path / "saved")
    model.export(tmp_path / "exported")
    for folder in ("saved", "exported"):
        assert nystrom.evaluate(tmp_path / folder, TEXTS)["loss"] == loss


def test_a_model_of_shards_whose_folder_was_replaced_is_known(trained, tmp_path):
    folder, shard = tmp_path / "model", "model-00001-of-00001.safetensors"
    nystrom.load(trained).export(folder)
    (folder / "model.safetensors").rename(folder / shard)
    stored = (folder / shard).read_bytes()
    header = json.loads(stored[8 : 8 + int.from_bytes(stored[:8], "little")])
    names = {name: shard for name in header if name != "__metadata__"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    model = nystrom.load(folder)
    copy.copy(model)
    (folder / shard).touch()
    with pytest.raises(nystrom.InputError, match="holds another model by now"):
        copy.copy(model)


def test_a_pickle_of_an_unchanged_model_is_small(trained):
    assert len(pickle.dumps(nystrom.load(trained))) < 1000


def test_a_pickle_keeps_the_options(trained):
    model = nystrom.load(trained, dtype="bf16", model={"attention": {"num_landmarks": 2}})
    model.parameters()
    twin = pickle.loads(pickle.dumps(model))
    assert twin.config["num_landmarks"] == 2
    assert twin.fill_mask("the [MASK]") == model.fill_mask("the [MASK]")


@pytest.mark.parametrize("dtype", ["float64", np.float64, np.dtype("float64"), "f64"])
def test_element_types_have_the_names_of_numpy(trained, dtype):
    assert logits(nystrom.load(trained, dtype=dtype)).dtype == np.float64


def test_element_types_have_the_names_of_torch(trained):
    """An object that prints as torch's do."""
    named = type("dtype", (), {"__str__": lambda self: "torch.bfloat16"})()
    assert not hasattr(nystrom.load(trained, dtype=named).parameters()[EMBEDDINGS], "tolist")


# ---- Tokenizers ---------------------------------------------------------------------------------


def test_texts_become_inputs(model):
    tokenizer = model.tokenizer
    inputs = tokenizer(TEXTS[:3])
    assert {each.dtype for each in inputs.values()} == {np.dtype(np.int64)}
    for row, text in enumerate(TEXTS[:3]):
        ids = tokenizer.encode(text).ids
        assert inputs["input_ids"][row, : len(ids)].tolist() == ids
        assert inputs["attention_mask"][row].sum() == len(ids)
    assert model(**inputs)["last_hidden_state"].shape == (*inputs["input_ids"].shape, 32)
    assert tokenizer("the sea")["input_ids"].shape[0] == 1


def test_inputs_have_a_length(model):
    tokenizer = model.tokenizer
    assert tokenizer(TEXTS, max_length=6)["input_ids"].shape == (70, 6)
    padded = tokenizer(TEXTS[:1], padding="max_length", max_length=80)
    assert padded["input_ids"].shape == (1, 80)
    ends = {row[row > 0][-1] for row in tokenizer(TEXTS, max_length=6)["input_ids"]}
    assert ends == {tokenizer.token_to_id("[SEP]")}
    with pytest.raises(nystrom.InputError, match="padding False: arrays are padded"):
        tokenizer(TEXTS, padding=False)
    with pytest.raises(nystrom.InputError, match="max_length 1; the special tokens alone are 2"):
        tokenizer(TEXTS, max_length=1)


def test_pairs_become_inputs(model):
    inputs = model.tokenizer(TEXTS[:2], TEXTS[2:4])
    assert set(np.unique(inputs["token_type_ids"])) <= {0, 1}
    assert model.tokenizer(TEXTS[:2], TEXTS[2:4], max_length=9)["input_ids"].shape == (2, 9)
    with pytest.raises(nystrom.InputError, match="pairs: got 1, expected 2"):
        model.tokenizer(TEXTS[:2], TEXTS[:1])


def test_pairs_need_a_template_of_both_texts(model, tmp_path):
    folder = shutil.copytree(model.path, tmp_path / "alone")
    parts = json.loads((folder / "tokenizer.json").read_text())
    template = [
        {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
    ]
    special = {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]}}
    parts["post_processor"] = {
        "type": "TemplateProcessing",
        "single": template,
        "pair": template,
        "special_tokens": special,
    }
    (folder / "tokenizer.json").write_text(json.dumps(parts))
    tokenizer = nystrom.Tokenizer(folder)
    assert tokenizer(TEXTS[:1])["input_ids"].shape[0] == 1
    with pytest.raises(nystrom.InputError, match="leaves the second out; expected both"):
        tokenizer(TEXTS[:1], TEXTS[2:3])


def test_a_tokenizer_is_pickled_by_its_folder(model):
    twin = pickle.loads(pickle.dumps(model.tokenizer))
    assert twin.encode(TEXTS[0]).ids == model.tokenizer.encode(TEXTS[0]).ids
    assert repr(twin) == f"nystrom.Tokenizer({model.path!r}, 36 tokens)"


# ---- Messages -----------------------------------------------------------------------------------


def test_redirected_output_has_the_messages(config):
    with contextlib.redirect_stderr(io.StringIO()) as output:
        nystrom.pretrain(config)
    assert "step 12/12" in output.getvalue()
    assert "step 12: validation loss" in output.getvalue()


def test_logging_has_the_messages(config, caplog):
    with caplog.at_level(logging.INFO, logger="nystrom"):
        nystrom.pretrain(config)
    assert {record.name for record in caplog.records} == {"nystrom"}
    assert any("step 12: validation loss" in record.message for record in caplog.records)


# https://github.com/deepset-ai/FARM/issues/217 https://github.com/lipixun/tftrainer/issues/18
def test_a_message_that_cannot_be_written_ends_nothing(config, monkeypatch, caplog):
    class Broken(logging.Handler):
        def emit(self, record):
            raise RuntimeError("the log's server is gone")

        write = flush = emit

    handler = Broken()
    monkeypatch.setattr(sys, "stderr", handler)
    logging.getLogger("nystrom").addHandler(handler)
    try:
        with caplog.at_level(logging.INFO, logger="nystrom"):
            assert nystrom.pretrain(config).steps == 12
    finally:
        logging.getLogger("nystrom").removeHandler(handler)


def test_quiet_is_quiet(config, capsys):
    nystrom.pretrain(config, quiet=True)
    assert capsys.readouterr().err == ""


def test_messages_are_in_the_words_of_python(classes):
    from nystrom.errors import in_words_of_python as words

    assert words("--top-k 3: the model") == "top_k 3: the model"
    assert words("give --pair TEXT") == "give pairs"
    assert words("; --set data.sequence_length=32") == "; data={'sequence_length': 32}"
    assert words('--set task.labels=["a", "b"]; x') == 'task={\'labels\': ["a", "b"]}; x'
    assert words("--set model.attention.semantics=x") == "model={'attention': {'semantics': 'x'}}"
    assert words("--set task.columns.pair=null") == "task={'columns': {'pair': None}}"
    assert words("--set a.b=-1.5e-3, or") == "a={'b': -1.5e-3}, or"
    assert words('--set training={"a": 1}: unknown') == 'training={"a": 1}: unknown'
    nested = '{"0": {"a": 1}, "30": 2}'
    assert words(f"--set a.b={nested}: x") == f"a={{'b': {nested}}}: x"
    assert words("models--a--set: no such folder") == "models--a--set: no such folder"
    assert words("/a --text b: no such folder") == "/a --text b: no such folder"
    assert words("see nystrom search --help") == "see help(nystrom.search)"
    assert (
        words("'a --b': (nystrom evaluate x --text y)") == "'a --b': (nystrom evaluate x --text y)"
    )
    with pytest.raises(nystrom.InputError, match="has single texts.*leave pairs out"):
        classes.predict("the sea", "old")


def test_errors_are_told_where_signals_of_children_are_ignored(classes):
    import signal

    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with pytest.raises(nystrom.InputError, match="no such folder"):
            nystrom.info("absent")
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_a_model_shows_itself(classes):
    assert "<th>labels</th><td>calm, rough</td>" in classes._repr_html_()
