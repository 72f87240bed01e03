"""Files of a storage backend under everything that may happen to them, against a dictionary."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from zephon_testkit import backends

if TYPE_CHECKING:
    from zephon_testkit.storage import StorageTests

#: Few, so that what one step does to a file matters to another.
_NAMES: Final = st.sampled_from(["f", "d/f", "d/g", "dd/e/f"])


def files_machine(suite: StorageTests, folder: Path) -> type[RuleBasedStateMachine]:
    """Files that the backend and somebody else write and remove, against a dictionary."""
    examples = iter(range(1_000_000))
    writes = suite.has("write")

    class Machine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.root = suite.root(folder / str(next(examples)))
            self.backend: Any = suite.backend()
            self.model: dict[str, bytes] = {}
            self.put("always", b"there")

        @rule(name=_NAMES, data=st.binary(max_size=40))
        def put(self, name: str, data: bytes) -> None:
            self.stat(name)  # what was seen before must not be what is seen afterwards
            suite.put(suite.url(self.root, name), data)
            self.model[name] = data
            self.stat(name)

        @precondition(lambda self: writes)
        @rule(name=_NAMES, data=st.binary(max_size=40))
        def write(self, name: str, data: bytes) -> None:
            self.stat(name)
            self.backend.write(suite.url(self.root, name), data)
            self.model[name] = data
            self.stat(name)

        @precondition(lambda self: len(self.model) > 1)
        @rule(data=st.data())
        def delete(self, data: st.DataObject) -> None:
            name = data.draw(st.sampled_from(sorted(self.model.keys() - {"always"})))
            suite.delete(suite.url(self.root, name))
            del self.model[name]
            self.stat(name)

        @rule(name=_NAMES)
        def stat(self, name: str) -> None:
            url = suite.url(self.root, name)
            if name in self.model:
                assert self.backend.stat(url).size == len(self.model[name])
            else:
                with pytest.raises(FileNotFoundError):
                    self.backend.stat(url)

        @rule(name=_NAMES, start=st.integers(0, 40), length=st.integers(1, 40))
        def read(self, name: str, start: int, length: int) -> None:
            url, stop = suite.url(self.root, name), start + length
            whole = self.model.get(name)
            if whole is not None and stop <= len(whole):
                assert backends.read(self.backend, url, (start, stop)) == whole[start:stop]
            else:
                with pytest.raises(FileNotFoundError if whole is None else EOFError):
                    backends.read(self.backend, url, (start, stop))

        @rule()
        def list(self) -> None:
            expected = {suite.url(self.root, name): len(data) for name, data in self.model.items()}
            assert backends.listed(self.backend, self.root) == expected

    return Machine
