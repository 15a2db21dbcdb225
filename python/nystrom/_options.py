"""Options from values of Python, in the form that the program reads: YAML, which includes JSON."""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def plain(value: Any) -> Any:
    """A path as text; a number or an array of NumPy as one of Python."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return os.fspath(value)


def text_of(value: Any) -> str:
    """A value as YAML. Paths become texts."""
    return json.dumps(value, ensure_ascii=False, default=plain)


def overrides(sections: Mapping[str, Any]) -> list[str]:
    """Options like those of --set, one for each section: {"training": {"steps": 9}}."""
    return [f"{name}={text_of(value)}" for name, value in sections.items()]
