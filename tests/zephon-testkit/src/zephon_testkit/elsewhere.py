"""Reads a shard in another process, as a worker does that was given the index.

``python -m zephon_testkit.elsewhere FOLDER`` is the other side: it reads ``task.json`` and the Arrow files beside it,
and writes what it read to ``rows.arrow``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pyarrow as pa

from zephon.abc import FileInfo, Shard, ShardIndex
from zephon.plugins import registry
from zephon.spec import from_plain
from zephon_testkit.files import DiskContext


def read_elsewhere(
    point: str, plugin: str, settings: Mapping[str, Any], shard: Shard, index: ShardIndex
) -> pa.RecordBatch:
    """All rows of a shard, read in a fresh interpreter that hashes strings in another way.

    Raises:
        AssertionError: the other process failed, with what it printed.
    """
    with tempfile.TemporaryDirectory(prefix="zephon-elsewhere-") as name:
        folder = Path(name)
        task = {
            "point": point,
            "plugin": plugin,
            "settings": settings,
            "shard": attrs.asdict(shard),
            "rows": index.rows,
            "units": None if index.units is None else index.units.tolist(),
            "bad_rows": index.bad_rows,
        }
        (folder / "task.json").write_text(json.dumps(task), encoding="utf-8")
        _write(folder / "schema.arrow", pa.RecordBatch.from_pylist([], schema=index.schema))
        if index.blob is not None:
            _write(folder / "blob.arrow", index.blob)
        command = [sys.executable, "-m", "zephon_testkit.elsewhere", str(folder)]
        path = os.pathsep.join(entry for entry in sys.path if entry)
        env = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "12345"}
        done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=120, check=False)
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        assert done.returncode == 0, f"another process fails with the saved index: {last} ({done.returncode})"
        return _read(folder / "rows.arrow")


def main(folder: Path) -> None:
    """Read what ``task.json`` says."""
    task = json.loads((folder / "task.json").read_text(encoding="utf-8"))
    shard = Shard(**{**task["shard"], "file": FileInfo(**task["shard"]["file"])})
    blob = folder / "blob.arrow"
    index = ShardIndex(
        rows=task["rows"],
        units=None if task["units"] is None else np.array(task["units"], dtype=np.int64),
        schema=_read(folder / "schema.arrow").schema,
        blob=_read(blob) if blob.exists() else None,
        bad_rows=tuple((row, offset, reason) for row, offset, reason in task["bad_rows"]),
    )
    made = from_plain(registry(task["point"]).load(task["plugin"]), task["settings"])
    reader = made.open(shard, index, DiskContext())
    _write(folder / "rows.arrow", reader.read(np.arange(index.rows), None))
    reader.close()


def _write(path: Path, batch: pa.RecordBatch) -> None:
    with pa.ipc.new_file(str(path), batch.schema) as writer:
        writer.write_batch(batch)


def _read(path: Path) -> pa.RecordBatch:
    with pa.ipc.open_file(pa.py_buffer(path.read_bytes())) as reader:
        return reader.get_batch(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
