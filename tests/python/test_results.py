"""What comes back: records, probabilities, and refusals of what is no text."""

import contextlib
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
    run = nystrom.pretrain(config, quiet=True)
    assert [each["step"] for each in run.history] == list(range(1, 13))
    assert {"loss", "learning_rate", "grad_norm"} <= run.history[0].keys()
    assert [each["step"] for each in run.evaluations] == [6, 12]
    assert run.best_value == min(each["validation_loss"] for each in run.evaluations)
    assert repr(run).startswith(f"nystrom.Run({run.run_dir!r}, 12 steps, best loss ")
    assert "<th>loss</th>" in run._repr_html_() and "12 steps" in run._repr_html_()
    assert run.load().fill_mask("the [MASK] was calm", top_k=1)


def test_the_history_is_a_table(config):
    pandas = pytest.importorskip("pandas")
    run = nystrom.pretrain(config, quiet=True, training={"steps": 3}, schedule={"warmup_steps": 1})
    assert list(pandas.DataFrame(run.history).loss) == [each["loss"] for each in run.history]


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
    for call in (model.encode, model.fill_mask, classes.predict):
        with pytest.raises(TypeError, match=message):
            call(texts)


def test_half_a_character_is_named(model):
    with pytest.raises(nystrom.InputError, match=r"texts\[1\]: is no Unicode text: character 2"):
        model.encode(["sea", "a \ud83d"])


def test_pairs_are_named_too(classes):
    with pytest.raises(TypeError, match=r"pairs\[1\]: got 3 \(int\)"):
        classes.predict(["a", "b"], ["c", 3])


# ---- Models ------------------------------------------------------------------------------------


def logits(model: nystrom.Model) -> np.ndarray:
    return model([[2, 7, 3]])["logits"]


@pytest.mark.parametrize("dtype", ["float64", np.float64, np.dtype("float64"), "f64"])
def test_element_types_have_the_names_of_numpy(trained, dtype):
    assert logits(nystrom.load(trained, dtype=dtype)).dtype == np.float64


def test_element_types_have_the_names_of_torch(trained):
    """An object that prints as torch's do."""
    named = type("dtype", (), {"__str__": lambda self: "torch.bfloat16"})()
    assert not hasattr(nystrom.load(trained, dtype=named).parameters()[EMBEDDINGS], "tolist")


def test_an_export_of_changed_weights_is_refused(trained, tmp_path):
    model = nystrom.load(trained)
    parameters = model.parameters()
    model.export(tmp_path / "unchanged")
    parameters[EMBEDDINGS][7] += 1
    with pytest.raises(nystrom.InputError, match="word_embeddings.weight: parameters.. let it be changed"):
        model.export(tmp_path / "changed")
    assert not (tmp_path / "changed").exists()
