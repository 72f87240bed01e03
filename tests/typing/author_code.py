"""Plugins of every kind, as their author's type checker sees them. Checked, never run; they have to stay right."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, assert_type

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from zephon import Batch, Pipeline
from zephon.abc import (
    CheckpointState,
    CheckpointStore,
    DatasetInfo,
    FileHead,
    FileInfo,
    HasContent,
    LaneContext,
    LaneOperator,
    LaneState,
    LocalPath,
    OperatorContext,
    PhaseWeights,
    Program,
    RangedShard,
    RowOperator,
    Runner,
    RunnerFacts,
    Shard,
    ShardContext,
    ShardFormat,
    ShardIndex,
    ShardReader,
    Snapshot,
    SpecialTokens,
    StorageBackend,
    Tokenizer,
    TokenizerBackend,
    WorkSource,
)
from zephon.block import Block, Origins
from zephon.errors import BadRow, BadRowsError, CheckpointError
from zephon.plugins import (
    CheckpointStoreDescriptor,
    OperatorDescriptor,
    Registration,
    RunnerDescriptor,
    ShardFormatDescriptor,
    StorageDescriptor,
    TokenizerDescriptor,
    WorkSourceDescriptor,
    hookimpl,
    hooks_manager,
    register,
    registry,
)
from zephon.spec import execution, fingerprint, runtime

# --- operators --------------------------------------------------------------------------------------------------------


@attrs.frozen(slots=True)
class Shout(RowOperator):
    """A fact of all instances is a class attribute, one of each instance a property."""

    field: str = "text"
    suffix: str = attrs.field(default="!", kw_only=True, validator=attrs.validators.min_len(1))
    parallelism: int | None = execution(default=None)
    placement: str | None = execution(default=None)
    _runtime: Any = runtime()

    preserves_rows = True

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.field,)

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        return schema

    def setup(self, context: OperatorContext) -> None:
        self._runtime.key = context.key

    def apply(self, block: Block) -> Block:
        place = block.schema.get_field_index(self.field)
        upper = pc.call_function("utf8_upper", [block.data.column(place)])
        bad = [BadRow(row, "no letters") for row, text in enumerate(upper.to_pylist()) if not text]
        if bad:
            raise BadRowsError(bad, what=f"{self.field} has no letters")
        return block.with_data(block.data.set_column(place, block.schema.field(place), upper))

    def content(self) -> Mapping[str, Any]:
        return {"suffix": self.suffix}


@attrs.frozen(kw_only=True)
class Pick(RowOperator):
    """A fact may be a setting too; all settings by keyword, so that one without default may follow one with."""

    reads: Sequence[str] | None = attrs.field(default=None)
    parallelism: int | None = execution(default=None)
    labels: Mapping[str, str] = execution(factory=dict[str, str])
    share: float

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        return schema

    def apply(self, block: Block) -> Block:
        parents = np.arange(0, len(block), 2, dtype=np.int64)
        return block.derive(block.take(parents).data, parents)


@attrs.frozen(slots=True)
class EveryNth(LaneOperator):
    n: int = 2
    parallelism: int | None = execution(default=None)
    placement: str | None = execution(default=None)

    emits = "rows"
    reads = ("text",)

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        return schema

    def open(self, context: LaneContext) -> LaneState:
        return EveryNthState(self.n, context.lane % self.n)


class EveryNthState(LaneState):
    def __init__(self, n: int, seen: int) -> None:
        self.n = n
        self.seen = seen

    def push(self, block: Block) -> Iterator[Block]:
        kept = np.flatnonzero((np.arange(len(block)) + self.seen) % self.n == 0)
        self.seen += len(block)
        yield block.take(kept)

    def finish(self) -> list[Block]:
        return []

    def snapshot(self) -> Snapshot:
        return Snapshot(meta={"seen": self.seen})

    def restore(self, snapshot: Snapshot) -> None:
        self.seen = snapshot.meta["seen"]


# --- where rows come from ---------------------------------------------------------------------------------------------

SCHEMA = pa.schema([("text", pa.string())])


@attrs.frozen(slots=True)
class Lines(ShardFormat):
    suffix: str = ".lines"

    def recognise(self, head: FileHead) -> bool:
        return head.info.name.endswith(self.suffix) and b"\0" not in head.head

    def discover(self, files: Sequence[FileInfo]) -> Iterable[Shard]:
        return (Shard(url=file.url, name=file.name, file=file) for file in files if file.name.endswith(self.suffix))

    def index(self, shard: Shard, context: ShardContext) -> ShardIndex:
        rows = context.read_all(shard.url).to_pybytes().count(b"\n")
        return ShardIndex(rows=rows, units=np.array([0, rows], dtype=np.int64), schema=SCHEMA)

    def open(self, shard: Shard, index: ShardIndex, context: ShardContext) -> "LinesReader":
        return LinesReader(context.read_all(shard.url).to_pybytes().decode().splitlines())


class LinesReader(ShardReader):
    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines

    def read(self, rows: npt.NDArray[np.int64], columns: Sequence[str] | None) -> pa.RecordBatch:
        batch = pa.record_batch([pa.array([self.lines[row] for row in rows], pa.string())], schema=SCHEMA)
        return batch if columns is None else batch.select(list(columns))

    def ranges(self, rows: npt.NDArray[np.int64], columns: Sequence[str] | None) -> npt.NDArray[np.int64]:
        return np.stack([rows, rows + 1], axis=1)


class Folder(StorageBackend):
    def __init__(self, root: str = "/") -> None:
        self._root = Path(root)

    def stat(self, url: str) -> FileInfo:
        facts = (self._root / url).stat()
        return FileInfo(url=url, size=facts.st_size, mtime=facts.st_mtime)

    def list(self, url: str) -> Iterator[FileInfo]:
        for path in (self._root / url).iterdir():
            yield self.stat(str(path))

    def read_ranges(self, url: str, ranges: Sequence[tuple[int, int]]) -> Sequence[pa.Buffer]:
        content = (self._root / url).read_bytes()
        return [pa.py_buffer(content[start:stop]) for start, stop in ranges]

    def local_path(self, url: str) -> str:
        return str(self._root / url)


@attrs.frozen(slots=True)
class RoundRobin(WorkSource):
    """A private field that is an argument names it: pyright does not take underscores off, as attrs does."""

    _datasets: tuple[DatasetInfo, ...] = attrs.field(alias="datasets")
    _seed: int = attrs.field(default=0, alias="seed")

    def read(self, lane: int, lanes: int, start: int, stop: int) -> Origins:
        n = stop - start
        zeros = np.zeros(n, dtype=np.int64)
        return Origins(
            component=zeros.astype(np.int16),
            dataset=zeros.astype(np.int16),
            shard=zeros.astype(np.int32),
            row=np.arange(start, stop, dtype=np.int64) * lanes + lane,
            epoch=zeros,
            part=zeros.astype(np.uint64),
            phase=zeros.astype(np.int32),
        )

    def lane_length(self, lane: int, lanes: int) -> int:
        return int(self._datasets[0].shard_rows[0]) // lanes

    @property
    def datasets(self) -> Sequence[DatasetInfo]:
        return self._datasets

    @property
    def seed(self) -> int:
        return self._seed

    @property
    def phases(self) -> tuple[PhaseWeights, ...]:
        return (PhaseWeights(weights=dict.fromkeys(self.components, 1)),)

    def to_plain(self) -> dict[str, Any]:
        return {"datasets": [dataset.name for dataset in self._datasets], "seed": self._seed}

    def continues(self, old: Mapping[str, Any], lanes: int, positions: Sequence[int]) -> list[str]:
        return [] if old == self.to_plain() else [f"was {old}, is {self.to_plain()}"]


# --- how it runs, and where its state goes ----------------------------------------------------------------------------


class Pool(Runner):
    def __init__(self, parallelism: int | None = None) -> None:
        self._workers = parallelism or 1
        self._pool = ThreadPoolExecutor(self._workers)
        self._programs: list[Program] = []

    def start(self, programs: Sequence[Program]) -> None:
        self._programs.extend(programs)

    def submit(self, program: int, task: Any) -> Future[Any]:
        return self._pool.submit(self._programs[program].open(), task)

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    @property
    def facts(self) -> RunnerFacts:
        return RunnerFacts(workers=self._workers)


class ByteTokenizer(Tokenizer):
    def encode(self, texts: pa.Array, *, special_tokens: bool) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        pieces = [list(text.encode()) for text in texts.to_pylist()]
        offsets = np.cumsum([0, *(len(piece) for piece in pieces)], dtype=np.int64)
        return offsets, np.array([byte for piece in pieces for byte in piece], dtype=np.int32)

    def decode(self, ids: npt.NDArray[np.int32]) -> str:
        return bytes(ids.tolist()).decode(errors="replace")

    @property
    def special_tokens(self) -> SpecialTokens:
        return SpecialTokens(eos=0)

    @property
    def vocab_size(self) -> int:
        return 256

    @property
    def content_hash(self) -> str:
        return "bytes"


class ByteTokenizers(TokenizerBackend):
    def load(self, tokenizer_id: str, **options: Any) -> ByteTokenizer:
        return ByteTokenizer()


class InMemory(CheckpointStore):
    def __init__(self, url: str = "") -> None:
        self._states: dict[int, CheckpointState] = {}

    def save(self, step: int, state: CheckpointState) -> None:
        known = self._states.setdefault(step, CheckpointState(header=state["header"], lanes={}))
        known["lanes"].update(state["lanes"])

    def load(self, step: int) -> CheckpointState:
        if step not in self._states:
            raise CheckpointError(f"nothing saved at {step}", found=f"{self.steps()}", code="checkpoint-missing")
        return self._states[step]

    def steps(self) -> list[int]:
        return sorted(self._states)

    def delete(self, step: int) -> None:
        self._states.pop(step, None)


class StepLog:
    @hookimpl
    def batch(self, round: int, batch: Batch) -> None:
        print(round, batch.lane, len(batch))


# --- descriptors, and all of them in use ------------------------------------------------------------------------------

shout = OperatorDescriptor(name="shout", summary="upper-cases", impl="acme.shout:Shout", capabilities={"content"})
lines = ShardFormatDescriptor(
    name="lines", summary="texts", impl="acme:Lines", suffixes=(".lines",), magic=(b"#!",), capabilities=["ranges"]
)
folder = StorageDescriptor(name="folder", summary="a folder", impl="acme:Folder", schemes=("folder",), priority=1)
pool = RunnerDescriptor(name="pool", summary="a pool of threads", impl="acme:Pool")
round_robin = WorkSourceDescriptor(name="round_robin", summary="in turn", impl="acme:RoundRobin")
byte_tokenizers = TokenizerDescriptor(name="bytes", summary="a token a byte", impl="acme:ByteTokenizers")
in_memory = CheckpointStoreDescriptor(name="in_memory", summary="a dict", impl="acme:InMemory", schemes=("mem",))

assert_type(register("operator", shout, Shout), Registration)
assert_type(registry("operator").names(), list[str])
with register("shard_format", lines, Lines), hooks_manager().register(StepLog()):
    source = RoundRobin(datasets=(), seed=7)
    pipeline = Pipeline(source).pipe(Shout("text", parallelism=4)).pipe(Pick(share=0.5, reads=["text"]))
    assert_type(pipeline.pipe(EveryNth(3)), Pipeline)

assert_type(Shout().field, str)
assert_type(Shout().suffix, str)
assert_type(Shout().parallelism, int | None)
assert_type(Shout().reads, tuple[str, ...])
assert_type(Pick(share=0.5).labels, Mapping[str, str])
assert_type(Pick(share=0.5).reads, Sequence[str] | None)
assert_type(source.components, Sequence[str])
assert_type(fingerprint(Shout()), str)

# A capability is a protocol: whoever has its methods has it.
has_content: HasContent = Shout()
ranged: RangedShard = LinesReader([])
local: LocalPath = Folder()
