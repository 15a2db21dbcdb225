"""Training runs: nystrom.pretrain and nystrom.finetune."""

from __future__ import annotations

import os
from collections.abc import Mapping

from nystrom import _core
from nystrom._options import overrides, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from nystrom._core import Run, Step

    Config = str | os.PathLike[str] | Mapping[str, Any]
    OnStep = Callable[[Step], object]


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
    return _core.pretrain(*_given(config), overrides(sections), on_step, device, threads, quiet)


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
    return _core.finetune(*_given(config), overrides(sections), on_step, device, threads, quiet)


def _given(config: Config) -> tuple[str, bool]:
    """The configuration for the extension: a path, or a text."""
    if isinstance(config, Mapping):
        return text_of(dict(config)), True
    return os.fspath(config), False
