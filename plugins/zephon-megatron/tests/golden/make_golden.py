"""Writes the golden files with megatron-core, datatrove and numpy, and what these read from them.

Run in an environment of its own; torch in a CPU build is enough::

    python -m venv golden && golden/bin/pip install --no-deps -r requirements.txt && golden/bin/python make_golden.py
"""

import json
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import torch
from datatrove.pipeline.tokens.megatron_tokenizer import MegatronTokenizedFile
from datatrove.pipeline.tokens.tokenizer import TokenizedFile
from datatrove.utils.dataset import DatatroveFileDataset
from megatron.core.datasets.indexed_dataset import DType, IndexedDataset, IndexedDatasetBuilder

HERE = Path(__file__).parent
#: Documents by the lengths of their sequences.
DOCUMENTS = ([3], [1, 4], [], [0], [2, 2, 5], [30])


def values(dtype, count):
    if np.dtype(dtype).kind == "f":
        return np.linspace(-2.5, 2.5, count, dtype=dtype)
    limits = np.iinfo(dtype)
    found = np.arange(count, dtype=dtype) * 3
    found[:2] = limits.max, limits.min
    return found


def write_indexed(prefix, dtype, multimodal=False):
    builder = IndexedDatasetBuilder(f"{prefix}.bin", dtype=dtype, multimodal=multimodal)
    tokens, place = values(dtype, sum(map(sum, DOCUMENTS))), 0
    for lengths in DOCUMENTS:
        for length in lengths:
            item = torch.from_numpy(
                tokens[place : place + length].astype("f8" if np.dtype(dtype).kind == "f" else "i8")
            )
            builder.add_item(item, *([1] if multimodal else []))
            place += length
        builder.end_document()
    builder.finalize(f"{prefix}.idx")


def read_indexed(prefix, multimodal=False):
    data = IndexedDataset(str(prefix), multimodal=multimodal, mmap=True)
    found = [data[i][0] if multimodal else data[i] for i in range(len(data))]
    sequences = [sequence.tolist() for sequence in found]
    bounds = data.document_indices
    documents = [list(chain.from_iterable(sequences[a:b])) for a, b in pairwise(bounds)]
    return {"documents": documents, "sequences": sequences}


def write_tokens(name, size, index=True):
    file = TokenizedFile(str(HERE), name, token_size=size, save_index=index, save_final_metadata=not index)
    for n, length in enumerate((5, 1, 0, 40, 13)):
        file.write([(n * 1000 + i * (1 if size == 2 else 65537)) for i in range(length)], None)
    file.close()


def read_windows(name, size, length):
    data = DatatroveFileDataset(str(HERE / name), length - 1, token_size=size)
    return [data[i]["input_ids"].tolist() for i in range(len(data))]


def main():
    lines = []
    for kind in DType:
        prefix = HERE / f"megatron-{kind.name}"
        write_indexed(prefix, getattr(np, kind.name))
        lines.append({"file": f"{prefix.name}.bin", **read_indexed(prefix)})
    write_indexed(HERE / "megatron-multimodal", np.int32, multimodal=True)
    lines.append({"file": "megatron-multimodal.bin", **read_indexed(HERE / "megatron-multimodal", multimodal=True)})
    for size in (2, 4):
        made = MegatronTokenizedFile(str(HERE), f"datatrove-{size}", token_size=size)
        for length in (4, 7, 1):
            made.write(list(range(length)))
        made.close()
        lines.append({"file": f"datatrove-{size}.bin", **read_indexed(HERE / f"datatrove-{size}")})
        write_tokens(f"tokens-{size}.ds", size)
        lines.append({"file": f"tokens-{size}.ds", "windows": read_windows(f"tokens-{size}.ds", size, 9)})
        write_tokens(f"tokens-{size}-no-index.ds", size, index=False)
        lines.append(
            {"file": f"tokens-{size}-no-index.ds", "windows": read_windows(f"tokens-{size}-no-index.ds", size, 9)}
        )
    for kind in ("u1", "i2", "u2", "<i4", ">i4", "u4", "i8", "u8"):
        array = (np.arange(60) * 2 % 127).astype(kind)
        name = f"array-{kind.replace('<', 'little-').replace('>', 'big-')}"
        np.save(HERE / f"{name}.npy", array)
        np.save(HERE / f"{name}-2d.npy", array.reshape(6, 10))
        lines.append({"file": f"{name}.npy", "windows": np.load(HERE / f"{name}.npy")[:54].reshape(6, 9).tolist()})
        lines.append({"file": f"{name}-2d.npy", "documents": np.load(HERE / f"{name}-2d.npy").tolist()})
    with open(HERE / "expected.jsonl", "w") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


if __name__ == "__main__":
    main()
