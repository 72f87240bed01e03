"""Cases users have reported (P1, P2, P3, R5 of the list of cases), and the placement rules by example."""

import numpy as np
import pack_cases as cases
import pyarrow as pa
import pytest

from zephon_pack.pack_flat import PackFlat


def pack(lengths, max_length, datasets=None, **options):
    """Rows of ``(document, start, length)``."""
    block = cases.make_block(lengths, datasets)
    return cases.pieces_of(cases.rows_of(cases.run(PackFlat(max_length, **options), block)))


def in_order(lengths, max_length, **options):
    """Rows as they leave, for each document pushed by itself; the last entry is what the end of the lane gives."""
    block = cases.make_block(lengths)
    state = cases.open_state(PackFlat(max_length, **options), block)
    left = [cases.pieces_of(cases.rows_of(state.push(block.slice(i, i + 1)))) for i in range(len(block))]
    return [*left, cases.pieces_of(cases.rows_of(state.finish()))]


# P1

LENGTHS = np.clip(np.random.default_rng(1).normal(4096, 512, 3000).astype(int), 100, 8192).tolist()


def packed_rows(max_length, **options):
    """Rows of the 3000 documents of P1; all columns but the tokens would cost memory for nothing."""
    offsets = np.cumsum([0, *LENGTHS])
    column = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(np.zeros(offsets[-1], dtype=np.int32)))
    block = cases.make_block([0] * len(LENGTHS)).with_data(
        pa.RecordBatch.from_arrays([column], schema=pa.schema([cases.TOKENS]))
    )
    blocks = cases.run(PackFlat(max_length, **options), block)
    assert sum(len(b.data.column("input_ids").flatten()) for b in blocks) == sum(LENGTHS)
    return sum(len(b) for b in blocks)


@pytest.mark.parametrize("algorithm", cases.ALGORITHMS)
def test_p1_one_token_more_of_max_length_changes_the_number_of_rows_by_at_most_two_percent(algorithm):
    for shorter in (8192, 16384, 32768):
        few, many = packed_rows(shorter + 1, algorithm=algorithm), packed_rows(shorter, algorithm=algorithm)
        assert few == pytest.approx(many, rel=0.02)


@pytest.mark.parametrize("algorithm", cases.ALGORITHMS)
def test_p1_twice_the_max_length_needs_half_the_rows_within_two_percent(algorithm):
    assert 2 * packed_rows(32769, algorithm=algorithm) == pytest.approx(
        packed_rows(16385, algorithm=algorithm), rel=0.02
    )


# P2


@pytest.mark.parametrize("algorithm", ["first_fit", "best_fit"])
@pytest.mark.parametrize(
    ("overflow", "rows"),
    [
        ("split", [[(0, 0, 10)], [(1, 0, 10)], [(0, 10, 3), (1, 10, 1)]]),
        ("truncate", [[(0, 0, 10)], [(1, 0, 10)]]),
        ("drop", []),
    ],
)
def test_p2_documents_of_13_and_11_tokens_at_max_length_10(algorithm, overflow, rows):
    assert pack([13, 11], 10, algorithm=algorithm, overflow=overflow) == rows


@pytest.mark.parametrize(
    ("algorithm", "rows"),
    [
        ("wrap", [[(0, 0, 10)], [(0, 10, 3), (1, 0, 7)], [(1, 7, 4)]]),
        ("best_fit_wrap", [[(0, 0, 10)], [(1, 0, 10)], [(0, 10, 3), (1, 10, 1)]]),
    ],
)
def test_p2_documents_of_13_and_11_tokens_where_the_algorithm_cuts_anyway(algorithm, rows):
    assert pack([13, 11], 10, algorithm=algorithm) == rows


def test_p2_the_tokens_of_split_documents_and_their_positions():
    block = cases.make_block([13, 11])
    rows = cases.rows_of(cases.run(PackFlat(10), block))
    assert [row["input_ids"] for row in rows] == [
        list(range(10)),
        list(range(1000, 1010)),
        [10, 11, 12, 1010],
    ]
    assert [row["positions"] for row in rows] == [list(range(10)), list(range(10)), [0, 1, 2, 0]]


# P3

EDGE_LENGTHS = [0, 1, 9, 10, 11, 20]


def test_p3_edge_lengths_under_wrap():
    assert pack(EDGE_LENGTHS, 10, algorithm="wrap") == [
        [(1, 0, 1), (2, 0, 9)],
        [(3, 0, 10)],
        [(4, 0, 10)],
        [(4, 10, 1), (5, 0, 9)],
        [(5, 9, 10)],
        [(5, 19, 1)],
    ]


