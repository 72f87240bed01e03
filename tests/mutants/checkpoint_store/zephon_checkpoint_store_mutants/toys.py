"""Two stores for ``toy://``, folders of the local disk: what each must do, and one with options."""

import json
import os
import secrets
import shutil
import struct
import zlib
from pathlib import Path

from zephon.abc import CheckpointStore
from zephon.errors import CheckpointError, ConfigError

LENGTH = struct.Struct("<I")


def failure(what, code, found=""):
    return CheckpointError(what, found=found, fix="choose another step", code=code)


class Minimal(CheckpointStore):
    """A folder for each step, a file for each lane, with the header in front of its bytes."""

    def __init__(self, url):
        if not url.startswith("toy:///"):
            raise ConfigError("toy:// has no hosts", fix="write toy:///path", code="toy-location")
        self.root = Path(url.removeprefix("toy://"))

    def save(self, step, state):
        for key, data in state["lanes"].items():
            self.put(self.folder(step) / key, LENGTH.pack(len(state["header"])) + state["header"] + data)

    def load(self, step):
        found = self.found(step)
        headers = {header for header, _ in found.values()}
        if not headers:
            raise failure(f"there is no step {step}", "checkpoint-missing")
        if len(headers) > 1:
            raise failure(f"step {step} is mixed", "checkpoint-mixed")
        [header] = headers
        lacking = sorted(set(range(json.loads(header)["lanes"])) - set(map(int, found)))
        if lacking:
            raise failure(f"step {step} is incomplete", "checkpoint-incomplete", f"missing lanes: {lacking}")
        return {"header": header, "lanes": {key: data for key, (_, data) in sorted(found.items())}}

    def steps(self):
        return sorted(step for step in self.begun() if self.is_complete(step))

    def delete(self, step):
        shutil.rmtree(self.folder(step), ignore_errors=True)

    def folder(self, step):
        return self.root / str(step)

    def begun(self):
        return [int(name) for name in os.listdir(self.root)] if self.root.is_dir() else []

    def is_complete(self, step):
        try:
            self.load(step)
        except CheckpointError:
            return False
        return True

    def found(self, step):
        folder = self.folder(step)
        names = os.listdir(folder) if folder.is_dir() else []
        return {name: self.get(folder / name) for name in names if not name.startswith(".")}

    def get(self, path):
        content = path.read_bytes()
        [length] = LENGTH.unpack_from(content)
        return content[LENGTH.size : LENGTH.size + length], content[LENGTH.size + length :]

    def put(self, path, content):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{secrets.token_hex(8)}")
        try:
            temporary.write_bytes(content)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


class Maximal(Minimal):
    """The same, compressed.

    Args:
        level: of compression.
        token: a credential.
    """

    def __init__(self, url, *, level=1, token=""):
        super().__init__(url)
        self.level, self.token = level, token

    def save(self, step, state):
        lanes = {key: zlib.compress(data, self.level) for key, data in state["lanes"].items()}
        super().save(step, {"header": state["header"], "lanes": lanes})

    def load(self, step):
        state = super().load(step)
        return {"header": state["header"], "lanes": {key: zlib.decompress(d) for key, d in state["lanes"].items()}}
