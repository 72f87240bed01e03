"""Archives for the conformance kit, written by Python's tarfile; imported by nobody else."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pyarrow as pa


class WebDatasetSamples:
    """Rows with keys and two members each, of which some are empty."""

    schema = pa.schema([("__key__", pa.string()), ("raw.bin", pa.binary()), ("txt", pa.binary())])

    def table(self, rows: int) -> pa.Table:
        """The kit's rows, but for keys: theirs have to be file names."""
        found: pa.Table = super().table(rows)  # type: ignore[misc] # the kit's suite comes behind this class
        keys = pa.array([f"folder.d/{row:05d}" for row in range(rows)], pa.string())
        return found.set_column(0, "__key__", keys)

    def archive(self, table: pa.Table) -> bytes:
        """One shard."""
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w") as tar:
            for row in table.to_pylist():
                for name in self.schema.names[1:]:
                    info = tarfile.TarInfo(f"{row['__key__']}.{name}")
                    info.size = len(row[name])
                    tar.addfile(info, io.BytesIO(row[name]))
        return made.getvalue()

    def write(self, path: Path, table: pa.Table) -> None:
        """One shard, not compressed."""
        path.with_suffix(".tar").write_bytes(self.archive(table))
