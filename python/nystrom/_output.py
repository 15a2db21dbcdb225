"""Messages of the library, where Python's own go: sys.stderr of this moment, and logging.

The logger is called nystrom. Its messages are at INFO, and warnings at WARNING.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from logging import Handler, Logger


def sink() -> Callable[[str], None] | None:
    """What takes the lines of a call; None where they may go straight to standard error, which is
    where a terminal shows progress."""
    heard = _logger() is not None
    return write if heard or sys.stderr is not sys.__stderr__ else None


def write(line: str) -> None:
    """Gives one line to logging, if someone listens, and to sys.stderr, unless logging writes it
    there. As in the program, a message that cannot be written ends nothing."""
    logger = _logger()
    shown = False
    with suppress(Exception):
        if logger is not None:
            import logging

            warning = line.startswith("warning: ")
            level = logging.WARNING if warning else logging.INFO
            logger.log(level, "%s", line.removeprefix("warning: "))
            shown = logger.isEnabledFor(level) and any(map(_writes_to_console, _handlers(logger)))
    with suppress(Exception):
        if not shown and sys.stderr is not None:
            print(line, file=sys.stderr, flush=True)


def _logger() -> Logger | None:
    """The logger, where the program uses logging."""
    if "logging" not in sys.modules:
        return None
    import logging

    logger = logging.getLogger("nystrom")
    return logger if logger.hasHandlers() else None


def _handlers(logger: Logger) -> list[Handler]:
    found = []
    at: Logger | None = logger
    while at is not None:
        found += at.handlers
        at = at.parent if at.propagate else None
    return found


def _writes_to_console(handler: Handler) -> bool:
    return getattr(handler, "stream", None) in (sys.stderr, sys.stdout, sys.__stderr__)


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
            write(f"{name} {done}/{total}")

        yield advance
        return
    with tqdm(total=total, desc=name) as shown:
        yield shown.update
