"""All differentiable functions of nystrom.Tensor. NumPy arrays are constants among their inputs."""

import functools
from typing import Any

from nystrom import _core
from nystrom._core.ops import *  # noqa: F403


def _explained(function: Any) -> Any:
    """`function`, which says of an array that cannot be a tensor why."""

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except TypeError:
            for each in (*arguments, *named.values()):
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
