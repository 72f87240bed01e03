"""What a user, or a log file, gets to see of an object or of a failure."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

#: A text that stands nowhere but in an option the kit has passed.
TOKEN: Final = "kit-token-81c0e5"

#: Shorter texts stand in every message.
_SHORTEST_SECRET: Final = 8


def shown(error: BaseException) -> str:
    """An error's message, attributes and causes, without the lines of code."""
    whole = traceback.TracebackException.from_exception(error, lookup_lines=False)
    return f"{error!r}\n" + "".join(whole.format(chain=True))


def attempt(operation: Callable[..., object], *arguments: Any) -> str:
    """All that is shown when an operation fails; "" if it does not."""
    try:
        operation(*arguments)
    except Exception as error:  # noqa: BLE001 - what it is, is for other clauses
        return shown(error)
    return ""


def secrets_of(options: Any) -> Iterator[str]:
    """Every text inside options that is long enough to be told from words that stand in every message."""
    if isinstance(options, str) and len(options) >= _SHORTEST_SECRET:
        yield options
    elif isinstance(options, Mapping):
        for value in options.values():
            yield from secrets_of(value)
    elif isinstance(options, (list, tuple)):
        for value in options:
            yield from secrets_of(value)