@pytest.mark.parametrize("algorithm", ["first_fit", "best_fit", "best_fit_wrap"])
def test_p3_edge_lengths_in_bins(algorithm):
    assert pack(EDGE_LENGTHS, 10, algorithm=algorithm) == [
        [(1, 0, 1), (2, 0, 9)],
        [(3, 0, 10)],
        [(4, 0, 10)],
        [(5, 0, 10)],
        [(5, 10, 10)],
        [(4, 10, 1)],
    ]


@pytest.mark.parametrize("algorithm", cases.ALGORITHMS)
def test_p3_a_document_that_ends_at_the_window_leaves_nothing_open(algorithm):
    assert in_order([4, 6, 10, 3], 10, algorithm=algorithm) == [
        [],
        [[(0, 0, 4), (1, 0, 6)]],
        [[(2, 0, 10)]],
        [],
        [[(3, 0, 3)]],
    ]


@pytest.mark.parametrize("algorithm", cases.ALGORITHMS)
@pytest.mark.parametrize("max_length", [1, 2, 9, 10, 11])
def test_p3_boundaries_rise_strictly_from_zero_to_the_row_length(algorithm, max_length):
    for row in cases.rows_of(cases.run(PackFlat(max_length, algorithm=algorithm), cases.make_block(EDGE_LENGTHS))):
        boundaries = np.cumsum([0, *(document["length"] for document in row["documents"])])
        assert boundaries[0] == 0 and boundaries[-1] == len(row["input_ids"])
        assert (np.diff(boundaries) > 0).all()
        assert np.flatnonzero(np.array(row["positions"]) == 0).tolist() == boundaries[:-1].tolist()


@pytest.mark.parametrize("algorithm", cases.ALGORITHMS)
def test_a_lane_of_nothing_but_empty_documents_ends_without_a_row(algorithm):
    state = cases.open_state(PackFlat(10, algorithm=algorithm), cases.make_block([0, 0]))
    assert cases.rows_of([*state.push(cases.make_block([0, 0])), *state.finish()]) == []
    assert state.counters["empty_documents"] == 2


@pytest.mark.parametrize("algorithm", cases.ALGORITHMS)
def test_a_lane_without_documents_ends_without_a_row(algorithm):
    assert list(cases.open_state(PackFlat(10, algorithm=algorithm), cases.make_block([1])).finish()) == []


# R5


def test_r5_a_half_emitted_document_is_part_of_the_state():
    block = cases.make_block([25])
    state = cases.open_state(PackFlat(10, algorithm="wrap"), block)
    assert cases.pieces_of(cases.rows_of(state.push(block))) == [[(0, 0, 10)], [(0, 10, 10)]]
    restored = cases.open_state(PackFlat(10, algorithm="wrap"), block)
    restored.restore(cases.through_bytes(state.snapshot()))
    (row,) = cases.rows_of(restored.finish())
    assert row["input_ids"] == [20, 21, 22, 23, 24] and row["positions"] == [0, 1, 2, 3, 4]
    assert row["ordinal"] == 2 and row["documents"][0]["start"] == 20


def test_r5_a_document_that_fitted_no_open_bin_is_part_of_the_state():
    block = cases.make_block([7, 7, 3])
    operator = PackFlat(10, num_bins=1)
    state = cases.open_state(operator, block)
    assert cases.pieces_of(cases.rows_of(state.push(block.slice(0, 2)))) == [[(0, 0, 7)]]
    restored = cases.open_state(operator, block)
    restored.restore(cases.through_bytes(state.snapshot()))
    assert cases.pieces_of(cases.rows_of(restored.push(block.slice(2, 3)))) == [[(1, 0, 7), (2, 0, 3)]]


@pytest.mark.parametrize("algorithm", cases.ALGORITHMS)
def test_r3_a_state_saved_after_the_end_of_the_lane_has_nothing_left(algorithm):
    block = cases.make_block([7, 8, 24])
    operator = PackFlat(10, algorithm=algorithm)
    state = cases.open_state(operator, block)
    list(state.push(block))
    assert list(state.finish())
    restored = cases.open_state(operator, block)
    restored.restore(cases.through_bytes(state.snapshot()))
    assert list(restored.finish()) == []
    assert restored.counters == state.counters


# The placement rules, where algorithms differ


