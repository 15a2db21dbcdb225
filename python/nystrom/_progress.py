"""The progress of a call."""

from __future__ import annotations

import sys
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def bar(name: str, total: int) -> Iterator[Callable[[int], object]]:
    """A function that takes how many items are done more: tqdm's, which knows notebooks, where it
    is installed, else one that writes lines."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        done = 0

        def advance(count: int) -> None:
            nonlocal done
            done += count
            print(f"{name} {done}/{total}", file=sys.stderr, flush=True)

        yield advance
        return
    with tqdm(total=total, desc=name) as shown:
        yield shown.update
