"""What a state is made of, and its bytes.

A lane's bytes are one container::

    b"ZEPHLANE" | uint32 version | uint64 length of the JSON | JSON | Arrow IPC streams | 16 bytes of BLAKE2b

The JSON holds everything but Arrow data, and where each held batch is: batches of one schema share a stream. A header
is JSON alone. Nothing is pickled.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs
import numpy as np
import pyarrow as pa

from zephon.abc import Snapshot
from zephon.block import Block, Origins, empty_columns
from zephon.errors import CheckpointError
from zephon.spec import canonical_json

FORMAT_VERSION: Final = 1
_MAGIC: Final = b"ZEPHLANE"
_PREFIX: Final = struct.Struct("<8sIQ")
_DIGEST_BYTES: Final = 16

#: Streams of fewer bytes are not worth compressing.
COMPRESSED_FROM: Final = 1 << 14

#: Held rows are stored by origin only where that saves at least this much: below it, reading them again costs more.
MIN_BYTES_BY_ORIGIN: Final = 64 << 10


@attrs.frozen(slots=True, kw_only=True)
class StageState:
    """One lane operator at a cut.

    Attributes:
        emitted: rows it has emitted so far, or microbatches if that is what it emits.
        snapshot: its state.
        held: rows of the snapshot that are known by origin only and have to be read again, by name.
    """

    emitted: int
    snapshot: Snapshot
    held: Mapping[str, Origins] = attrs.field(factory=dict)


@attrs.frozen(slots=True, kw_only=True)
class LaneCheckpoint:
    """One lane at one moment: a cut, and what was delivered since.

    Attributes:
        lane: its number.
        position: source position of the cut; everything before it has passed through all operators.
        frontier: source position that what was delivered may depend on; at least ``position``.
        delivered: microbatches delivered since the start.
        since_cut: how many of them after the cut: made again on restore, and dropped.
        rounds: rounds the lane has taken part in, with a microbatch or, after its end, a filler.
        stages: the lane operators' states at the cut; empty before the first cut.
        counters: plain counters by name.
    """

    lane: int
    position: int = 0
    frontier: int = 0
    delivered: int = 0
    since_cut: int = 0
    rounds: int = 0
    stages: tuple[StageState, ...] = ()
    counters: Mapping[str, Any] = attrs.field(factory=dict)


def lane_key(lane: int) -> str:
    """The key of a lane in a state."""
    return f"{lane:05d}"


def encode_lane(state: LaneCheckpoint, by_origin: tuple[bool, ...]) -> bytes:
    """The bytes of a lane.

    Args:
        state: the lane.
        by_origin: for each stage, whether its held rows can be made again from their origins.
    """
    streams = _Streams()
    stages = []
    for stage, may_reread in zip(state.stages, by_origin, strict=True):
        blocks = {name: streams.add("origins", _origins_batch(origins)) for name, origins in stage.held.items()}
        # All or none: operators hold rows in many small pieces.
        held_bytes = sum(block.data.nbytes for block in stage.snapshot.blocks.values())
        for name, block in stage.snapshot.blocks.items():
            if may_reread and held_bytes >= MIN_BYTES_BY_ORIGIN:
                blocks[name] = streams.add("origins", _origins_batch(block.origins))
            else:
                blocks[name] = streams.add("block", _block_batch(block), block.lane, block.index)
        tables = {name: streams.add("table", table) for name, table in stage.snapshot.tables.items()}
        stages.append({"emitted": stage.emitted, "meta": stage.snapshot.meta, "blocks": blocks, "tables": tables})
    places, payload = streams.finish()
    fields = ("lane", "position", "frontier", "delivered", "since_cut", "rounds", "counters")
    head = canonical_json({**{name: getattr(state, name) for name in fields}, "stages": stages, "streams": places})
    prefix = _PREFIX.pack(_MAGIC, FORMAT_VERSION, len(head))
    body = b"".join([prefix, head, *map(bytes, payload)])
    return body + hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest()


def decode_lane(data: bytes) -> LaneCheckpoint:
    """Inverse of :func:`encode_lane`.

    Raises:
        CheckpointError: ``checkpoint-corrupt`` or ``checkpoint-newer``.
    """
    head, payload = _open(data)
    batches = [_from_ipc(payload.slice(offset, size)) for offset, size in head.pop("streams")]
    stages = []
    for stage in head.pop("stages"):
        blocks, held = {}, {}
        for name, (kind, stream, number, *place) in stage["blocks"].items():
            batch = batches[stream][number]
            if kind == "origins":
                held[name] = _batch_origins(batch)
            else:
                blocks[name] = _batch_block(batch, *place)
        tables = {name: batches[stream][number] for name, (_, stream, number) in stage["tables"].items()}
        snapshot = Snapshot(meta=stage["meta"], blocks=blocks, tables=tables)
        stages.append(StageState(emitted=stage["emitted"], snapshot=snapshot, held=held))
    return LaneCheckpoint(**head, stages=tuple(stages))


def describe_lane(data: bytes) -> dict[str, Any]:
    """The plain part of a lane's bytes, with the sizes of its streams, for people."""
    head, payload = _open(data)
    return {**head, "bytes": len(data), "arrow_bytes": payload.size}


