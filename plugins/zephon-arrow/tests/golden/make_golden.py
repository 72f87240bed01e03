"""Writes the golden files beside this script, and what the libraries that wrote them read: see requirements.txt."""

import shutil
from pathlib import Path

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.feather as feather

HERE = Path(__file__).parent
ROWS = 40


def rows(first: int) -> dict[str, list[object]]:
    numbers = range(first, first + ROWS)
    return {
        "id": list(numbers),
        "text": [None if i % 11 == 3 else f"döcument {i} " * (i % 4) for i in numbers],
        "label": [i % 3 for i in numbers],
        "tokens": [list(range(i % 5)) for i in numbers],
        "meta": [{"lang": "en" if i % 2 else "de", "score": i / 4} for i in numbers],
    }


def save(dataset: object, name: str) -> None:
    shutil.rmtree(HERE / name, ignore_errors=True)
    dataset.save_to_disk(str(HERE / name), **({} if name == "splits" else {"num_shards": 2}))


def main() -> None:
    features = datasets.Features(
        {
            "id": datasets.Value("int32"),
            "text": datasets.Value("large_string"),
            "label": datasets.ClassLabel(names=["a", "b", "c"]),
            "tokens": datasets.Sequence(datasets.Value("int64")),
            "meta": {"lang": datasets.Value("string"), "score": datasets.Value("float32")},
        }
    )
    one = datasets.Dataset.from_dict(rows(0), features=features)
    save(one, "saved")
    other = datasets.Dataset.from_dict(rows(100), features=features)
    save(datasets.DatasetDict({"train": one, "test": other}), "splits")
    with (HERE / "expected.jsonl").open("wb") as file:
        datasets.load_from_disk(str(HERE / "saved")).to_json(file)

    table = pa.table(rows(0)).append_column(
        "kind", pa.array([f"kind {i % 4}" for i in range(ROWS)]).dictionary_encode()
    )
    table = table.append_column("vector", pa.FixedSizeListArray.from_arrays(np.arange(ROWS * 2, dtype="f4"), 2))
    for compression in ("uncompressed", "lz4", "zstd"):
        feather.write_feather(table, HERE / f"{compression}.feather", compression=compression, chunksize=16)
    options = pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V4, use_legacy_format=True)
    with pa.ipc.new_stream(HERE / "legacy.arrow", table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=16)
    # Dictionaries that are replaced and added to, as streams may do.
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    with pa.ipc.new_stream(
        HERE / "dictionaries.arrow", pa.schema([table.schema.field("kind")]), options=options
    ) as writer:
        for words in (["a", "b"], ["a", "b", "c"], ["x", "y", "z"], ["x", "y", "z", "w"]):
            array = pa.DictionaryArray.from_arrays(pa.array([0, 1, len(words) - 1, None], pa.int32()), words)
            writer.write_batch(pa.record_batch([array], names=["kind"]))


if __name__ == "__main__":
    main()
