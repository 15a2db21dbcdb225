"""Training runs: nystrom.pretrain and nystrom.finetune."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from nystrom import _core
from nystrom._options import overrides, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from nystrom._core import Step
    from nystrom.model import Model

    Config = str | os.PathLike[str] | Mapping[str, Any]
    OnStep = Callable[[Step], object]


class Run:
    """A finished run. It stands for its folder: nystrom.load(run) opens its best model."""

    def __init__(self, core: _core.Run) -> None:
        self._core = core

    @property
    def run_dir(self) -> str:
        """The folder of the run."""
        return self._core.run_dir

    @property
    def steps(self) -> int:
        """The steps done, over all calls."""
        return self._core.steps

    @property
    def best_step(self) -> int | None:
        """The step of the best evaluation."""
        return self._core.best_step

    @property
    def best_value(self) -> float | None:
        """The score of the best evaluation."""
        return self._core.best_value

    @property
    def metric(self) -> str:
        """The name of best_value: loss, accuracy."""
        return self._core.metric

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
        with open(os.path.join(self.run_dir, "metrics.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def __fspath__(self) -> str:
        return self.run_dir

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


def pretrain(
    config: Config,
    *,
    on_step: OnStep | None = None,
    device: str = "cpu",
    threads: int = 0,
    quiet: bool = False,
    **sections: Any,
) -> Run:
    """Pretrains a masked language model, as `nystrom pretrain` does; resumes by itself.

    `config` is the path of a YAML file or a dict of the same form. Sections override its options:
    training={"steps": 500}. `on_step` is called after each step with its Step. What it throws
    stops the run, which then saves a checkpoint. So does Ctrl-C, which throws Interrupted, a
    KeyboardInterrupt. threads: as set_num_threads; 0 leaves their number. quiet: prints warnings
    only.
    """
    return Run(
        _core.pretrain(*_given(config), overrides(sections), on_step, device, threads, quiet)
    )


def finetune(
    config: Config,
    *,
    on_step: OnStep | None = None,
    device: str = "cpu",
    threads: int = 0,
    quiet: bool = False,
    **sections: Any,
) -> Run:
    """Trains a downstream task, as `nystrom finetune` does; resumes by itself.

    The arguments are those of pretrain. model={"from": "runs/mine"} starts from a run.
    """
    return Run(
        _core.finetune(*_given(config), overrides(sections), on_step, device, threads, quiet)
    )


def _given(config: Config) -> tuple[str, bool]:
    """The configuration for the extension: a path, or a text."""
    if isinstance(config, Mapping):
        return text_of(dict(config)), True
    return os.fspath(config), False
