"""States in a directory: one folder a step, one file a lane.

::

    root/step-000000001200/header-<digest>.json
    root/step-000000001200/lane-00012.bin

Every rank writes its own lanes; each file appears by an atomic rename, so a reader sees all of it or nothing. A step is
complete when its header and all lanes named there are present. No leader, no barrier, no lock.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

from zephon.abc import CheckpointState, CheckpointStore
from zephon.checkpoint.merging import ranges
from zephon.checkpoint.state import decode_header
from zephon.errors import CheckpointError, ConfigError
from zephon.io import urls

_STEP = re.compile(r"step-(\d{12,})")
_LANE = re.compile(r"lane-(\d{5,})\.bin")


class DirectoryStore(CheckpointStore):
    """Keeps states below a directory on a (possibly shared) file system.

    Args:
        root: the directory, as a path or a ``file:`` URL; made when first saved to.

    Raises:
        ConfigError: ``checkpoint-location`` for a URL that is no directory of this machine.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = _directory(os.fspath(root))

    def save(self, step: int, state: CheckpointState) -> None:
        """Write one rank's lanes of a step; see :class:`zephon.abc.CheckpointStore`."""
        folder = self._folder(step)
        folder.mkdir(parents=True, exist_ok=True)
        for key, data in state["lanes"].items():
            _write(folder / f"lane-{key}.bin", data)
        header = state["header"]
        digest = hashlib.blake2b(header, digest_size=8).hexdigest()
        _write(folder / f"header-{digest}.json", header)

    def load(self, step: int) -> CheckpointState:
        """Everything saved for a step; see :class:`zephon.abc.CheckpointStore`."""
        folder = self._folder(step)
        headers, lanes = self._contents(folder)
        if not headers:
            known = ", ".join(map(str, self.steps())) or "none"
            raise CheckpointError(
                f"there is no checkpoint of step {step} in {self._root}",
                found=f"complete steps: {known}",
                fix="choose one of these steps",
                code="checkpoint-missing",
            )
        if len(headers) > 1:
            raise CheckpointError(
                f"step {step} in {self._root} holds the lanes of different moments or pipelines",
                found=f"{len(headers)} different headers",
                fix="delete the step, or restore another",
                code="checkpoint-mixed",
            )
        header = headers[0].read_bytes()
        total = int(decode_header(header)["lanes"])
        missing = sorted(set(range(total)) - set(lanes))
        if missing:
            raise CheckpointError(
                f"the checkpoint of step {step} in {self._root} is incomplete",
                found=f"lanes {ranges(missing)} of {total} are missing",
                fix=f"restore a complete step: {', '.join(map(str, self.steps())) or 'there is none'}",
                code="checkpoint-incomplete",
            )
        return {"header": header, "lanes": {f"{n:05d}": path.read_bytes() for n, path in sorted(lanes.items())}}

    def steps(self) -> Sequence[int]:
        """Complete steps, ascending."""
        if not self._root.is_dir():
            return []
        found = []
        for folder in self._root.iterdir():
            match = _STEP.fullmatch(folder.name)
            if match is None:
                continue
            headers, lanes = self._contents(folder)
            if len(headers) == 1 and set(range(int(decode_header(headers[0].read_bytes())["lanes"]))) <= set(lanes):
                found.append(int(match[1]))
        return sorted(found)

    def delete(self, step: int) -> None:
        """Forget a step."""
        shutil.rmtree(self._folder(step), ignore_errors=True)

    def _folder(self, step: int) -> Path:
        return self._root / f"step-{step:012d}"

    @staticmethod
    def _contents(folder: Path) -> tuple[list[Path], dict[int, Path]]:
        if not folder.is_dir():
            return [], {}
        lanes = {}
        for path in folder.iterdir():
            match = _LANE.fullmatch(path.name)
            if match is not None:
                lanes[int(match[1])] = path
        return sorted(folder.glob("header-*.json")), lanes


def _directory(root: str) -> Path:
    scheme = urls.scheme_of(root)
    rest = root.removeprefix("file:")
    host, slash, path = rest[2:].partition("/") if rest.startswith("//") else ("", "", rest)
    if scheme not in {"", "file"} or (scheme and host not in {"", "localhost"}):
        raise ConfigError(
            f"{urls.display(root)} is no directory of this machine",
            found=f"scheme {scheme!r}, host {host.rpartition('@')[2]!r}",
            fix="give a path, or file:///path, on a disk that all ranks share",
            code="checkpoint-location",
        )
    return Path(unquote(slash + path, errors="surrogateescape") if scheme else root)


def _write(path: Path, data: bytes) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".tmp-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
