"""Documents as tests: every code block is run, or says why it cannot be.

================================  =====================================================================================
block                             what becomes of it
================================  =====================================================================================
python                            run, all blocks of a document in one namespace and one empty directory
python file="name.py"             written to that file; the directory is on ``sys.path``
toml / json, with file="..."      written to that file; parsed in any case
sh                                every line is a command
console                           lines after ``$ `` are commands, the lines below a command are its output
text output                       what the block before printed
text, mermaid                     shown only
anything no-run="a reason"        parsed, not run
================================  =====================================================================================

Of commands, ``zephon ...`` is run (``PYTHONPATH=. zephon ...`` says that it needs the directory's own modules). In
expected output ``...`` stands for any text.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import gc
import io
import json
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from zephon.cli import main

LANGUAGES = {"python", "toml", "json", "sh", "console", "text", "mermaid"}
ATTRIBUTES = {"file", "no-run"}
_FENCE = re.compile(r"^```(\S*)(.*)$")
_ATTRIBUTE = re.compile(r'([\w-]+)="([^"]*)"')


class Block(NamedTuple):
    """One fenced block.

    Attributes:
        language: first word of its info string.
        flags: other words, e.g. ``output``.
        attributes: what is written as ``name="value"``.
        text: its content.
        line: number of the first line of its content, from 1.
    """

    language: str
    flags: frozenset[str]
    attributes: dict[str, str]
    text: str
    line: int


def blocks_of(document: Path) -> list[Block]:
    """The fenced blocks of a document."""
    blocks = []
    lines = document.read_text(encoding="utf-8").splitlines()
    opened: tuple[str, str, int] | None = None
    for number, line in enumerate(lines, start=1):
        fence = _FENCE.match(line)
        if fence is None:
            continue
        if opened is None:
            opened = (fence[1], fence[2], number)
            continue
        language, info, start = opened
        attributes = dict(_ATTRIBUTE.findall(info))
        flags = frozenset(_ATTRIBUTE.sub("", info).split())
        blocks.append(Block(language, flags, attributes, "\n".join(lines[start : number - 1]) + "\n", start + 1))
        opened = None
    assert opened is None, f"{document}:{opened[2] if opened else 0}: a block is not closed"
    return blocks


def check(document: Path, block: Block) -> None:
    """Check what a block says of itself, and its syntax."""
    where = f"{document}:{block.line}"
    assert block.language in LANGUAGES, f"{where}: a block of {block.language or 'no language'}"
    assert set(block.attributes) <= ATTRIBUTES, f"{where}: {block.attributes}"
    assert block.flags <= {"output"}, f"{where}: {set(block.flags)}"
    assert block.attributes.get("no-run", "a reason").strip(), f"{where}: no-run without a reason"
    if block.language == "python":
        ast.parse(block.text, where)
    elif block.language == "toml":
        tomllib.loads(block.text)
    elif block.language == "json":
        json.loads(block.text)


def commands_of(block: Block) -> Iterator[tuple[str, str]]:
    """The commands of a ``sh`` or ``console`` block, each with the output shown ("" for none)."""
    text = block.text.replace("\\\n", " ")
    if block.language == "sh":
        for line in text.splitlines():
            if line.strip() and not line.startswith("#"):
                yield line.strip(), ""
        return
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command.strip(), output


def run(document: Path, folder: Path) -> int:
    """Run the blocks of a document in a directory and return how many there were to run."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    printed = ""
    ran = 0
    with contextlib.chdir(folder), _importing(folder):
        try:
            for block in blocks_of(document):
                where = f"{document}:{block.line}"
                if "output" in block.flags:
                    _compare(where, block.text, printed)
                elif "file" in block.attributes:
                    (folder / block.attributes["file"]).write_text(block.text, encoding="utf-8")
                elif "no-run" in block.attributes:
                    continue
                elif block.language == "python":
                    with contextlib.redirect_stdout(io.StringIO()) as out:
                        # Blank lines before it, so that tracebacks name the lines of the document.
                        source = "\n" * (block.line - 1) + block.text
                        exec(compile(source, str(document), "exec"), namespace)
                    printed, ran = out.getvalue(), ran + 1
                elif block.language in ("sh", "console"):
                    for command, expected in commands_of(block):
                        printed, ran = _command(where, command), ran + 1
                        if expected.strip():
                            _compare(where, expected, printed)
        finally:
            namespace.clear()
            gc.collect()
    return ran


def _command(where: str, command: str) -> str:
    words = shlex.split(command)
    if words[0] == "PYTHONPATH=.":
        del words[0]
    assert words[0] == "zephon", f"{where}: only zephon is run here; say no-run=... of {command!r}"
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            status = main(words[1:])
        except SystemExit as exit_:  # of argparse: --help, wrong usage
            status = exit_.code
    assert status == 0, f"{where}: {command!r} ended with {status}\n{out.getvalue()}{err.getvalue()}"
    return out.getvalue()


def _compare(where: str, expected: str, found: str) -> None:
    checker = doctest.OutputChecker()
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert checker.check_output(expected, found, flags), f"{where}: expected\n{expected}\nfound\n{found}"


@contextlib.contextmanager
def _importing(folder: Path) -> Iterator[None]:
    """The directory's own modules can be imported, and are forgotten afterwards."""
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            if Path(str(getattr(sys.modules[name], "__file__", None) or "")).parent == folder:
                del sys.modules[name]
