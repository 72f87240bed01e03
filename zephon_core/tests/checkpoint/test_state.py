"""A lane's bytes: what goes in comes out, and damage is noticed."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zephon.abc import Snapshot
from zephon.block import Block, Origins
from zephon.checkpoint import LaneCheckpoint, StageState, decode_header, decode_lane, encode_header, encode_lane
from zephon.checkpoint.state import describe_lane
from zephon.errors import CheckpointError


def block(rows: int, text: str = "x") -> Block:
    origins = Origins(
        component=np.zeros(rows),
        dataset=np.zeros(rows),
        shard=np.arange(rows) % 3,
        row=np.arange(rows),
        epoch=np.full(rows, 7),
        part=np.arange(rows, dtype=np.uint64) << np.uint64(60),
        phase=np.zeros(rows),
    )
    return Block(pa.record_batch({"text": pa.array([text * i for i in range(rows)], pa.string())}), origins, 5, 11)


def state(rows: int, text: str = "x") -> LaneCheckpoint:
    snapshot = Snapshot(
        meta={"n": 3, "names": ["ü"]}, blocks={"held": block(rows, text)}, tables={"t": pa.record_batch({"a": [1, 2]})}
    )
    return LaneCheckpoint(
        lane=5,
        position=10**13,
        frontier=10**13 + 1,
        delivered=12,
        since_cut=2,
        rounds=12,
        stages=(StageState(emitted=9, snapshot=snapshot),),
        counters={"delivered": {"rows": {"web": 4}}, "skipped": {}},
    )


@given(st.integers(0, 50))
def test_a_lane_survives_its_bytes(rows):
    before = state(rows)
    after = decode_lane(encode_lane(before, (False,)))
    assert (after.lane, after.position, after.frontier, after.delivered, after.since_cut, after.rounds) == (
        5,
        10**13,
        10**13 + 1,
        12,
        2,
        12,
    )
    assert after.counters == before.counters
    held = after.stages[0].snapshot.blocks["held"]
    assert held.data.equals(block(rows).data)
    assert held.origins == block(rows).origins
    assert (held.lane, held.index) == (5, 11)
    assert after.stages[0].snapshot.tables["t"].to_pydict() == {"a": [1, 2]}
    assert after.stages[0].snapshot.meta == {"n": 3, "names": ["ü"]}
    assert encode_lane(after, (False,)) == encode_lane(before, (False,))


def test_held_rows_are_stored_by_origin_only_where_that_is_allowed_and_smaller():
    rng = np.random.default_rng(0)
    texts = pa.array([rng.bytes(300).hex() for _ in range(600)])
    held = block(600).with_data(pa.record_batch({"text": texts}))
    stage = StageState(emitted=9, snapshot=Snapshot(blocks={"held": held}))
    big, small = LaneCheckpoint(lane=5, stages=(stage,)), state(3)
    assert len(encode_lane(big, (True,))) < len(encode_lane(big, (False,))) / 10
    decoded = decode_lane(encode_lane(big, (True,)))
    assert decoded.stages[0].held["held"] == held.origins
    assert decoded.stages[0].snapshot.blocks == {}
    assert decode_lane(encode_lane(small, (True,))).stages[0].held == {}


@given(st.data())
def test_any_altered_or_missing_byte_is_an_error(data):
    good = encode_lane(state(4), (False,))
    if data.draw(st.booleans()):
        bad = good[: data.draw(st.integers(0, len(good) - 1))]
    else:
        at = data.draw(st.integers(0, len(good) - 1))
        bad = good[:at] + bytes([good[at] ^ data.draw(st.integers(1, 255))]) + good[at + 1 :]
    with pytest.raises(CheckpointError) as caught:
        decode_lane(bad)
    assert caught.value.code in {"checkpoint-corrupt", "checkpoint-newer"}


def test_a_header_is_canonical_and_a_newer_one_is_refused():
    header = {"b": 1, "a": {"z": [1], "y": "é"}}
    assert decode_header(encode_header(header)) == header
    assert encode_header(dict(reversed(header.items()))) == encode_header(header)
    newer = json.dumps({**header, "zephon_checkpoint": 99}).encode()
    with pytest.raises(CheckpointError) as caught:
        decode_header(newer)
    assert caught.value.code == "checkpoint-newer"


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b"\xff", b"null"])
def test_what_is_no_header_is_damaged(data):
    with pytest.raises(CheckpointError) as caught:
        decode_header(data)
    assert caught.value.code == "checkpoint-corrupt"


def test_nothing_is_pickled():
    assert b"cpickle" not in encode_lane(state(9), (False,)).lower()
    assert describe_lane(encode_lane(state(9), (False,)))["position"] == 10**13
