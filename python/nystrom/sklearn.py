"""Estimators of scikit-learn: Classifier, Regressor and Embedder.

    Classifier("runs/mine").fit(texts, labels).predict(["A gripping film."])

X are texts: a list, an array or a column, or a table of one column; of two for pairs of texts. A
fitted estimator has its model in `model_`, and is pickled by the model's path.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from numbers import Integral

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from nystrom._texts import described, is_missing, require_no_mask, texts_of
from nystrom.model import Model, load
from nystrom.runs import finetune

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

    Columns = tuple[list[str], list[str] | None]


def _columns(X: Any, fitted: Sequence[Any] | None = None) -> Columns:
    """The texts, and the second texts of pairs. `fitted` are the names of a table's columns at the
    time of fit."""
    if isinstance(X, str):
        raise ValueError("X: got one text, expected several: [text]")
    names = _names(X)
    if names is not None:
        shown = list(map(str, names))
        if len(set(shown)) < len(names):
            raise ValueError(f"X: two columns have one name: {', '.join(shown)}")
        if fitted is not None and shown != list(map(str, fitted)):
            raise ValueError(
                f"X: the columns are {', '.join(shown)}; expected those passed to fit, in their "
                f"order: {', '.join(map(str, fitted))}"
            )
        parts = [X[name] for name in names]
        parts = [list(p.to_pylist() if hasattr(p, "to_pylist") else p) for p in parts]
    else:
        require_no_mask(X)
        array = np.asarray(X, dtype=object)
        if array.ndim == 1:
            return texts_of(array.tolist(), "X"), None
        if array.ndim != 2:
            raise ValueError(f"X: got the shape {array.shape}, expected [texts] or [texts, 2]")
        parts = list(map(list, zip(*array.tolist()))) if len(array) else [[]] * array.shape[1]
    if len(parts) not in (1, 2):
        raise ValueError(f"X: got {len(parts)} columns, expected one, or two for pairs of texts")
    texts = [texts_of(part, f"X, column {at}") for at, part in enumerate(parts)]
    return texts[0], texts[1] if len(texts) == 2 else None


def _names(X: Any) -> list[Any] | None:
    """The names of a table's columns; None for what is no table."""
    if not hasattr(X, "columns"):
        return None
    return list(X.column_names if hasattr(X, "column_names") else X.columns)


