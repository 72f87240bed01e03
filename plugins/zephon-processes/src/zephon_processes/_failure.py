"""An exception on its way home."""

from __future__ import annotations

import pickle
import traceback
from typing import Final

import cloudpickle

#: Causes that are sent along; an exception can be its own.
CAUSES: Final = 16


def failure(error: BaseException) -> tuple[bytes | None, str, str]:
    """The exception with its causes, if it can be sent; its one line; and its traceback as text."""
    text = "".join(traceback.format_exception(error))
    line = "".join(traceback.format_exception_only(error)).strip()
    return _sendable(error), line, text


def made_again(content: bytes) -> BaseException:
    """The exception that :func:`failure` has pickled, with its causes as far as they can be made here.

    Raises:
        Exception: it cannot be made here.
    """
    first, *causes = pickle.loads(content)
    error: BaseException = pickle.loads(first)
    effect = error
    for pickled in causes:
        try:
            cause = pickle.loads(pickled)
        except Exception:  # noqa: BLE001 - the traceback, as text, has it all the same
            break
        effect.__cause__ = cause
        effect = cause
    return error


def _sendable(error: BaseException) -> bytes | None:
    """Pickle leaves causes out, so each is pickled by itself, up to the first that does not work both ways."""
    chain: list[bytes] = []
    cause: BaseException | None = error
    while cause is not None and len(chain) <= CAUSES:
        try:
            content: bytes = cloudpickle.dumps(cause)
            pickle.loads(content)
        except Exception:  # noqa: BLE001 - then it travels as text
            break
        chain.append(content)
        cause = cause.__cause__
    return pickle.dumps(chain) if chain else None
