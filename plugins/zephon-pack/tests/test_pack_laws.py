"""What holds for every sequence of documents, every algorithm, every setting."""

import itertools

import pack_cases as cases
import pack_reference as reference
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import zephon_pack.held
import zephon_pack.state
from zephon_pack.pack_flat import PackFlat

GROUPS = {"code": "left", "wiki": "left"}  # web is a group of its own


@st.composite
def packings(draw, *, overflow=("split",), homogeneity=("none", "dataset", "component", "group")):
    """An operator, its documents, the key of each, and where blocks end."""
    algorithm = draw(st.sampled_from(cases.ALGORITHMS))
    limit = draw(st.integers(1, 12))
    shares = draw(st.sampled_from(homogeneity))
    policy = draw(st.sampled_from(overflow)) if algorithm in ("first_fit", "best_fit") else "split"
    operator = PackFlat(
        limit,
        algorithm=algorithm,
        num_bins=None if algorithm == "wrap" else draw(st.integers(1, 4)),
        overflow=policy,
        homogeneity=shares,
        groups=GROUPS if shares == "group" else None,
    )
    # Multiples of max_length and their neighbours are where packers go wrong.
    length = st.one_of(
        st.integers(0, limit + 2),
        st.builds(lambda times, more: max(0, times * limit + more), st.integers(0, 3), st.integers(-1, 1)),
    )
    lengths = draw(st.lists(length, min_size=1, max_size=40))
    datasets = draw(st.lists(st.integers(0, 2), min_size=len(lengths), max_size=len(lengths)))
    block = cases.make_block(lengths, datasets, mask=draw(st.booleans()))
    cuts = draw(st.lists(st.integers(0, len(lengths)), max_size=8))
    return operator, block, lengths, [_key(shares, dataset) for dataset in datasets], cuts


def _key(homogeneity, dataset):
    name = cases.DATASETS[dataset]
    return {"none": 0, "dataset": name, "component": dataset % 2, "group": GROUPS.get(name, name)}[homogeneity]


@settings(max_examples=150, deadline=None)
@given(packings(overflow=("split", "truncate", "drop")))
def test_rows_are_those_of_the_reference_however_the_documents_are_cut_into_blocks(packing):
    operator, block, lengths, keys, cuts = packing
    pieces = reference.pack(
        operator.algorithm, keys, lengths, operator.max_length, operator.num_bins, operator.overflow
    )
    assert cases.rows_of(cases.run(operator, block, cuts)) == cases.expected_rows(pieces, block)


@settings(max_examples=60, deadline=None)
@given(packings())
def test_one_document_a_block_and_all_in_one_block_give_the_same_rows(packing):
    operator, block, *_ = packing
    singly = cases.rows_of(cases.run(operator, block, range(len(block))))
    assert singly == cases.rows_of(cases.run(operator, block))


@settings(max_examples=60, deadline=None)
@given(packings(overflow=("split", "truncate", "drop")))
def test_a_state_restored_at_any_boundary_from_bytes_goes_on_as_if_nothing_had_happened(packing):
    operator, block, _, _, cuts = packing
    bounds = sorted({0, *cuts, len(block)})
    uninterrupted = cases.open_state(operator, block)
    expected, remainders = [], []
    for start, stop in itertools.pairwise(bounds):
        remainders.append((start, len(expected), uninterrupted.snapshot()))
        expected += uninterrupted.push(block.slice(start, stop))
    remainders.append((len(block), len(expected), uninterrupted.snapshot()))
    expected += uninterrupted.finish()
    for start, emitted, snapshot in remainders:
        state = cases.open_state(operator, block)
        state.restore(cases.through_bytes(snapshot))
        blocks = list(state.push(block.slice(start, len(block)))) if start < len(block) else []
        blocks += state.finish()
        assert cases.rows_of(blocks) == cases.rows_of(expected[emitted:])
        assert state.counters == uninterrupted.counters


@settings(max_examples=40, deadline=None)
@given(packings())
def test_a_chain_of_restores_after_every_document_changes_nothing(packing):
    operator, block, *_ = packing
    state, blocks = cases.open_state(operator, block), []
    for i in range(len(block)):
        blocks += state.push(block.slice(i, i + 1))
        snapshot = cases.through_bytes(state.snapshot())
        state = cases.open_state(operator, block)
        state.restore(snapshot)
    blocks += state.finish()
    assert cases.rows_of(blocks) == cases.rows_of(cases.run(operator, block))


