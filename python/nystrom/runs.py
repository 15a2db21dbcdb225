"""Training runs: nystrom.pretrain and nystrom.finetune."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections.abc import Mapping

from nystrom import _core
from nystrom._options import (
    LABEL_TYPES,
    column_options,
    names_of_columns,
    overrides,
    path_of,
    require_numbers,
    require_once,
    text_of,
)
from nystrom.errors import InputError, Interrupted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from nystrom._core import Step
    from nystrom._given import GivenData
    from nystrom.model import Model

    Config = str | os.PathLike[str] | Mapping[str, Any]
    OnStep = Callable[[Step], object]
    OnEvaluation = Callable[[dict[str, Any]], object]


class Run:
    """A finished run. It stands for its folder: nystrom.load(run) opens its best model.

    run_dir is the folder of the run, steps are those done over all calls. best_step and best_value
    are the step and the score of the best evaluation, and metric is the name of the score: loss,
    accuracy.
    """

    run_dir: str
    steps: int
    best_step: int | None
    best_value: float | None
    metric: str
    _path: str  # from any current folder

    def __init__(
        self,
        run_dir: str,
        steps: int,
        best_step: int | None,
        best_value: float | None,
        metric: str,
    ) -> None:
        # No dataclass: its module takes a third of the time of importing nystrom.
        vars(self).update(
            run_dir=run_dir, steps=steps, best_step=best_step, best_value=best_value,
            metric=metric, _path=os.path.abspath(run_dir),
        )  # fmt: skip

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name}: got {value!r}, but a finished run does not change")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{name}: cannot be deleted; a finished run does not change")

    def __reduce__(self) -> tuple[Any, ...]:
        return Run, (self._path, self.steps, self.best_step, self.best_value, self.metric)

    @property
    def history(self) -> list[dict[str, Any]]:
        """The records of the steps, as metrics.jsonl has them: pandas.DataFrame(run.history)."""
        return [each for each in self._records() if "loss" in each]

    @property
    def evaluations(self) -> list[dict[str, Any]]:
        """The evaluations in the same form: step, validation_loss and other metrics."""
        return [each for each in self._records() if "loss" not in each]

    def load(self, **options: Any) -> Model:
        """Its best model. The options are those of nystrom.load."""
        from nystrom.model import load

        return load(self, **options)

    def _records(self) -> list[dict[str, Any]]:
        path = os.path.join(self._path, "metrics.jsonl")
        if os.path.exists(path) and not os.path.isfile(path):
            raise InputError(f"{path!r}: is not a regular file")  # a FIFO would block
        records = []
        with open(path, encoding="utf-8") as file:
            for line in file:
                with contextlib.suppress(ValueError):  # a part of one, which a killed process left
                    records.append(json.loads(line))
        return records

    def __fspath__(self) -> str:
        return self._path

    def _best(self) -> str:
        if self.best_value is None:
            return "no evaluation"
        return f"best {self.metric} {self.best_value:.4f} at step {self.best_step}"

    def __repr__(self) -> str:
        return f"nystrom.Run({self.run_dir!r}, {self.steps} steps, {self._best()})"

    def _repr_html_(self) -> str:
        """The run and its last evaluations as a table, for notebooks."""
        import html

        evaluations = self.evaluations[-10:]
        names = list(dict.fromkeys(name for each in evaluations for name in each))
        head = "".join(f"<th>{html.escape(n.removeprefix('validation_'))}</th>" for n in names)
        rows = "".join(
            f"<tr>{''.join(f'<td>{_shown(each.get(n))}</td>' for n in names)}</tr>"
            for each in evaluations
        )
        title = f"<b>{html.escape(self.run_dir)}</b>: {self.steps} steps, {self._best()}"
        return f"<div>{title}<table><tr>{head}</tr>{rows}</table></div>"


def _shown(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else "" if value is None else str(value)


def _require_functions(on_step: OnStep | None, on_evaluation: OnEvaluation | None) -> None:
    """Before an earlier run is removed."""
    for name, given in (("on_step", on_step), ("on_evaluation", on_evaluation)):
        if given is not None and not callable(given):
            raise TypeError(f"{name}: got {given!r}, expected a function")


def pretrain(
    config: Config,
    *,
    texts: Any = None,
    validation: Any = None,
    text: str | None = None,
    on_step: OnStep | None = None,
    on_evaluation: OnEvaluation | None = None,
    device: str = "cpu",
    threads: int = 0,
    quiet: bool = False,
    overwrite: bool = False,
    **sections: Any,
) -> Run:
    """Pretrains a model, as `nystrom pretrain` does: on texts, or on the inputs of the task that
    `config` names, texts or features. Resumes by itself.

    `config` is the path of a YAML file or a dict of the same form. Sections override its options:
    training={"steps": 500}. Without run_dir each call has a new folder below runs.

    `texts`, in the place of data.train, are documents in memory: an iterable of texts, or a table
    (a data frame, a Dataset, an Arrow table, dicts) with the column `text`. A path is one of files,
    Parquet too. `validation` is the same, or a share of the documents such as 0.01. What is given
    is a part of the run: with other texts it does not go on.

    `on_step` is called after each step with its Step, `on_evaluation` after each evaluation with a
    dict of its metrics. What they throw stops the run, which then saves a checkpoint. So does
    Ctrl-C, which throws Interrupted, a KeyboardInterrupt. threads: as set_num_threads; 0 leaves
    their number. quiet: prints warnings only. overwrite: removes the run that lies in run_dir.
    """
    _require_functions(on_step, on_evaluation)
    require_numbers(threads=threads)
    require_once(
        sections,
        texts=(texts, "data.train"),
        validation=(validation, "data.validation", "data.validation_fraction"),
        text=(text, "data.text_column"),
    )
    options = overrides(sections)
    if text is not None:
        options.append(f"data.text_column={text_of(text)}")
    share = _share(validation)
    if share is not None:
        options += [f"data.validation_fraction={share}", "data.validation=[]"]
    elif validation is not None:
        options.append("data.validation_fraction=null")
    with _place(config, options, overwrite, task=False) as (plan, place, data):
        from nystrom._given import Columns, file_names, text_file_names

        columns = Columns.of_texts(plan["text_column"])
        given = {"train": ("texts", texts), "validation": ("validation", validation)}
        for key, (name, rows) in given.items():
            if rows is not None and not (share and key == "validation"):
                files = file_names(rows, text_file_names(rows, name), name, columns, data)
                options.append(f"data.{key}={text_of(files)}")
        return Run(
            *_core.pretrain(
                *_given(config), options + place, on_step, on_evaluation, str(device), threads,
                quiet,
            )  # fmt: skip
        )


def finetune(
    config: Config,
    *,
    train: Any = None,
    validation: Any = None,
    text: str | None = None,
    label: str | Sequence[str] | None = None,
    pair: str | None = None,
    on_step: OnStep | None = None,
    on_evaluation: OnEvaluation | None = None,
    device: str = "cpu",
    threads: int = 0,
    quiet: bool = False,
    overwrite: bool = False,
    **sections: Any,
) -> Run:
    """Trains a downstream task, as `nystrom finetune` does; resumes by itself.

    model={"from": "runs/mine"} starts from a run. `train` and `validation`, in the place of
    task.train and task.validation, are rows in memory: a data frame of pandas or polars, a Dataset,
    an Arrow table, a dict of columns, or an iterable of dicts or of tuples (text, label). A path,
    or a list of paths, is one of files, Parquet too. `validation` may be a share of `train`, such
    as 0.1, which is task.validation_fraction. `text`, `label` and `pair` name columns.
    Without task.kind, labels that are texts, whole numbers or bools make a
    classification; lists of them one of any number of labels a text (task.multi_label), as do
    several columns of 0 and 1: label=["toxic", "insult"]. The labels of the model keep their types.
    Rows of questions have SQuAD's columns question, context and answers; or an answer's text and
    beginning are columns: label=["answer", "answer_start"].

    All other arguments are those of pretrain.
    """
    _require_functions(on_step, on_evaluation)
    require_numbers(threads=threads)
    require_once(
        sections,
        train=(train, "task.train"),
        validation=(validation, "task.validation", "task.validation_fraction"),
        text=(text, "task.columns.text"),
        label=(label, "task.columns.label", "task.columns.labels"),
        pair=(pair, "task.columns.pair"),
    )
    options = overrides(sections)
    several = names_of_columns(label)
    options += column_options(text=text, label=label if several is None else None, pair=pair)
    share = _share(validation)
    with _place(config, options, overwrite, task=True) as (plan, place, data):
        if several and plan["kind"] == "questions":  # they are written as SQuAD's answers
            plan |= {"label": None, "labels": several}
        elif several is not None:
            options += column_options(labels=several)
            plan = _core.plan(*_given(config), options + place, True)
        stated = [] if train is None else _stated_labels(train, plan)
        if plan["kind"] is None and train is not None:
            kind, train = _kind_of(train, plan, quiet)
            options += kind
            plan = _core.plan(*_given(config), options + place, True)
        if plan["kind"] in ("classification", "tokens"):
            options += stated
        from nystrom._given import Columns, file_names, names_of_files

        columns = Columns(plan)
        given = {"train": train, "validation": validation}
        if share is not None:
            options += [f"task.validation_fraction={share}", "task.validation=[]"]
            del given["validation"]
        elif validation is not None:
            options.append("task.validation_fraction=null")
        every = []
        for name, rows in given.items():
            if rows is not None:
                own = Columns(plan | {"negatives": []}) if name == "validation" else columns
                files = file_names(rows, names_of_files(rows), name, own, data)
                options.append(f"task.{name}={text_of(files)}")
                every += files
        stay = [file for name in given if given[name] is None for file in plan[name]]
        options += data.form(every + stay, plan["format"])
        data.add_labels(plan["classes"])
        run_dir = os.path.abspath(plan["run_dir"])
        if _checkpoints(run_dir):
            data.require_same_label_types(plan["run_dir"])

        def noting(observer: Callable[[Any], object] | None) -> Callable[[Any], None]:
            """The types of labels are known from the first step on, whatever ends the run."""

            def observe(record: Any) -> None:
                data.write_label_types(run_dir)
                if observer is not None:
                    observer(record)

            return observe

        observers = noting(on_step), noting(on_evaluation)
        try:
            return Run(
                *_core.finetune(
                    *_given(config), options + place, *observers, str(device), threads, quiet
                )
            )
        except Interrupted:
            if _checkpoints(run_dir):  # it has one before its first step
                data.write_label_types(run_dir)
            raise


# ---- Data ----------------------------------------------------------------------------------------


def _share(validation: Any) -> float | None:
    """A share of the rows; None for what is none."""
    from numbers import Real

    if isinstance(validation, bool) or not isinstance(validation, Real):
        return None
    share = float(validation)
    if not 0 < share < 1:
        raise InputError(f"validation={share:g}: a share lies between 0 and 1")
    return share


def _stated_labels(train: Any, plan: dict[str, Any]) -> list[str]:
    """The option of the labels, where the data states their numbers and the task names none. A head
    that is kept has an order of its own."""
    from nystrom._given import read_here
    from nystrom._rows import class_names_of

    rows = read_here(train)
    names = None if rows is None else class_names_of(rows, "train").get(plan["label"])
    if not names or plan["names_labels"]:
        return []
    origin = None if plan["fresh_head"] else plan["models"].get("model.from")
    kept = [] if origin is None else _core.outputs_of(origin)
    names = kept if kept and {*kept} <= {*names} else names
    return [f"task.labels={text_of(names)}"]


def _kind_of(train: Any, plan: dict[str, Any], quiet: bool) -> tuple[list[str], Any]:
    """The options of a task that names no kind, by its first label; and the rows with that one, as
    they may come once only."""
    from nystrom._given import Columns, names_of_files, read_here
    from nystrom._output import write
    from nystrom._rows import label_cell

    if plan["labels"] or plan["label_separator"]:
        return ["task.kind=classification"], train
    given = read_here(train)
    if given is None:
        raise InputError(
            "task.kind is missing; give task={'kind': 'classification'}, or regression, tokens, …"
        )
    columns = Columns(plan | {"kind": "classification"})
    rows = columns.rows(given, "train")
    label: Any = None
    seen = []
    for number, row in enumerate(rows.raw):
        seen.append(row)
        place = f"train, row {number}"
        try:
            label = rows.cells(row, place)[columns.names.index(plan["label"])]
            if not isinstance(label, (set, frozenset)):
                label = label_cell(label, f"{place}, column {plan['label']!r}")
            break
        except (TypeError, InputError):
            if not columns.skip:
                raise
    else:
        raise InputError("train: there are no rows with a label")
    if names_of_files(train) is None:
        rows.raw = itertools.chain(seen, rows.raw)
        train = rows
    if isinstance(label, (str, int)):  # bool too
        return ["task.kind=classification"], train
    if not isinstance(label, float):
        if not quiet:
            write("train: labels are lists, of any number for each text (task.multi_label)")
        return ["task.kind=classification", "task.multi_label=true"], train
    raise InputError(
        f"train: labels such as {label!r} do not tell the kind of the task; give "
        "task={'kind': 'regression'}, or classification, tokens, …"
    )


# ---- Folders -------------------------------------------------------------------------------------


@contextlib.contextmanager
def _place(
    config: Config, options: list[str], overwrite: bool, task: bool
) -> Iterator[tuple[dict[str, Any], list[str], GivenData]]:
    """What the configuration says (_core.plan), the option of the run's folder where it names
    none, and the place of data in memory."""
    from nystrom._given import GivenData

    plan = _core.plan(*_given(config), options, task)
    place = []
    unnamed = not plan["names_run_dir"]
    if unnamed:
        plan["run_dir"] = _new_folder("runs/finetuned" if task else plan["run_dir"])
        place = [f"run_dir={text_of(plan['run_dir'])}"]
    _end_killed(plan["run_dir"])
    if overwrite:
        _require_other_models(plan)
    earlier = _put_aside(plan["run_dir"]) if overwrite and not unnamed else None
    try:
        with GivenData(plan["cache"]) as data:
            yield plan, place, data
    finally:
        if unnamed:
            with contextlib.suppress(OSError):
                os.rmdir(plan["run_dir"])  # where the run did not begin
        if earlier is not None:
            with contextlib.suppress(InputError):  # another process trains there by now
                _end_overwriting(plan["run_dir"], earlier)


def _new_folder(default: str) -> str:
    """A folder of its own for a run without a name: runs/base-1, runs/base-2."""
    above = os.path.dirname(default)
    try:
        os.makedirs(above, exist_ok=True)
    except OSError as error:
        raise InputError(f"'{above}': cannot be made: {error.strerror}; name a run_dir") from None
    number = 1
    while True:
        try:
            os.mkdir(f"{default}-{number}")
            return f"{default}-{number}"
        except FileExistsError:
            number += 1


_written = ["checkpoints", "config.yaml", "metrics.jsonl", "fill-masks.jsonl", "log.txt"]
_written += [LABEL_TYPES, "report.html", "test.json", ".waiting", "events.out.tfevents.*"]


def _require_other_models(plan: dict[str, Any]) -> None:
    """Throws an InputError where the run reads a model of the one that it replaces."""
    run = os.path.realpath(plan["run_dir"])
    for option, path in plan["models"].items():
        if os.path.relpath(os.path.realpath(path), run).split("/")[0] in (".", "checkpoints"):
            raise InputError(
                f"{option}: '{path}' is of the run that overwrite=True replaces; give another "
                "run_dir"
            )


def _checkpoints(run_dir: str) -> set[str]:
    """The names of the run's checkpoints."""
    folder = os.path.join(run_dir, "checkpoints")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return {name for name in names if name.removeprefix("step-").isdecimal()}


