"""A page of memory in which a worker says what it is about to do, so that it can be read when it is dead."""

from __future__ import annotations

import mmap
import os
from typing import Final

from zephon_processes._segments import _anonymous_file

_SIZE: Final = mmap.PAGESIZE


class NotePad:
    """One page, shared. The text's length is written last and cleared first, so a half-written note reads as none."""

    def __init__(self, descriptor: int | None = None) -> None:
        if descriptor is None:
            descriptor = _anonymous_file()
            os.ftruncate(descriptor, _SIZE)
        self.descriptor = descriptor
        self._memory = mmap.mmap(descriptor, _SIZE)

    def write(self, text: str) -> None:
        """Replace the note."""
        content = text.encode()[: _SIZE - 2]
        self.clear()
        self._memory[2 : 2 + len(content)] = content
        self._memory[0:2] = len(content).to_bytes(2, "little")

    def clear(self) -> None:
        """Take the note away."""
        self._memory[0:2] = b"\0\0"

    def read(self) -> str:
        """The note; "" if there is none."""
        size = int.from_bytes(self._memory[0:2], "little")
        return self._memory[2 : 2 + size].decode(errors="replace")

    def close(self) -> None:
        """Give the page back."""
        self._memory.close()
        os.close(self.descriptor)
