"""Writes the golden files beside it with LitData's own writer, and the rows as LitData's own dataset gives them.

Stand-alone: run it with the Python of an environment made from requirements.txt. With the argument ``before`` and
litdata 0.2.30 it writes what that version can into the folder of that name, and its rows into expected-before.jsonl.
"""

import base64
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

os.environ["DATA_OPTIMIZER_NUM_WORKERS"] = "1"

import numpy as np
import torch
from litdata import StreamingDataset
from litdata.streaming.item_loader import TokensLoader
from litdata.streaming.serializers import PILSerializer
from litdata.streaming.writer import BinaryWriter
from PIL import Image

BEFORE = sys.argv[1:] == ["before"]
HERE = Path(__file__).resolve().parent
TARGET = HERE / "before" if BEFORE else HERE
TEXTS = ("plain", "", "naïve café", "漢字かな", "🙂 astral", 'quotes " and \\', "u2028 \u2028 here")


def rows(i):
    return {
        "text": f"{TEXTS[i % len(TEXTS)]} {i}" if i % 9 else "",
        "n": (-1) ** i * 3 ** (i % 39),
        "score": (0.25, -0.0, 1.5e300, 1e-5)[i % 4],
        "flag": i % 3 == 0,
        "raw": bytes(range(i % 13)),
        "tokens": np.arange(i % 7, dtype=np.uint16) + i,
        "tensor": torch.arange(i % 5, dtype=torch.float16),
        "mask": torch.arange(1 + i % 4) % 2 == 0,
        "grid": np.arange((1 + i % 3) * 2, dtype=np.int32).reshape(1 + i % 3, 2),
        "cube": torch.arange(2 * (i % 3) * 2, dtype=torch.float32).reshape(2, i % 3, 2),
        "scalar": torch.tensor(i, dtype=torch.int64),
        "meta": {"page": i, "where": {"url": f"u{i}", "ok": i % 2 == 0}},
    }


def pairs(i):
    return f"document {i}: " + TEXTS[i % len(TEXTS)] * (i % 4), i


def nested(i):
    return {
        "id": i,
        "turns": [{"role": "user", "text": TEXTS[i % 7]}, {"role": "model", "text": f"answer {i}"}][: i % 3],
        "tags": [f"t{k}" for k in range(i % 4)],
    }


def mixed(i):
    """Lists and dicts beside an array."""
    return {
        "array": np.arange(i, dtype=np.int32),
        "texts": [TEXTS[k] for k in range(i % 4)],
        "ints": [i, -i],
        "floats": [i / 4] * (1 + i % 2),
        "bools": [True, i % 2 == 0],
        "turns": [{"role": "user", "n": i, "ok": True, "p": 0.5, "no": None}] * (1 + i % 2),
        "odd": [i, "text", None],
        "deep": {"a": [{"b": [1, 2], "c": {"d": None, "e": "é", "f": True, "g": 1.5}}], "h": []},
    }


def write(name, items, block=0, **options):
    """Write a directory and return its rows by chunk, as they are read."""
    folder = TARGET / name
    shutil.rmtree(folder, ignore_errors=True)
    writer = BinaryWriter(str(folder), **options)
    for number, item in enumerate(items):
        writer[number] = item
    writer.done()
    writer.merge(1)
    for lock in folder.glob("*.lock"):
        lock.unlink()
    return {name: read(folder, block)}


def read(folder, block):
    with tempfile.TemporaryDirectory() as cache:
        copy = Path(shutil.copytree(folder, Path(cache) / "data"))
        loader = TokensLoader(block_size=block) if block else None
        dataset = StreamingDataset(str(copy), item_loader=loader, shuffle=False)
        return [plain(dataset[place]) for place in range(len(dataset))]


def plain(value):
    """A value as JSON has it."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (np.ndarray, torch.Tensor)):
        return {"array": value.tolist(), "dtype": str(value.dtype).removeprefix("torch.")}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (bytes, memoryview)):
        return {"base64": base64.b64encode(bytes(value)).decode()}
    return value


def media():
    """Images and an object: read as the bytes LitData's serializers wrote, which is what its reader begins with."""
    from litdata import Jpeg

    images = [Image.new("RGB", (4, 3), (i, 2 * i, 3 * i)) for i in range(4)]
    jpegs = [b"\xff\xd8\xff fake " + bytes([i]) for i in range(4)]
    folder = TARGET / "media"
    shutil.rmtree(folder, ignore_errors=True)
    writer = BinaryWriter(str(folder), chunk_size=3)
    for i in range(4):
        writer[i] = {"n": i, "jpeg": Jpeg(bytes=jpegs[i]), "pil": images[i], "object": {1, i}}
    writer.done()
    writer.merge(1)
    return {
        "media": [plain({"n": i, "jpeg": jpegs[i], "pil": PILSerializer().serialize(images[i])[0]}) for i in range(4)]
    }


def main():
    expected = {}
    streams = [torch.arange(3 + (i * 5) % 11) + 100 * i for i in range(9)]
    expected |= write("rows", map(rows, range(7)), chunk_size=4)
    expected |= write("pairs", map(pairs, range(12)), chunk_size=5)
    expected |= write("values", (pairs(i)[0] for i in range(7)), chunk_size=5)
    expected |= write("tokens", streams, chunk_size=40, item_loader=TokensLoader(), block=4)
    arrays = [stream.numpy().astype(np.uint16) for stream in streams]
    expected |= write("tokens_numpy", arrays, chunk_size=40, item_loader=TokensLoader(), block=5)
    if BEFORE:
        expected |= write("zstd", map(pairs, range(12)), chunk_size=5, compression="zstd")
    else:
        level = {"compression": "zstd", "compression_level": "chunk"}
        expected |= write("zstd", map(pairs, range(12)), chunk_size=5, **level)
        expected |= write("zstd_tokens", streams, chunk_size=40, item_loader=TokensLoader(), block=4, **level)
        level = {"compression": "zstd", "compression_level": "batch", "compression_batch_size": 3}
        expected |= write("frames", map(rows, range(8)), chunk_size=5, **level)
        level = {"compression": "zstd", "compression_level": "sample"}
        expected |= write("each", map(rows, range(4)), chunk_size=3, **level)
        expected |= write("table", map(nested, range(6)), chunk_size=4)
        expected |= write("table_zstd", map(nested, range(4)), chunk_size=3, compression="zstd")
        expected |= write("mixed", map(mixed, range(4)), chunk_size=3)
        expected |= media()
    name = "expected-before.jsonl" if BEFORE else "expected.jsonl"
    with (HERE / name).open("w", encoding="utf-8") as out:
        for folder, found in expected.items():
            out.write(json.dumps({"folder": folder, "rows": found}, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