@settings(max_examples=40, deadline=None)
@given(packings())
def test_a_snapshot_is_not_changed_by_what_is_pushed_later(packing):
    operator, block, _, _, cuts = packing
    state, kept = cases.open_state(operator, block), []
    for start, stop in itertools.pairwise(sorted({0, *cuts, len(block)})):
        kept.append((state.snapshot(), cases.plain(cases.through_bytes(state.snapshot()))))
        list(state.push(block.slice(start, stop)))
    list(state.finish())
    for snapshot, was in kept:
        assert cases.plain(snapshot) == was


@settings(max_examples=80, deadline=None)
@given(packings())
def test_every_token_is_delivered_once_and_those_of_a_document_in_order(packing):
    operator, block, lengths, *_ = packing
    delivered = [value for row in cases.rows_of(cases.run(operator, block)) for value in row["input_ids"]]
    by_document = {}
    for value in delivered:
        by_document.setdefault(value // 1000, []).append(value % 1000)
    assert by_document == {i: list(range(length)) for i, length in enumerate(lengths) if length}


@settings(max_examples=80, deadline=None)
@given(packings(overflow=("split", "truncate", "drop")))
def test_columns_of_a_row_agree_and_no_row_is_longer_than_max_length(packing):
    operator, block, _, keys, cuts = packing
    for row in cases.rows_of(cases.run(operator, block, cuts)):
        lengths = [document["length"] for document in row["documents"]]
        assert 0 < sum(lengths) == len(row["input_ids"]) == len(row["positions"]) <= operator.max_length
        assert min(lengths) > 0
        assert row["positions"] == [i for length in lengths for i in range(length)]
        assert len({keys[document["row"]] for document in row["documents"]}) == 1


@settings(max_examples=80, deadline=None)
@given(packings())
def test_the_cutting_algorithms_leave_rows_open_only_at_the_end_of_the_lane(packing):
    operator, block, _, keys, _ = packing
    if operator.algorithm not in ("wrap", "best_fit_wrap"):
        return
    state = cases.open_state(operator, block)
    for row in cases.rows_of(state.push(block)):
        assert len(row["input_ids"]) == operator.max_length
    assert len(cases.rows_of(state.finish())) <= len(set(keys)) * (operator.num_bins or 1)


@settings(max_examples=60, deadline=None)
@given(packings(overflow=("split", "truncate", "drop")))
def test_counters_account_for_every_document_and_token(packing):
    operator, block, lengths, _, cuts = packing
    state = cases.open_state(operator, block)
    rows = []
    for start, stop in itertools.pairwise(sorted({0, *cuts, len(block)})):
        rows += cases.rows_of(state.push(block.slice(start, stop)))
    rows += cases.rows_of(state.finish())
    counters = state.counters
    pieces = [piece for row in cases.pieces_of(rows) for piece in row]
    delivered = {document for document, _, _ in pieces}
    packed = sum(length for _, _, length in pieces)
    too_long = [length for length in lengths if length > operator.max_length]
    assert counters["documents"] == len(lengths)
    assert counters["tokens"] == sum(lengths) == packed + counters["truncated_tokens"] + counters["dropped_tokens"]
    assert counters["empty_documents"] == lengths.count(0)
    assert counters["dropped_documents"] == len(lengths) - lengths.count(0) - len(delivered)
    assert counters["truncated_documents"] == (len(too_long) if operator.overflow == "truncate" else 0)
    assert counters["cut_documents"] == sum(1 for d in delivered if sum(p[0] == d for p in pieces) > 1)
    assert counters["rows"] == len(rows)
    assert counters["padding_tokens"] == len(rows) * operator.max_length - packed


@settings(max_examples=40, deadline=None)
@given(packings(), st.integers(1, 30))
def test_a_large_emission_is_split_into_blocks_without_changing_a_row(packing, limit):
    operator, block, *_ = packing
    whole = cases.rows_of(cases.run(operator, block))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zephon_pack.state, "MAX_BLOCK_TOKENS", limit)
        blocks = cases.run(operator, block)
    assert cases.rows_of(blocks) == whole
    for emitted in blocks:
        tokens = len(emitted.data.column("input_ids").values)
        assert tokens < limit + operator.max_length
    if sum(len(row["input_ids"]) for row in whole) > 2 * (limit + operator.max_length):
        assert len(blocks) > 1


@settings(max_examples=40, deadline=None)
@given(packings(), st.integers(1, 3))
def test_how_held_memory_is_divided_cannot_be_seen(packing, chunks):
    operator, block, *_ = packing
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zephon_pack.held, "MAX_CHUNKS", chunks)
        fragmented = cases.rows_of(cases.run(operator, block, range(len(block))))
    assert fragmented == cases.rows_of(cases.run(operator, block))