def _targets(y: Any) -> NDArray[Any]:
    """y as an array. Throws a ValueError for what an array would make another value of."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    require_no_mask(y)
    rows = y if getattr(y, "ndim", 1) == 1 else ()
    if any(
        isinstance(row, (set, frozenset))
        or isinstance(row, (list, tuple))
        and (len(row) != 1 or not isinstance(y, (list, tuple)))
        and any(isinstance(each, str) for each in row)
        for row in rows
    ):
        raise ValueError(
            "y: got lists of labels; make columns of 0 and 1 of them: "
            "MultiLabelBinarizer().fit_transform(y)"
        )
    values = np.asarray(y)
    if values.dtype.kind in "mMc":
        raise ValueError(f"y: got {values.dtype}, expected texts, numbers or bools")
    return values


def _require_classes(y: Any) -> None:
    """Throws a ValueError for a class that is missing, or of another type than the first: an array
    of a list with texts has texts alone."""
    values = np.asarray(y, dtype=object).ravel()
    for at, value in enumerate(values):
        if is_missing(value):
            raise ValueError(f"y[{at}]: the class is missing; leave out what is, as dropna() does")
        if _type_of(value) is not _type_of(values[0]):
            raise ValueError(
                f"y[{at}]: the class {described(value)} is of another type than "
                f"{described(values[0])} before; make all of one type"
            )


def _type_of(value: Any) -> type:
    """That of a class: str, bool, or object for numbers."""
    if isinstance(value, (bool, np.bool_)):
        return bool
    return str if isinstance(value, str) else object


class _Text(BaseEstimator):
    """What all estimators share: they take texts."""

    model_: Model

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        tags.no_validation = True
        return tags


# Parameters that are options of a run.
_options_of = {
    "epochs": ("training", "epochs"),
    "batch_size": ("training", "batch_size"),
    "learning_rate": ("optimizer", "learning_rate"),
    "sequence_length": ("data", "sequence_length"),
}


class _Finetuned(_Text):
    """An estimator that fine-tunes a model."""

    def __init__(
        self,
        model: str | os.PathLike[str] = "runs/base",
        *,
        epochs: float = 3,
        learning_rate: float | None = None,
        batch_size: int = 16,
        sequence_length: int | None = None,
        validation_fraction: float | None = 0.1,
        random_state: Any = 0,
        run_dir: str | os.PathLike[str] | None = None,
        device: str = "cpu",
        quiet: bool = True,
        options: dict[str, Any] | None = None,
    ) -> None:
        """`model` is what nystrom.load opens. learning_rate None: the default of the model's width.
        validation_fraction: the share of the texts that decides the best epoch; None: the training
        texts do. run_dir: the folder of the run, which fit writes anew; None: one of its own for
        each fit. `options` are sections of a run's configuration: {"training": {"dtype":
        "f32"}}."""
        self.model = model
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.sequence_length = sequence_length
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.run_dir = run_dir
        self.device = device
        self.quiet = quiet
        self.options = options

    def _require_one_source(self) -> None:
        """Throws a ValueError for a parameter that `options` would replace."""
        defaults = inspect.signature(type(self).__init__).parameters
        for name, (section, key) in _options_of.items():
            options = (self.options or {}).get(section)
            given = getattr(self, name) != defaults[name].default
            if given and isinstance(options, Mapping) and key in options:
                raise ValueError(f"options: {section}.{key} is the parameter {name}; leave one out")

    def _fit(self, X: Any, labels: list[Any], task: dict[str, Any]) -> None:
        """What it sets, and its callers after it, is set once the run is over: a fit that fails
        leaves an earlier one."""
        texts, pairs = _columns(X)
        self._require_one_source()
        if len(texts) != len(labels):
            raise ValueError(f"X has {len(texts)} texts, and y {len(labels)} values")
        if not texts:
            raise ValueError("X: got 0 texts, while a minimum of 1 is required")
        rows: dict[str, Any] = {"text": texts, "label": labels}
        columns: dict[str, Any] = {"text": "text", "label": "label", "pair": None}
        if pairs is not None:
            rows["pair"] = pairs
            columns["pair"] = "pair"
        config: dict[str, Any] = {
            "model": {"from": os.fspath(self.model)},
            "task": {**task, "columns": columns},
            "data": {},
            "optimizer": {},
            "training": {
                "epochs": self.epochs,
                "steps": None,
                "batch_size": self.batch_size,
            },
            "evaluation": {"every": None},
            "seed": self.random_state
            if isinstance(self.random_state, Integral)
            else int(check_random_state(self.random_state).randint(2**31 - 1)),
        }
        if self.learning_rate is not None:
            config["optimizer"]["learning_rate"] = self.learning_rate
        if self.sequence_length is not None:
            config["data"]["sequence_length"] = self.sequence_length
        if self.run_dir is not None:
            config["run_dir"] = os.fspath(self.run_dir)
        share = self.validation_fraction
        run = finetune(
            config,
            train=rows,
            validation=rows if share is None else share,
            device=self.device,
            quiet=self.quiet,
            overwrite=self.run_dir is not None,
            **(self.options or {}),
        )
        self.model_ = load(run, device=self.device)
        self._fitted_columns = _names(X)


class Classifier(ClassifierMixin, _Finetuned):
    """Classes of texts, by a model that `fit` fine-tunes."""

    def fit(self, X: Any, y: Any) -> Classifier:
        """Fine-tunes the model on texts and their classes. A y of 0 and 1, [texts, labels], gives a
        text any number of labels: `classes_` are their places, or their names in a data frame."""
        if hasattr(y, "toarray"):  # a sparse matrix of SciPy
            y = y.toarray()
        labels = _targets(y)
        if labels.ndim == 2 and labels.shape[1] > 1:
            return self._fit_indicators(X, labels, getattr(y, "columns", range(labels.shape[1])))
        if labels.ndim == 2 and labels.shape[1] == 1:
            labels = labels.ravel()
        if labels.ndim != 1:
            raise ValueError(f"y: got the shape {labels.shape}, expected one class for each text")
        _require_classes(y)
        classes = np.unique(labels)
        if len(classes) < 2:
            raise ValueError(f"y: got {len(classes)} class; a classifier needs at least 2")
        self._fit(X, labels.tolist(), {"kind": "classification"})
        self.classes_, self.multilabel_ = classes, False
        return self

    def _fit_indicators(self, X: Any, y: NDArray[Any], names: Any) -> Classifier:
        if not np.isin(y, (0, 1)).all():
            raise ValueError("y: with several columns, one for each label, it holds 0 and 1 alone")
        if len({str(name) for name in names}) < len(list(names)):
            raise ValueError("y: two of its columns have the same name; rename one")
        classes = np.asarray(list(names))
        labels = [classes[row].tolist() for row in y.astype(bool)]
        task = {"kind": "classification", "multi_label": True, "labels": list(map(str, names))}
        self._fit(X, labels, task)
        self.classes_, self.multilabel_ = classes, True
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The probability of each class, in the order of classes_: [texts, classes]."""
        check_is_fitted(self, "model_")
        texts, pairs = _columns(X, self._fitted_columns)
        labels, classes = self.model_.labels, self.classes_.tolist()
        if self.multilabel_:  # a label that no text had is known by its name alone
            labels, classes = list(map(str, labels)), list(map(str, classes))
        places = [labels.index(each) for each in classes]
        return self.model_.predict_proba(texts, pairs)[:, places]

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each text; of several labels, 0 and 1 for each."""
        check_is_fitted(self, "model_")
        if not self.multilabel_:
            return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])
        places = {str(each): place for place, each in enumerate(self.classes_)}
        texts, pairs = _columns(X, self._fitted_columns)
        found: Any = self.model_.predict(texts, pairs)  # from task.threshold on
        result = np.zeros((len(found), len(places)), dtype=int)
        for row, guesses in enumerate(found):
            result[row, [places[str(guess["label"])] for guess in guesses]] = 1
        return result


class Regressor(RegressorMixin, _Finetuned):
    """Numbers of texts, by a model that `fit` fine-tunes."""

    def fit(self, X: Any, y: Any) -> Regressor:
        """Fine-tunes the model on texts and their numbers."""
        values = _targets(y).astype(np.float64)
        if values.ndim > 1 and values.size != len(values):
            raise ValueError(f"y: got the shape {values.shape}, expected one number for each text")
        values = values.ravel()
        if not np.isfinite(values).all():
            raise ValueError("y: holds NaN or infinity")
        self._fit(X, values.tolist(), {"kind": "regression"})
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The number of each text."""
        check_is_fitted(self, "model_")
        texts, pairs = _columns(X, self._fitted_columns)
        return np.array([each["value"] for each in self.model_.predict(texts, pairs)])


