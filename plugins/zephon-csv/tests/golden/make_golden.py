"""Writes the golden files beside this script, and the rows as pandas reads them: see requirements.txt."""

import gzip
import json
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pacsv
import zstandard

HERE = Path(__file__).parent
TEXTS = [
    "plain",
    "",
    "two\nlines",
    "carriage\r\nreturn",
    'a "quoted" word',
    "comma, semi; tab\t",
    "naïve 漢字 🙂",
    '"',
    "\n",
    " edge ",
]


def main() -> None:
    rows = {
        "id": list(range(30)),
        "text": [TEXTS[i % len(TEXTS)] for i in range(30)],
        "zip": [f"{i:05d}x" for i in range(30)],
        "score": [i / 8 for i in range(30)],
        "flag": [i % 3 == 0 for i in range(30)],
    }
    frame = pd.DataFrame(rows)
    frame.to_csv(HERE / "pandas.csv", index=False)
    frame.to_csv(HERE / "pandas.tsv", index=False, sep="\t", lineterminator="\r\n")
    (HERE / "pandas.csv.gz").write_bytes(gzip.compress((HERE / "pandas.csv").read_bytes(), mtime=0))
    (HERE / "pandas.csv.zst").write_bytes(zstandard.compress((HERE / "pandas.csv").read_bytes()))
    frame.to_csv(HERE / "utf16.csv", index=False, encoding="utf-16")
    pl.DataFrame(rows).write_csv(HERE / "polars.csv")
    pacsv.write_csv(pa.table(rows), HERE / "arrow.csv")
    # A quote in the middle of a field is text, and blank lines are no rows.
    (HERE / "stray.csv").write_bytes(b'id,text\n1,5" disk\n\n2,"said ""so"", then"\n3,a "b\n4,"c\nd"e "f\n')
    read = pd.read_csv(HERE / "pandas.csv", keep_default_na=False)
    stray = pd.read_csv(HERE / "stray.csv", keep_default_na=False)
    with (HERE / "expected.jsonl").open("w") as file:
        for frame in (read, stray):
            for row in frame.to_dict("records"):
                file.write(
                    json.dumps({key: getattr(value, "item", lambda v=value: v)() for key, value in row.items()}) + "\n"
                )


if __name__ == "__main__":
    main()
