"""Writes the golden files beside it with MosaicML's own writer, and the rows as MosaicML's own reader gives them.

Stand-alone: run it with the Python of an environment made from requirements.txt.
"""

import base64
import importlib.util
import io
import json
import shutil
import sys
import types
from decimal import Decimal
from pathlib import Path

import numpy as np
from PIL import Image

# The packages' own __init__ modules import torchvision and transformers, which reading and writing do not need.
_ROOT = Path(importlib.util.find_spec("streaming").origin).parent
for _name in ("streaming", "streaming.base"):
    _package = types.ModuleType(_name)
    _package.__path__ = [str(_ROOT.joinpath(*_name.split(".")[1:]))]
    sys.modules[_name] = _package

from streaming.base.format.mds.reader import MDSReader  # noqa: E402
from streaming.base.format.mds.writer import MDSWriter  # noqa: E402

HERE = Path(__file__).resolve().parent
TEXTS = ("plain", "", "naïve café", "漢字かな", "🙂 astral", 'quotes " and \\', "u2028 \u2028 here")


def scalars(i):
    return {
        "text": f"{TEXTS[i % len(TEXTS)]} {i}" if i % 9 else "",
        "raw": bytes(range(i % 13)),
        "whole": (-1) ** i * 2 ** (i % 63),
        **{f"i{bits}": (-1) ** i * (i % 100) for bits in (8, 16, 32, 64)},
        **{f"u{bits}": 2**bits - 1 - i for bits in (8, 16, 32, 64)},
        **{f"f{bits}": (i - 20) / 4 for bits in (16, 32, 64)},
        "digits": (-1) ** i * 3**i % 2**62,
        "real": (1e-5, -0.0, float("inf"), 1.5e300, 3.25)[i % 5],
        "exact": Decimal(i).scaleb(-(i % 5)),
        "any": ({"a": [i, None]}, [1, 2.5], "text é", i)[i % 4],
    }


SCALARS = {
    "text": "str",
    "raw": "bytes",
    "whole": "int",
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
    "digits": "str_int",
    "real": "str_float",
    "exact": "str_decimal",
    "any": "json",
}


def arrays(i):
    return {
        "tokens": np.arange(1 + (i * 137) % 300, dtype=np.uint16),
        "free": np.arange(1 + i % 5, dtype=np.int32) - i,
        "grid": np.arange((1 + i % 3) * (2 + i % 2), dtype=np.float32).reshape(1 + i % 3, 2 + i % 2),
        "fixed": np.arange(4, dtype=np.int64) * i,
        "tensor": (np.arange(6, dtype=np.float16) + i).reshape(2, 3),
    }


ARRAYS = {
    "tokens": "ndarray:uint16",
    "free": "ndarray",
    "grid": "ndarray:float32",
    "fixed": "ndarray:int64:4",
    "tensor": "ndarray:float16:2,3",
}


def media(i):
    image = Image.new("RGB", (4, 3), (i, 2 * i, 3 * i))
    jpeg = io.BytesIO()
    image.save(jpeg, format="JPEG")
    return {
        "n": i,
        "jpeg": image,
        "jpegs": [jpeg.getvalue()] * (1 + i % 2),
        "png": image,
        "pil": image,
        "pngs": [image] * (i % 3),
        "object": {"n": i},
    }


MEDIA = {
    "n": "int",
    "jpeg": "jpeg",
    "jpegs": "jpeg_array",
    "png": "png",
    "pil": "pil",
    "pngs": "list[png]",
    "object": "pkl",
}


def documents(i):
    return {"n": i, "text": f"document {i}: " + TEXTS[i % len(TEXTS)] * (i % 4)}


DOCUMENTS = {"n": "int", "text": "str"}


def write(name, columns, rows, raw=False, **options):
    """Write a directory and return its rows, shard after shard, as they are read."""
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    with MDSWriter(out=str(folder), columns=columns, **options) as writer:
        for row in rows:
            writer.write(row)
    return {name: read(folder, raw)}


def read(folder, raw):
    """Rows by shard. A compressed shard is decompressed into a folder of its own, as a stream does."""
    from streaming.base.compression import decompress

    found = {}
    for entry in json.loads((folder / "index.json").read_text())["shards"]:
        stored, where = entry["raw_data"]["basename"], folder
        if entry["zip_data"]:
            where = folder / "raw"
            where.mkdir()
            stored = entry["zip_data"]["basename"]
            content = decompress(entry["compression"], (folder / stored).read_bytes())
            (where / entry["raw_data"]["basename"]).write_bytes(content)
        reader = MDSReader.from_json(str(where), "", entry)
        found[stored] = [plain(stored_values(reader, i) if raw else reader[i]) for i in range(len(reader))]
        if entry["zip_data"]:
            shutil.rmtree(where)
    return found


def stored_values(reader, i):
    """The bytes of each column as the reader cuts them out, before it decodes them."""
    import streaming.base.format.mds.reader as module

    decode, module.mds_decode = (
        module.mds_decode,
        lambda encoding, data: int(np.frombuffer(data, np.int64)[0]) if encoding == "int" else bytes(data),
    )
    try:
        return reader[i]
    finally:
        module.mds_decode = decode


def plain(value):
    """A value as JSON has it."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return {"array": value.tolist(), "dtype": str(value.dtype)}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    return value


def main():
    expected = {}
    expected |= write("scalars", SCALARS, map(scalars, range(40)), size_limit=3000, hashes=["sha1", "xxh64"])
    expected |= write("arrays", ARRAYS, map(arrays, range(9)), size_limit=3000, hashes=["sha1"])
    expected |= write("media", MEDIA, map(media, range(4)), raw=True)
    for family in ("zstd", "gz", "br:5", "bz2", "snappy"):
        name = family.partition(":")[0]
        expected |= write(
            name, DOCUMENTS, map(documents, range(30)), size_limit=1200, compression=family, hashes=["sha1"]
        )
    expected |= write("streams/a", DOCUMENTS, map(documents, range(10)), size_limit=700)
    expected |= write("streams/b", DOCUMENTS, map(documents, range(10, 25)), size_limit=700)
    expected |= write("zstd_arrays", ARRAYS, map(arrays, range(3)), compression="zstd:7")
    with (HERE / "expected.jsonl").open("w", encoding="utf-8") as out:
        for folder, shards in expected.items():
            for shard, rows in shards.items():
                out.write(json.dumps({"shard": f"{folder}/{shard}", "rows": rows}, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
