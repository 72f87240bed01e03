"""Files for the conformance kit where a format cannot hold the rows the kit has."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pyarrow as pa


class TextSamples:
    """Lines in a file that is called .txt."""

    schema: ClassVar[pa.Schema] = pa.schema([("text", pa.string())])

    def write(self, path: Path, table: pa.Table) -> None:
        """Write one line a row."""
        lines = (f"{text}\n" for text in table["text"].to_pylist())
        path.with_suffix(".txt").write_text("".join(lines), encoding="utf-8", newline="")
