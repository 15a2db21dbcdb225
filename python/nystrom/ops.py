"""All differentiable functions of nystrom.Tensor. NumPy arrays are constants among their inputs."""

import functools as _functools
from typing import Any as _Any

from nystrom import _core
from nystrom._core.ops import *  # noqa: F403


def _explained(function: _Any) -> _Any:
    """`function`, which says of an array that cannot be a tensor why."""

    @_functools.wraps(function)
    def call(*arguments: _Any, **named: _Any) -> _Any:
        try:
            return function(*arguments, **named)
        except TypeError:
            for given in (*arguments, *named.values()):
                for each in given if isinstance(given, (list, tuple)) else [given]:
                    if hasattr(each, "__dlpack__") and not isinstance(each, _core.Tensor):
                        _core.Tensor(each)
            raise

    return call


globals().update(
    {
        name: _explained(function)
        for name, function in vars(_core.ops).items()
        if not name.startswith("_")
    }
)
