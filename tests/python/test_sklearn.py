"""The estimators of scikit-learn. They are left out where that is not installed."""

import pickle

import numpy as np
import pytest

from conftest import lines

sklearn = pytest.importorskip("sklearn")

from sklearn.base import clone  # noqa: E402
from sklearn.exceptions import NotFittedError  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.model_selection import GridSearchCV, cross_val_score  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.utils import estimator_checks  # noqa: E402

from nystrom.sklearn import Classifier, Embedder, Regressor  # noqa: E402

TEXTS = lines(80, seed=11)
CALM = np.array(["calm" if "calm" in text else "rough" for text in TEXTS])
OPTIONS = {"training": {"steps": 4, "epochs": None, "dtype": "f32"},
           "schedule": {"warmup_steps": 1}, "logging": {"tensorboard": False}}  # fmt: skip


@pytest.fixture
def classifier(trained, tmp_path, monkeypatch) -> Classifier:
    monkeypatch.chdir(tmp_path)
    return Classifier(trained, options=OPTIONS)


@pytest.mark.parametrize("labels", [CALM, (CALM == "calm"), (CALM == "calm") * 3, list(CALM)])
def test_a_classifier_learns_labels_of_any_type(classifier, labels):
    fitted = classifier.fit(TEXTS, labels)
    assert fitted is classifier
    np.testing.assert_array_equal(fitted.classes_, np.unique(labels))
    predicted = fitted.predict(TEXTS)
    assert set(predicted.tolist()) <= set(np.asarray(labels).tolist())
    probabilities = fitted.predict_proba(TEXTS)
    assert probabilities.shape == (80, 2)
    np.testing.assert_array_equal(predicted, fitted.classes_[probabilities.argmax(axis=1)])
    assert 0 <= fitted.score(TEXTS, labels) <= 1


def test_a_fitted_classifier_is_pickled(classifier):
    twin = pickle.loads(pickle.dumps(classifier.fit(TEXTS, CALM)))
    np.testing.assert_array_equal(twin.predict_proba(TEXTS), classifier.predict_proba(TEXTS))


def test_a_clone_is_not_fitted(classifier):
    copy = clone(classifier.fit(TEXTS, CALM))
    assert copy.get_params() == classifier.get_params()
    with pytest.raises(NotFittedError):
        copy.predict(TEXTS)


def test_classifiers_are_cross_validated(classifier):
    assert cross_val_score(classifier, TEXTS, CALM, cv=2).shape == (2,)


def test_columns_of_a_table_are_texts(classifier):
    X = np.array(TEXTS, dtype=object)
    one = classifier.fit(X[:, None], CALM).predict(X[:, None])
    np.testing.assert_array_equal(one, classifier.predict(X))
    pairs = np.column_stack([X, X])
    assert classifier.fit(pairs, CALM).predict(pairs).shape == (80,)


def test_columns_of_pairs_keep_their_order(classifier):
    pandas = pytest.importorskip("pandas")
    pairs = pandas.DataFrame({"a": TEXTS, "b": TEXTS[::-1]})
    classifier.fit(pairs, CALM)
    with pytest.raises(ValueError, match="the columns are b, a; expected those passed to fit"):
        classifier.predict(pairs[["b", "a"]])


# https://github.com/scikit-learn/scikit-learn/pull/24660
def test_a_column_goes_by_its_name(classifier):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"review": TEXTS, "author": "a"})
    classifier.fit(frame[["review"]], CALM)
    assert classifier.predict(frame["review"]).shape == (80,)
    with pytest.raises(ValueError, match="X: the columns are author; expected those passed to fit"):
        classifier.predict(frame[["author"]])


# https://github.com/NVIDIA/cuml/pull/8652
def test_a_fit_that_fails_leaves_the_earlier_one(classifier):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": TEXTS, "b": TEXTS[::-1]})
    before = classifier.fit(frame, CALM).predict(frame)
    classifier.set_params(options={"training": {"stepz": 1}})
    for labels in (CALM == "calm", np.eye(3)[np.arange(80) % 3]):
        with pytest.raises(ValueError, match="stepz"):
            classifier.fit(frame[["b", "a"]], labels)
    np.testing.assert_array_equal(classifier.predict(frame), before)


# https://github.com/EducationalTestingService/skll/pull/297
def test_a_parameter_is_no_option_too(classifier):
    classifier.set_params(options={"optimizer": {"learning_rate": 1e-2}}, learning_rate=1e-5)
    with pytest.raises(ValueError, match="optimizer.learning_rate is the parameter learning_rate"):
        classifier.fit(TEXTS, CALM)


# https://github.com/numpy/numpy/issues/26669
def test_a_mask_is_not_lost(classifier, trained):
    texts = np.ma.masked_array(TEXTS, mask=CALM == "calm")
    fitted = Classifier(trained, options=OPTIONS).fit(TEXTS, CALM)
    for call in (
        lambda: classifier.fit(TEXTS, np.ma.masked_array(CALM, mask=CALM == "calm")),
        lambda: classifier.fit(texts, CALM),
        lambda: fitted.predict(texts),
        lambda: fitted.predict_proba(texts),
        lambda: Embedder(trained).fit().transform(texts),
    ):
        with pytest.raises(ValueError, match="would lose its mask"):
            call()


