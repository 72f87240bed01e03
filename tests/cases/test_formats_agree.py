"""The same 5,000 documents in every format are one stream: where rows lie and how they are packed changes nothing."""

import csv
import hashlib
import io
import itertools
import json
import random
import sysconfig
import tarfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zephon import Pipeline
from zephon.io import Dataset
from zephon.work import StaticMixtureWorkSource
from zephon_litdata.samples import LitDataSamples
from zephon_mds.samples import MdsSamples
from zephon_megatron.samples import MegatronSamples

SHARDS = [1400, 1, 2100, 1499]
SCHEMA = {"text": "string"}


def documents():
    """Pieces of Python's own sources, of very different lengths, none with a line end or a lonely surrogate."""
    chance = random.Random(0)
    source = (Path(sysconfig.get_paths()["stdlib"]) / "typing.py").read_text(encoding="utf-8").replace("\n", " ")
    found = []
    for number in range(sum(SHARDS)):
        start = chance.randrange(len(source))
        found.append(f"{number} é " + source[start : start + int(chance.paretovariate(1.2) * 20)].replace('"', "'"))
    return found


def jsonl(path, texts):
    path.with_suffix(".jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))


def parquet(path, texts):
    pq.write_table(pa.table({"text": texts}), path.with_suffix(".parquet"), row_group_size=77)


def arrow(path, texts):
    table = pa.table({"text": texts})
    with pa.ipc.new_file(path.with_suffix(".arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=200)


def commas(path, texts):
    with path.with_suffix(".csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["text"], *([text] for text in texts)])


def lines(path, texts):
    path.with_suffix(".txt").write_text("".join(text + "\n" for text in texts), encoding="utf-8")


def tar(path, texts):
    with tarfile.open(path.with_suffix(".tar"), "w") as made:
        for number, text in enumerate(texts):
            member = tarfile.TarInfo(f"{number:06d}.txt")
            member.size = len(text.encode())
            made.addfile(member, io.BytesIO(text.encode()))


def tokens(path, texts):
    lists = [np.frombuffer(text.encode(), np.uint8).astype(np.int32).tolist() for text in texts]
    MegatronSamples().write(path, pa.table({"input_ids": pa.array(lists, pa.list_(pa.int32()))}))


def mds(path, texts):
    MdsSamples().write(path, pa.table({"text": texts}))


def litdata(path, texts):
    LitDataSamples().write(path, pa.table({"text": texts}))


def from_txt(row):
    return {"text": row["txt"].decode()}


def from_tokens(row):
    return {"text": bytes(row["input_ids"]).decode()}


def plain(row):
    return {"text": row["text"]}


FORMATS = {
    "jsonl": (jsonl, plain),
    "parquet": (parquet, plain),
    "arrow": (arrow, plain),
    "csv": (commas, plain),
    "text": (lines, plain),
    "webdataset": (tar, from_txt),
    "megatron": (tokens, from_tokens),
    "mds": (mds, plain),
    "litdata": (litdata, plain),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    texts = documents()
    starts = np.cumsum([0, *SHARDS])
    folders = {}
    for name, (write, _) in FORMATS.items():
        folders[name] = tmp_path_factory.mktemp(name)
        for shard, (start, stop) in enumerate(itertools.pairwise(starts)):
            write(folders[name] / f"shard-{shard}", texts[start:stop])
    return folders


def digest(folder, name, **options):
    dataset = Dataset.from_path("documents", folder, fmt=name)
    assert dataset.shard_rows.tolist() == SHARDS
    work = StaticMixtureWorkSource([dataset], {"documents": 1}, seed=7, shuffle_block_size=512)
    made = Pipeline(work).map_transform(FORMATS[name][1], schema=SCHEMA).shuffle(100).batch(8)
    with made.options(canonical_replicas=4, tail="pad", **options) as pipeline:
        found = hashlib.sha256()
        rows = 0
        for batch in pipeline:
            for row in batch.to_pylist():
                rows += not batch.is_filler
                found.update(json.dumps(row).encode())
    return rows, found.hexdigest()


@pytest.fixture(scope="module")
def expected(folders):
    return digest(folders["jsonl"], "jsonl", runner="inline")


@pytest.mark.parametrize("name", FORMATS)
def test_one_stream_whatever_the_format(folders, expected, name):
    assert digest(folders[name], name) == expected
    assert expected[0] > 4900


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "text"])
def test_the_format_is_recognised(folders, name):
    """Of ``text``, any file could be; it has to be named."""
    assert Dataset.from_path("documents", folders[name]).format_name == name
