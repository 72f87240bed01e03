"""Real text that is on every machine: Python's own library sources, and its documentation topics and docstrings."""

from __future__ import annotations

import ast
import importlib.util
import json
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa

from zephon.abc import TrainsTokenizers, WritesShards
from zephon.io.indexing import cache_directory
from zephon.plugins import registry

SHARD_BYTES: Final = 4 << 20
VOCABULARY: Final = 8192
PACK_LENGTH: Final = 1025
_DOCUMENTED: Final = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
SCHEMA: Final = pa.schema([("text", pa.string()), ("name", pa.string())])


class Facts(NamedTuple):
    """What the corpus holds: rows and bytes of text of each part."""

    code_rows: int
    code_bytes: int
    prose_rows: int
    prose_bytes: int

    def describe(self) -> str:
        """One line for people."""
        return (
            f"code {self.code_rows:,} files, {self.code_bytes / 1e6:.1f} MB (JSON Lines); "
            f"prose {self.prose_rows:,} texts, {self.prose_bytes / 1e6:.1f} MB (Parquet)"
        )


def default_folder() -> Path:
    """Below the user's cache directory, one per Python version: its sources are the text."""
    return Path(cache_directory()) / f"demo-python{'.'.join(map(str, sys.version_info[:3]))}"


def prepare(folder: Path) -> Facts:
    """Make corpus and tokenizer once; a half-made one never counts."""
    done = folder / "facts.json"
    if done.exists():
        return Facts(**json.loads(done.read_text()))
    print(f"preparing  {folder} (once)", flush=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=".demo-", dir=folder.parent))
    try:
        code, prose = list(code_files()), list(prose_texts())
        _write("jsonl", ".jsonl", made / "code", code)
        _write("parquet", ".parquet", made / "prose", prose)
        _train([row["text"] for rows in (code, prose) for row in rows[:: max(1, len(rows) // 1500)]], made)
        facts = Facts(len(code), _bytes(code), len(prose), _bytes(prose))
        (made / "facts.json").write_text(json.dumps(facts._asdict()))
        shutil.rmtree(folder, ignore_errors=True)
        made.rename(folder)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    return facts


def write_recipe(data: Path, path: Path, *, lanes: int, microbatch: int) -> Path:
    """The demo's pipeline as a recipe."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"""\
[source]
kind = "static_mixture"
seed = 42
mixture = {{ code = 0.7, prose = 0.3 }}
exhausted_policy = "repeat"
shuffle_block_size = "auto"

[[source.datasets]]
name = "code"
path = {json.dumps(str(data / "code"))}

[[source.datasets]]
name = "prose"
path = {json.dumps(str(data / "prose"))}

[[operators]]
op = "shuffle"
buffer_size = 256

[[operators]]
op = "tokenize"
tokenizer_id = {json.dumps(str(data / "tokenizer.json"))}
field = "text"

[[operators]]
op = "pack_flat"
max_length = {PACK_LENGTH}
algorithm = "best_fit"
overflow = "split"

[[operators]]
op = "batch"
microbatch_size = {microbatch}

[options]
canonical_replicas = {lanes}
""",
        encoding="utf-8",
    )
    return path


def code_files() -> Iterator[dict[str, str]]:
    """Every source file of the standard library that is text, by path."""
    root = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(root.rglob("*.py")):
        relative = path.relative_to(root)
        if "site-packages" in relative.parts:
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except (UnicodeDecodeError, OSError):
            continue
        if text:
            yield {"text": text, "name": relative.as_posix()}


def prose_texts() -> Iterator[dict[str, str]]:
    """The topics of ``help()``, and the docstrings of every module of the standard library, in order, as one text."""
    if importlib.util.find_spec("pydoc_data.topics") is not None:
        from pydoc_data.topics import topics

        for name, text in sorted(topics.items()):
            yield {"text": text, "name": f"topic {name}"}
    for file in code_files():
        try:
            tree = ast.parse(file["text"])
        except (SyntaxError, ValueError, RecursionError):
            continue
        texts = [ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, _DOCUMENTED)]
        text = "\n\n".join(filter(None, texts))
        if text:
            yield {"text": text, "name": file["name"]}


def _write(format_name: str, suffix: str, folder: Path, rows: list[dict[str, str]]) -> None:
    """Write rows as shards of about ``SHARD_BYTES`` with the format's own writer."""
    folder.mkdir(parents=True)
    shard_format: Any = registry("shard_format").load(format_name)()
    assert isinstance(shard_format, WritesShards)
    for number, part in enumerate(_parts(rows)):
        batch = pa.RecordBatch.from_pylist(part, schema=SCHEMA)
        shard_format.write(str(folder / f"shard-{number:05d}{suffix}"), [batch], SCHEMA)


def _parts(rows: list[dict[str, str]]) -> Iterator[list[dict[str, str]]]:
    part: list[dict[str, str]] = []
    size = 0
    for row in rows:
        part.append(row)
        size += len(row["text"])
        if size >= SHARD_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def _train(texts: Iterable[str], folder: Path) -> None:
    backend = registry("tokenizer").load("hf")()
    assert isinstance(backend, TrainsTokenizers)
    backend.train(texts, vocab_size=VOCABULARY, path=str(folder / "tokenizer.json"))


def _bytes(rows: list[dict[str, str]]) -> int:
    return sum(len(row["text"].encode("utf-8")) for row in rows)