class Embedder(TransformerMixin, _Text):
    """Vectors of texts, for other estimators. Nothing is learned: `fit` opens the model."""

    def __init__(
        self,
        model: str | os.PathLike[str] = "runs/base",
        *,
        pooling: Any = None,
        normalize: bool | None = None,
        dimensions: int | None = None,
        batch_size: int = 32,
        device: str = "cpu",
    ) -> None:
        """The arguments are those of nystrom.load and Model.encode."""
        self.model = model
        self.pooling = pooling
        self.normalize = normalize
        self.dimensions = dimensions
        self.batch_size = batch_size
        self.device = device

    def fit(self, X: Any = None, y: Any = None) -> Embedder:
        """Opens the model."""
        self.model_ = load(self.model, device=self.device)
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """A vector of each text: [texts, width]."""
        check_is_fitted(self, "model_")
        texts, pairs = _columns(X)
        if pairs is not None:
            raise ValueError("X: got two columns, expected one of texts")
        return self.model_.encode(
            texts,
            pooling=self.pooling,
            normalize=self.normalize,
            dimensions=self.dimensions,
            batch_size=self.batch_size,
        )

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the numbers of a vector."""
        check_is_fitted(self, "model_")
        width = self.dimensions or self.model_.encode("").shape[0]
        return np.array([f"embedder{at}" for at in range(width)], dtype=object)
