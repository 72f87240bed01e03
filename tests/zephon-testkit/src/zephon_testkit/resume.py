"""Restoring after every element gives the whole remainder: the law every operator and work source has to keep."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from zephon import Pipeline
from zephon.abc import CheckpointState
from zephon.errors import ConfigError
from zephon_testkit.script import difference, seen

#: A pipeline that has not ended after so many elements needs to be told how many to look at.
MOST_ELEMENTS: Final = 1000
#: Counters that say what was delivered, whatever blocks it came in.
_DELIVERED: Final = ("rounds", "batches", "rows", "tokens", "passes_begun")
#: Counters that belong to a cut: they are the same after a restore, until the run goes on.
_AT_THE_CUT: Final = (*_DELIVERED, "skipped", "operators")
#: Those that a lane which has come to its end keeps: what operators count while they finish is after every cut.
_AT_THE_END: Final = (*_DELIVERED, "skipped")

Make = Callable[[], Pipeline]


class _Moment(NamedTuple):
    """A state, how many elements had been delivered, and what was counted."""

    element: int
    state: CheckpointState
    counted: dict[str, Any]


def check_resume_everywhere(
    make: Make | Pipeline, *, elements: int | None = None, block_rows: Sequence[int] = (1, 3), **options: Any
) -> None:
    """Restore a pipeline after every element, and compare all that remains with the uninterrupted run.

    States are taken before the first element, after each, after the last, and after the end. Each is restored into a
    new pipeline, of which the whole remainder is compared: rows, origins, fields with their metadata, lane, index,
    fillers, and what ``stats()`` counts.

    What a failure means, in the order things are tried:

    - *two uninterrupted runs differ*: something in the pipeline asks a clock, a global generator, ``hash()`` or a set
      for its order. Draw from :mod:`zephon.random`, keyed by origin or ordinal.
    - *with blocks of n rows*: an operator lets the end of a block show, e.g. works per ``push`` instead of per row.
    - *a run that takes checkpoints*: taking a state changes what it is taken of.
    - *restored after element k*: ``snapshot()`` leaves something out, ``restore()`` does not put it back, or later
      pushes change a snapshot taken before (copy what changes in place). With k = 0 the state was taken before
      anything was delivered.

    Args:
        make: a function that returns a new pipeline each time; or a pipeline, which is then not run itself: copies of
            it are made through its spec.
        elements: look at so many elements; needed where a pipeline is endless. By default all of them.
        block_rows: sizes of blocks to write states with; each is restored under the next one in the list.
        options: execution settings of all runs; by default everything happens on the calling thread.

    Raises:
        AssertionError: naming the element and the first difference.
        ValueError: the pipeline cannot be copied, or has no end and ``elements`` is not given.
    """
    settings = {"runner": "inline", "parallelism": 0, **options}
    fresh = _maker(make, settings)
    with warnings.catch_warnings():
        # What planning has to say of a pipeline, e.g. rows that fill no last round, is no finding here.
        warnings.simplefilter("ignore", UserWarning)
        with fresh() as pipeline:
            plain = list(_elements(pipeline, elements))
            counted = _counted(pipeline, _DELIVERED)
        with fresh() as pipeline:
            _compare("two uninterrupted runs differ", plain, _elements(pipeline, elements))
        for place, rows in enumerate(block_rows):
            other = block_rows[(place + 1) % len(block_rows)]
            with fresh().options(block_rows=rows) as pipeline:
                _compare(f"a run with blocks of {rows} rows differs", plain, _elements(pipeline, elements))
            for moment in _moments(fresh().options(block_rows=rows), plain, rows, elements):
                _check_restored(fresh().options(block_rows=other), moment, plain, counted, elements)


def _maker(make: Make | Pipeline, settings: dict[str, Any]) -> Make:
    if isinstance(make, Pipeline):
        try:
            spec = make.to_spec()
        except ConfigError as error:
            raise ValueError(
                "this pipeline cannot be copied through its spec; pass a function that returns a new one: "
                f"check_resume_everywhere(lambda: Pipeline(...)...)\n{error}"
            ) from error
        return lambda: Pipeline.from_spec(spec).options(**settings)
    if make() is make():
        raise ValueError("the function has to return a new pipeline each time, and returned one pipeline twice")
    return lambda: make().options(**settings)


def _elements(pipeline: Pipeline, elements: int | None) -> Iterator[dict[str, Any] | None]:
    """What a pipeline delivers, and None at its end."""
    limit = MOST_ELEMENTS if elements is None else elements
    batches = iter(pipeline)
    for _ in range(limit):
        batch = next(batches, None)
        yield None if batch is None else seen(batch)
        if batch is None:
            return
    if elements is None:
        raise ValueError(f"the pipeline has not ended after {limit} elements; pass elements=<how many to look at>")


def _compare(what: str, expected: Sequence[Any], found: Iterator[Any], first: int = 0) -> None:
    """Compare element by element; ``expected`` ends with None where the run has ended."""
    for number, element in enumerate(expected, start=first):
        text = _difference(next(found, None), element)
        if text:
            raise AssertionError(f"{what} at element {number}: {text}")


def _difference(found: Any, expected: Any) -> str:
    if found is None and expected is not None:
        return "it has ended, and the uninterrupted run goes on"
    if found is not None and expected is None:
        return f"a batch of lane {found['lane']} comes after the end"
    return difference(found, expected)


def _moments(pipeline: Pipeline, plain: Sequence[Any], rows: int, elements: int | None) -> list[_Moment]:
    """The states of one run, one for every element, the beginning and the end."""
    what = f"a run that takes checkpoints, with blocks of {rows} rows, differs"
    # A lane is found to have ended in the round in which it, or the run, has nothing more to give.
    ends = (number for number, element in enumerate(plain) if element is None or not element["rows"])
    with pipeline:
        last = next(ends, len(plain)) - pipeline.slots_per_round
        found = [_moment(pipeline, 0, _AT_THE_END)]
        running = _elements(pipeline, elements)
        for number, element in enumerate(plain, start=1):
            _compare(what, [element], running, number - 1)
            names = _AT_THE_CUT if number <= last else _AT_THE_END
            found.append(_moment(pipeline, number if element is not None else number - 1, names))
    return found


def _moment(pipeline: Pipeline, element: int, names: Sequence[str]) -> _Moment:
    state = pipeline.checkpoint()
    parts = [state["header"], *state["lanes"].values()]
    if not all(type(part) is bytes for part in parts) or not all(type(key) is str for key in state["lanes"]):
        raise AssertionError(f"the state after element {element} does not consist of bytes: {parts!r:.200}")
    # New objects of equal bytes, as if they came from a file: nothing else of the run lives on in them.
    lanes = {key: bytes(bytearray(data)) for key, data in state["lanes"].items()}
    copy: CheckpointState = {"header": bytes(bytearray(state["header"])), "lanes": lanes}
    return _Moment(element, copy, _counted(pipeline, names))


def _counted(pipeline: Pipeline, names: Sequence[str]) -> dict[str, Any]:
    stats = pipeline.stats()
    return {name: stats[name] for name in names}


def _check_restored(
    pipeline: Pipeline, moment: _Moment, plain: Sequence[Any], counted: dict[str, Any], elements: int | None
) -> None:
    after = moment.element
    what = f"a run restored after element {after} of {sum(element is not None for element in plain)} differs"
    with pipeline.restore(moment.state):
        text = difference(_counted(pipeline, list(moment.counted)), moment.counted, "stats")
        if not text and pipeline.checkpoint() != moment.state:
            text = "its own state, before anything is delivered, is not the one it was restored from"
        if text:
            raise AssertionError(f"{what} before it goes on: {text}")
        _compare(what, plain[after:], _elements(pipeline, None if elements is None else elements - after), after)
        text = difference(_counted(pipeline, _DELIVERED), counted, "stats")
        if text:
            raise AssertionError(f"{what} at its end: {text}")