def encode_header(header: Mapping[str, Any]) -> bytes:
    """The bytes of a header: canonical JSON, so that equal headers are equal bytes."""
    return canonical_json({"zephon_checkpoint": FORMAT_VERSION, **header})


def decode_header(data: bytes) -> dict[str, Any]:
    """Inverse of :func:`encode_header`.

    Raises:
        CheckpointError: ``checkpoint-corrupt`` or ``checkpoint-newer``.
    """
    try:
        header = json.loads(data)
        version = header.pop("zephon_checkpoint")
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise _corrupt("the header is not one of ours", f"{type(error).__name__}: {error}") from error
    _check_version(version)
    return dict(header)


def _open(data: bytes) -> tuple[dict[str, Any], pa.Buffer]:
    if len(data) < _PREFIX.size + _DIGEST_BYTES:
        raise _corrupt("a lane's bytes are too short", f"{len(data)} bytes")
    magic, version, length = _PREFIX.unpack_from(data)
    if magic != _MAGIC:
        raise _corrupt("a lane's bytes do not begin as they should", repr(data[:8]))
    _check_version(version)
    body, digest = memoryview(data)[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest() != digest:
        raise _corrupt("a lane's bytes do not match their checksum", f"{len(data)} bytes; truncated or altered")
    start = _PREFIX.size + length
    return json.loads(bytes(body[_PREFIX.size : start])), pa.py_buffer(data).slice(start, len(body) - start)


def _check_version(version: int) -> None:
    if version > FORMAT_VERSION:
        raise CheckpointError(
            "the checkpoint was written by a newer Zephon",
            found=f"checkpoint format {version}; this version reads up to {FORMAT_VERSION}",
            fix="install the version named in the checkpoint: zephon checkpoint show PATH",
            code="checkpoint-newer",
        )


def _corrupt(what: str, found: str) -> CheckpointError:
    return CheckpointError(
        f"the checkpoint is damaged: {what}",
        found=found,
        fix="restore an earlier step; nothing was loaded",
        code="checkpoint-corrupt",
    )


class _Streams:
    """Collects record batches into one IPC stream per schema: a schema costs more than a small batch."""

    def __init__(self) -> None:
        self._batches: list[list[pa.RecordBatch]] = []
        self._schemas: list[pa.Schema] = []

    def add(self, kind: str, batch: pa.RecordBatch, *place: int) -> list[Any]:
        """Take a batch; returns its address: kind, stream, number in the stream, and what else was given."""
        same = (i for i, schema in enumerate(self._schemas) if schema.equals(batch.schema, check_metadata=True))
        stream = next(same, len(self._schemas))
        if stream == len(self._schemas):
            self._schemas.append(batch.schema)
            self._batches.append([])
        self._batches[stream].append(batch)
        return [kind, stream, len(self._batches[stream]) - 1, *place]

    def finish(self) -> tuple[list[list[int]], list[pa.Buffer]]:
        """Offset and size of every stream, and their bytes, which follow each other."""
        buffers = [_to_ipc(schema, batches) for schema, batches in zip(self._schemas, self._batches, strict=True)]
        ends = list(itertools.accumulate((buffer.size for buffer in buffers), initial=0))
        return [[start, stop - start] for start, stop in itertools.pairwise(ends)], buffers


def _to_ipc(schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    large = sum(batch.nbytes for batch in batches) > COMPRESSED_FROM
    options = pa.ipc.IpcWriteOptions(compression="zstd") if large else None
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()


def _from_ipc(buffer: pa.Buffer) -> list[pa.RecordBatch]:
    with pa.ipc.open_stream(buffer) as reader:
        return list(reader)


def _block_batch(block: Block) -> pa.RecordBatch:
    """Rows and origins as one batch; lane and index go elsewhere, so that blocks of one schema share a stream."""
    return Block(block.data, block.origins).to_record_batch()


def _batch_block(batch: pa.RecordBatch, lane: int, index: int) -> Block:
    return attrs.evolve(Block.from_record_batch(batch), lane=lane, index=index)


def _origins_batch(origins: Origins) -> pa.RecordBatch:
    return Block(empty_columns(len(origins)), origins).to_record_batch()


def _batch_origins(batch: pa.RecordBatch) -> Origins:
    origins = Block.from_record_batch(batch).origins
    return Origins(**{name: np.array(column) for name, column in origins.columns().items()})