def test_first_fit_takes_the_oldest_bin_with_room_and_best_fit_the_tightest():
    # Bins with room for 6 and for 3 are open when a document of 3 comes.
    assert in_order([4, 7, 3], 10, algorithm="first_fit")[2:] == [[], [[(0, 0, 4), (2, 0, 3)], [(1, 0, 7)]]]
    assert in_order([4, 7, 3], 10, algorithm="best_fit")[2:] == [[[(1, 0, 7), (2, 0, 3)]], [[(0, 0, 4)]]]


def test_best_fit_takes_the_oldest_of_bins_equally_full():
    assert pack([6, 6, 2], 10, algorithm="best_fit") == [[(0, 0, 6), (2, 0, 2)], [(1, 0, 6)]]


@pytest.mark.parametrize("algorithm", ["first_fit", "best_fit"])
def test_the_fullest_bin_leaves_when_none_has_room_and_all_are_open(algorithm):
    assert in_order([6, 8, 7], 10, algorithm=algorithm, num_bins=2) == [
        [],
        [],
        [[(1, 0, 8)]],
        [[(0, 0, 6)], [(2, 0, 7)]],
    ]


@pytest.mark.parametrize("algorithm", ["first_fit", "best_fit"])
def test_the_oldest_of_bins_equally_full_leaves(algorithm):
    assert in_order([8, 8, 7], 10, algorithm=algorithm, num_bins=2)[2] == [[(0, 0, 8)]]


def test_a_document_of_the_full_length_closes_no_bin():
    assert in_order([6, 10], 10, num_bins=1) == [[], [[(1, 0, 10)]], [[(0, 0, 6)]]]


def test_best_fit_wrap_cuts_a_document_only_to_fill_the_fullest_bin():
    assert in_order([6, 8, 7], 10, algorithm="best_fit_wrap", num_bins=2) == [
        [],
        [],
        [[(1, 0, 8), (2, 0, 2)]],
        [[(0, 0, 6)], [(2, 2, 5)]],
    ]


@pytest.mark.parametrize("algorithm", ["first_fit", "best_fit"])
def test_open_bins_leave_in_order_of_opening(algorithm):
    assert in_order([6, 9, 7, 8], 10, algorithm=algorithm)[-1] == [[(0, 0, 6)], [(1, 0, 9)], [(2, 0, 7)], [(3, 0, 8)]]


# Homogeneity

CODE, WEB, WIKI = range(3)


@pytest.mark.parametrize("algorithm", cases.ALGORITHMS)
def test_documents_of_two_datasets_share_no_row_and_rows_leave_as_they_fill(algorithm):
    datasets = [WEB, CODE, WEB, CODE, WIKI]
    rows = pack([6, 3, 4, 7, 2], 10, datasets, algorithm=algorithm, homogeneity="dataset")
    assert rows == [[(0, 0, 6), (2, 0, 4)], [(1, 0, 3), (3, 0, 7)], [(4, 0, 2)]]


def test_components_may_join_datasets():
    # Datasets 0 and 2 are of one component.
    rows = pack([6, 6, 4], 10, [CODE, WEB, WIKI], homogeneity="component")
    assert rows == [[(0, 0, 6), (2, 0, 4)], [(1, 0, 6)]]


def test_the_published_name_full_means_component():
    assert PackFlat(10, homogeneity="full") == PackFlat(10, homogeneity="component")


def test_a_dataset_without_a_group_is_a_group_of_its_own():
    rows = pack([2, 3, 4, 5], 10, [CODE, WEB, WIKI, WEB], homogeneity="group", groups={"code": "a", "wiki": "a"})
    assert rows == [[(0, 0, 2), (2, 0, 4)], [(1, 0, 3), (3, 0, 5)]]


def test_datasets_without_a_group_and_rows_of_no_dataset_share_rows_with_no_group():
    datasets = [CODE, WEB, WIKI, -1]
    rows = pack([1, 2, 3, 4], 10, datasets, homogeneity="group", groups={"wiki": "a"})
    assert rows == [[(0, 0, 1)], [(1, 0, 2)], [(2, 0, 3)], [(3, 0, 4)]]


def test_every_group_has_all_the_bins():
    rows = in_order([6, 6], 10, num_bins=1)
    assert rows[1] == [[(0, 0, 6)]]
    block = cases.make_block([6, 6], [CODE, WEB])
    state = cases.open_state(PackFlat(10, num_bins=1, homogeneity="dataset"), block)
    assert list(state.push(block)) == []
