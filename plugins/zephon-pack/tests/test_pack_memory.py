"""What a packer keeps in memory and in a checkpoint."""

import json

import numpy as np
import pack_cases as cases
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import zephon_pack.held
from zephon.block import retained_bytes
from zephon_pack.pack_flat import PackFlat

RECORD_BYTES = 80  # a document's entry, its chunk, offset and row


def retained(snapshot):
    return retained_bytes(snapshot.tables.values())


def live_tokens(snapshot):
    return sum(entry["length"] for entry in snapshot.tables["pieces"].column("document").to_pylist())


def stored_tokens(snapshot):
    return sum(batch.num_rows for name, batch in snapshot.tables.items() if name != "pieces")


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(cases.ALGORITHMS),
    st.lists(st.integers(0, 60), min_size=30, max_size=60),
    st.integers(1, 5),
    st.integers(20, 200),
)
def test_held_tokens_are_at_most_twice_the_live_ones_in_few_chunks(algorithm, lengths, rows, max_length):
    block = cases.make_block(lengths)
    state = cases.open_state(PackFlat(max_length, algorithm=algorithm), block)
    for start in range(0, len(block), rows):
        list(state.push(block.slice(start, start + rows)))
        snapshot = state.snapshot()
        assert stored_tokens(snapshot) <= 2 * live_tokens(snapshot)
        assert len(snapshot.tables) <= 1 + zephon_pack.held.MAX_CHUNKS
        if not snapshot.tables["pieces"].num_rows:
            assert stored_tokens(snapshot) == 0


@pytest.mark.parametrize("algorithm", cases.ALGORITHMS)
@pytest.mark.parametrize("last", [[5], [1, 2, 3]])
def test_what_is_held_does_not_keep_the_block_alive(algorithm, last):
    state = cases.open_state(PackFlat(1000, algorithm=algorithm), cases.make_block([1]))
    list(state.push(cases.make_block([1000] * 200 + last)))
    snapshot = state.snapshot()
    assert live_tokens(snapshot) == sum(last)
    assert retained(snapshot) < 4 * sum(last) + RECORD_BYTES * len(last) + 200


@pytest.mark.parametrize("algorithm", ["first_fit", "best_fit", "best_fit_wrap"])
def test_the_estimate_of_the_state_covers_what_is_held_when_all_bins_are_open(algorithm):
    # Two documents of 300 leave each bin with room that no other document can use, until all are open.
    operator = PackFlat(1000, algorithm=algorithm, num_bins=8)
    block = cases.make_block([600] * 8 + [350] * 8)
    state = cases.open_state(operator, block)
    estimate = operator.state_bytes(block.schema, row_bytes=4 * 475)
    largest = 0
    for i in range(len(block)):
        list(state.push(block.slice(i, i + 1)))
        largest = max(largest, retained(state.snapshot()))
    assert largest > 8 * 950 * 4
    assert largest <= estimate


def test_the_estimate_grows_with_bins_groups_and_masks():
    schema = pa.schema([cases.TOKENS])
    masked = pa.schema([cases.TOKENS, cases.MASK])
    groups = {"code": "a", "web": "b"}
    one = PackFlat(1000, num_bins=4).state_bytes(schema, 2000)
    assert PackFlat(1000, num_bins=8).state_bytes(schema, 2000) == 2 * one
    assert PackFlat(1000, num_bins=4, homogeneity="group", groups=groups).state_bytes(schema, 2000) == 2 * one
    assert PackFlat(1000, num_bins=4).state_bytes(masked, 2000) > one
    assert PackFlat(1000, algorithm="wrap").state_bytes(schema, 2000) < one


def test_a_written_snapshot_is_as_large_as_what_is_open_not_as_what_has_passed():
    def written(documents):
        rng = np.random.default_rng(3)
        block = cases.make_block(rng.integers(1, 200, documents).tolist())
        state = cases.open_state(PackFlat(500, num_bins=4), block)
        list(state.push(block))
        snapshot = state.snapshot()
        size = len(json.dumps(dict(snapshot.meta)))
        for batch in snapshot.tables.values():
            size += batch.serialize().size
        assert size < 2 * 4 * live_tokens(snapshot) + 2 * RECORD_BYTES * snapshot.tables["pieces"].num_rows + 4000
        return size

    assert abs(written(2000) - written(200)) < 4 * 4 * 500


def test_taking_a_snapshot_copies_no_token():
    block = cases.make_block([100] * 5)
    state = cases.open_state(PackFlat(1000), block)
    list(state.push(block))
    first, second = state.snapshot(), state.snapshot()
    addresses = [s.tables["tokens.0"].column(0).buffers()[1].address for s in (first, second)]
    assert addresses[0] == addresses[1]