@contextlib.contextmanager
def _locked(run_dir: str) -> Iterator[None]:
    """Keeps other processes from training in the folder, which is marked as that of a run."""
    import fcntl

    lock = os.open(os.path.join(run_dir, ".lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{run_dir}: another process trains in this run directory") from None
        if os.fstat(lock).st_size == 0:
            os.write(lock, b"nystrom run\n")
        yield
    finally:
        os.close(lock)


def _move_run(source: str, target: str, back: bool = False) -> None:
    """Moves what a run wrote, and nothing else. Checkpoints go first and come `back` last: a run
    is where they are."""
    from pathlib import Path

    for pattern in reversed(_written) if back else _written:
        for path in Path(source).glob(pattern):
            path.rename(Path(target, path.name))


def _put_aside(run_dir: str) -> str | None:
    """Moves the run that lies in a folder into one of its own within, whose path it returns."""
    import secrets

    if not os.path.isdir(run_dir):
        return None
    _core.check_run_place(run_dir)
    with _locked(run_dir):
        aside = os.path.join(run_dir, f".replaced-{secrets.token_hex(4)}")
        os.mkdir(aside)
        try:
            _move_run(run_dir, aside)
        except OSError:
            _move_run(aside, run_dir, back=True)
            os.rmdir(aside)
            raise
    return aside


def _end_overwriting(run_dir: str, earlier: str) -> None:
    """Removes the earlier run where the new one has begun, else brings it back."""
    import shutil

    if not _checkpoints(run_dir):
        with _locked(run_dir):
            refused = f"{earlier}-refused"
            os.mkdir(refused)
            _move_run(run_dir, refused)
            _move_run(earlier, run_dir, back=True)
        shutil.rmtree(refused)
    shutil.rmtree(earlier)


def _end_killed(run_dir: str) -> None:
    """Does that for a process which was killed."""
    import re
    import shutil
    from pathlib import Path

    named = re.compile(r"\.replaced-[0-9a-f]{8}(-refused)?").fullmatch  # as _put_aside names them
    found = sorted(path for path in Path(run_dir).glob(".replaced-*") if named(path.name))
    left = [path for path in found if path.is_dir() and not path.is_symlink()]
    if not left:
        return
    _core.check_run_place(run_dir)
    with _locked(run_dir):
        for earlier in left:
            if not _checkpoints(run_dir) and (earlier / "checkpoints").is_dir():
                shutil.rmtree(os.path.join(run_dir, "checkpoints"), ignore_errors=True)
                _move_run(str(earlier), run_dir, back=True)
            shutil.rmtree(earlier)


def _given(config: Config) -> tuple[str, bool]:
    """The configuration for the extension: a path, or a text."""
    if isinstance(config, Mapping):
        return text_of(dict(config)), True
    return path_of(config), False
