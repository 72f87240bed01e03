"""Progress of something that takes long: a bar on a terminal, a log line now and then elsewhere."""

from __future__ import annotations

import logging
import sys
import time
from types import TracebackType
from typing import Final

_logger = logging.getLogger("zephon.io")

#: Seconds before anything is shown, and between two signs of life.
_PATIENCE: Final = 1.0
_BAR_EVERY: Final = 0.2
_LOG_EVERY: Final = 10.0
_WIDTH: Final = 30


class Progress:
    """Shows how far ``total`` steps have come. Use as a context manager; nothing is shown in the first second."""

    def __init__(self, what: str, total: int, unit: str) -> None:
        self._what = what
        self._total = total
        self._unit = unit
        self._done = 0
        self._start = time.monotonic()
        self._next = self._start + _PATIENCE
        self._terminal = sys.stderr is not None and sys.stderr.isatty()
        self._shown = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._shown and self._terminal:
            self._show()
            sys.stderr.write("\n")

    def step(self) -> None:
        """One more is done."""
        self._done += 1
        if time.monotonic() >= self._next:
            self._show()

    def _show(self) -> None:
        now = time.monotonic()
        self._shown = True
        self._next = now + (_BAR_EVERY if self._terminal else _LOG_EVERY)
        rate = self._done / max(now - self._start, 1e-9)
        text = f"{self._what}: {self._done}/{self._total} {self._unit}, {rate:.0f}/s"
        if self._terminal:
            filled = _WIDTH * self._done // max(1, self._total)
            sys.stderr.write(f"\r[{'#' * filled}{'.' * (_WIDTH - filled)}] {text} ")
            sys.stderr.flush()
        else:
            _logger.info("%s", text)
