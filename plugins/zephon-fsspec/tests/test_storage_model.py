"""Both backends against a dictionary: whatever was written last is what is seen, and nothing else is there."""

import shutil
import tempfile
from abc import abstractmethod
from pathlib import Path

import fsspec
import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from zephon_fsspec.local import LocalStorage
from zephon_fsspec.remote import FsspecStorage

# Directories and files have names of their own, so that no name is ever both.
folders = st.lists(st.sampled_from(["d", "d e", "d#1", "d%20", "ü", "d?x=1"]), max_size=2)
files = st.sampled_from(["f", "f g.txt", "f#frag", "f%20.parquet", "日本.jsonl", "f?q=1", "f&;'\"", ".f", "f[0]*"])
names = st.builds(lambda parts, name: "/".join([*parts, name]), folders, files)
contents = st.binary(max_size=300)


class StorageAgainstModel(RuleBasedStateMachine):
    """Subclasses choose the backend, the root and a way to write past the backend."""

    root: str

    @abstractmethod
    def write_past(self, name: str, content: bytes) -> None: ...

    @abstractmethod
    def remove_past(self, name: str) -> None: ...

    @initialize()
    def begin(self) -> None:
        self.model: dict[str, bytes] = {}

    def url(self, name: str) -> str:
        return f"{self.root}/{name}"

    @rule(name=names, content=contents, as_buffer=st.booleans())
    def write(self, name: str, content: bytes, as_buffer: bool) -> None:
        self.storage.write(self.url(name), pa.py_buffer(content) if as_buffer else content)
        self.model[name] = content

    @rule(name=names, content=contents)
    def someone_else_writes(self, name: str, content: bytes) -> None:
        self.write_past(name, content)
        self.model[name] = content

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def someone_else_removes(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.model)))
        self.remove_past(name)
        del self.model[name]

    @rule(name=names)
    def look_up(self, name: str) -> None:
        if name in self.model:
            info = self.storage.stat(self.url(name))
            assert (info.url, info.size) == (self.url(name), len(self.model[name]))
        else:
            with pytest.raises(FileNotFoundError):
                self.storage.stat(self.url(name))

    @rule(name=names, points=st.lists(st.tuples(st.integers(0, 310), st.integers(0, 310)), max_size=4))
    def read(self, name: str, points: list[tuple[int, int]]) -> None:
        ranges = [(min(pair), max(pair)) for pair in points]
        content = self.model.get(name)
        if content is None:
            expected = FileNotFoundError if ranges else None
        else:
            expected = EOFError if any(stop > len(content) for _, stop in ranges) else None
        if expected is not None:
            with pytest.raises(expected):
                self.storage.read_ranges(self.url(name), ranges)
        elif content is not None:
            buffers = self.storage.read_ranges(self.url(name), ranges)
            assert [b.to_pybytes() for b in buffers] == [content[start:stop] for start, stop in ranges]

    @invariant()
    def the_listing_is_the_model(self) -> None:
        found = {info.url: info for info in self.storage.list(self.root)}
        assert {url: info.size for url, info in found.items()} == {
            self.url(name): len(content) for name, content in self.model.items()
        }
        for url, info in found.items():
            assert self.storage.stat(url) == info

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def a_directory_is_not_a_file(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.model)))
        folder, _, _ = name.rpartition("/")
        with pytest.raises(IsADirectoryError):
            self.storage.stat(self.url(folder) if folder else self.root)
        with pytest.raises(NotADirectoryError):
            list(self.storage.list(self.url(name)))


class LocalAgainstModel(StorageAgainstModel):
    def __init__(self) -> None:
        super().__init__()
        self.root = tempfile.mkdtemp(prefix="zephon storage #")
        self.storage = LocalStorage()

    def write_past(self, name: str, content: bytes) -> None:
        path = Path(self.url(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def remove_past(self, name: str) -> None:
        Path(self.url(name)).unlink()

    def teardown(self) -> None:
        shutil.rmtree(self.root)


class MemoryAgainstModel(StorageAgainstModel):
    def __init__(self) -> None:
        super().__init__()
        self.root = "memory://model"
        self.storage = FsspecStorage()
        self.raw = fsspec.filesystem("memory")
        self.raw.mkdir("/model")

    def write_past(self, name: str, content: bytes) -> None:
        self.raw.pipe_file(f"/model/{name}", content)

    def remove_past(self, name: str) -> None:
        del self.raw.store[f"/model/{name}"]

    def teardown(self) -> None:
        self.raw.store.clear()
        self.raw.pseudo_dirs[:] = [""]


TestLocalAgainstModel = LocalAgainstModel.TestCase
TestMemoryAgainstModel = MemoryAgainstModel.TestCase
for case in (TestLocalAgainstModel, TestMemoryAgainstModel):
    case.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
del case