@pytest.mark.parametrize("form", ["array", "frame"])
def test_a_classifier_gives_any_number_of_labels(form, classifier):
    metrics = pytest.importorskip("sklearn.metrics")
    y = np.array([[word in text.split() for word in ("calm", "ships", "men")] for text in TEXTS])
    y = y.astype(int)
    if form == "frame":
        y = pytest.importorskip("pandas").DataFrame(y, columns=["calm", "ships", "men"])
    fitted = classifier.fit(TEXTS, y)
    assert fitted.classes_.tolist() == (list(y.columns) if form == "frame" else [0, 1, 2])
    predicted = fitted.predict(TEXTS)
    np.testing.assert_array_equal(predicted, fitted.predict_proba(TEXTS) >= 0.5)
    assert fitted.score(TEXTS, y) == metrics.accuracy_score(y, predicted)
    with pytest.raises(ValueError, match="it holds 0 and 1 alone"):
        classifier.fit(TEXTS, np.full((80, 2), 2))


@pytest.mark.parametrize("threshold", [0.01, 0.99])
def test_labels_are_those_from_the_threshold_on(threshold, classifier):
    labels = np.zeros((80, 2), dtype=int)
    labels[CALM == "calm", 0] = labels[::2, 1] = 1
    classifier.options = OPTIONS | {"task": {"threshold": threshold}}
    predicted = classifier.fit(TEXTS, labels).predict(TEXTS)
    assert (predicted == (threshold < 0.5)).all()


def test_a_label_may_have_no_text(classifier):
    labels = np.zeros((80, 3), dtype=int)
    labels[CALM == "calm", 0] = labels[::2, 1] = 1
    assert classifier.fit(TEXTS, labels).predict(TEXTS).shape == (80, 3)


def test_columns_of_one_name_are_refused(classifier):
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="two columns have one name"):
        classifier.fit(pandas.DataFrame(np.c_[TEXTS, TEXTS], columns=["a", "a"]), CALM)


def test_seeds_are_those_of_scikit_learn(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed in (None, np.random.RandomState(1), np.int64(3)):
        Classifier(trained, options=OPTIONS, random_state=seed).fit(TEXTS, CALM)


def test_a_regressor_learns_numbers(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lengths = [len(text) / 10 for text in TEXTS]
    fitted = Regressor(trained, options=OPTIONS, run_dir="runs/lengths").fit(TEXTS, lengths)
    assert fitted.predict(TEXTS).shape == (80,)
    fitted.fit(TEXTS[:40], lengths[:40])  # in the same folder


def test_an_embedder_feeds_other_estimators(trained, model):
    pipeline = make_pipeline(Embedder(trained), LogisticRegression())
    assert pipeline.fit(TEXTS, CALM).score(TEXTS, CALM) > 0.5
    np.testing.assert_array_equal(pipeline[0].transform(TEXTS), model.encode(TEXTS))
    search = GridSearchCV(pipeline, {"embedder__pooling": ["mean", "cls"]}, cv=2)
    assert search.fit(TEXTS, CALM).best_params_["embedder__pooling"] in ("mean", "cls")
    assert len(pipeline[0].get_feature_names_out()) == 32


@pytest.mark.parametrize(
    "check",
    [
        "check_estimator_cloneable",
        "check_estimator_get_tags_default_keys",
        "check_estimator_repr",
        "check_get_params_invariance",
        "check_no_attributes_set_in_init",
        "check_parameters_default_constructible",
        "check_set_params",
        "check_valid_tag_types",
        "check_estimator_tags_renamed",
        "check_mixin_order",
    ],
)
@pytest.mark.parametrize("estimator", [Classifier, Regressor, Embedder])
def test_estimators_keep_the_conventions(estimator, check):
    if not hasattr(estimator_checks, check):
        pytest.skip(f"this scikit-learn has no {check}")
    getattr(estimator_checks, check)(estimator.__name__, estimator())


@pytest.mark.parametrize(
    "X, y, message",
    [
        (TEXTS, CALM[:5], "X has 80 texts, and y 5 values"),
        (TEXTS, ["calm"] * 80, "got 1 class; a classifier needs at least 2"),
        (TEXTS, None, "requires y to be passed, but the target y is None"),
        ("the sea", ["calm", "rough"], "got one text, expected several"),
        ([], [], "got 0 class"),
        (TEXTS[:2], [["a"], ["a", "b"]], "MultiLabelBinarizer"),
        (np.zeros((2, 2, 2)), ["a", "b"], "expected \\[texts\\] or \\[texts, 2\\]"),
    ],
)
def test_wrong_input_is_a_value_error(classifier, X, y, message):
    with pytest.raises(ValueError, match=message):
        classifier.fit(X, y)


# https://github.com/scikit-learn/scikit-learn/issues/22628
@pytest.mark.parametrize(
    "form", [list, lambda y: np.array(y, dtype=object), lambda y: [[each] for each in y]]
)
@pytest.mark.parametrize(
    "other, message",
    [
        (float("nan"), r"y\[3\]: the class is missing"),
        (None, r"y\[3\]: the class is missing"),
        (1, r"y\[3\]: the class 1 \(int\) is of another type than 'calm' \(str\) before"),
        (True, r"y\[3\]: the class True \(bool\) is of another type"),
    ],
)
def test_classes_have_one_type(form, other, message, classifier):
    with pytest.raises(ValueError, match=message):
        classifier.fit(TEXTS[:4], form(["calm", "rough", "calm", other]))


# https://github.com/scikit-learn/scikit-learn/issues/10590
@pytest.mark.parametrize("kind", ["datetime64[D]", "datetime64[ns]", "timedelta64[s]", "complex"])
@pytest.mark.parametrize("estimator", [Classifier, Regressor])
def test_times_and_complex_numbers_are_no_targets(estimator, kind, trained):
    with pytest.raises(ValueError, match=f"y: got {kind.split('[')[0]}.*expected texts, numbers"):
        estimator(trained).fit(TEXTS, np.arange(80).astype(kind))


def test_numbers_are_no_texts(classifier):
    with pytest.raises(TypeError, match=r"X\[0\]: got 1.0 \(float\), expected a str"):
        classifier.fit(np.ones(4), [0, 1, 0, 1])
