"""Shared memory that frees itself: anonymous files, passed to the other process by descriptor.

A segment has no name, so there is nothing to clean up: when the last process that has it open ends, however it ends,
the kernel frees the memory. It does not count against ``/dev/shm``, which containers make small.

Source: ``memfd_create(2)``; ``unix(7)``, ``SCM_RIGHTS``.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from contextlib import suppress
from typing import Final

from zephon.errors import EngineError

#: Sizes are rounded up to this, so that segments are used again for blocks that are a little larger.
GRAIN: Final = 1 << 20
#: Segments that are free are kept up to so many.
SPARE: Final = 3


class Segment:
    """A piece of memory two processes share.

    Attributes:
        number: names it between the two.
        descriptor: of the file behind it; -1 on the side that received it, which needs none once it is mapped.
        size: bytes.
        memory: the bytes.
    """

    __slots__ = ("descriptor", "memory", "number", "size")

    def __init__(self, number: int, descriptor: int, size: int, *, keep: bool) -> None:
        self.number = number
        self.size = size
        self.memory = mmap.mmap(descriptor, size)
        self.descriptor = descriptor if keep else -1
        if not keep:
            os.close(descriptor)

    def close(self) -> None:
        """Give it back. Whoever still refers to the bytes keeps them."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
        with suppress(BufferError):  # an exception somebody keeps refers to it; it goes when that goes
            self.memory.close()


def create(number: int, size: int) -> Segment:
    """A new segment of at least ``size`` bytes, whose memory is there.

    Raises:
        EngineError: ``shared-memory-full``.
    """
    size = -(-size // GRAIN) * GRAIN
    descriptor = _anonymous_file()
    try:
        # Memory that is promised and not there would end the process with SIGBUS when it is written to.
        os.posix_fallocate(descriptor, 0, size)
        return Segment(number, descriptor, size, keep=True)
    except OSError as error:
        os.close(descriptor)
        raise EngineError(
            "there is no memory to hand a block to another process",
            found=f"{size >> 20} MiB: {error.strerror}",
            fix='lower memory_limit or parallelism, or use .options(runner="threads"), which copies nothing',
            code="shared-memory-full",
        ) from error


class Outbox:
    """Segments to write into: those the other side has read are used again."""

    def __init__(self) -> None:
        self._free: list[Segment] = []
        self._lent: dict[int, Segment] = {}
        self._next = 0

    def take(self, size: int) -> tuple[Segment, bool, list[int]]:
        """A segment of at least ``size`` bytes; whether it is new; and the numbers of some that are given up."""
        fitting = [segment for segment in self._free if segment.size >= size]
        if fitting:
            segment = min(fitting, key=lambda s: s.size)
            self._free.remove(segment)
            is_new = False
        else:
            segment = create(self._next, size)
            self._next += 1
            is_new = True
        given_up = []
        while len(self._free) > SPARE:
            smallest = min(self._free, key=lambda s: s.size)
            self._free.remove(smallest)
            smallest.close()
            given_up.append(smallest.number)
        self._lent[segment.number] = segment
        return segment, is_new, given_up

    def returned(self, number: int) -> None:
        """The other side has read it."""
        segment = self._lent.pop(number, None)
        if segment is not None:
            self._free.append(segment)

    @property
    def nbytes(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in (*self._free, *self._lent.values()))

    def close(self) -> None:
        """Give all of them back."""
        for segment in (*self._free, *self._lent.values()):
            segment.close()
        self._free.clear()
        self._lent.clear()


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("zephon", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
