"""P3, P4, P5: what a training step gets of packed documents: boundaries from data, labels that stay in their document,
padding that never trains. What is right is read off the tokens, which tell their document and place."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zephon import Pipeline
from zephon.block import META_EOS_ID, META_PAD_LENGTH, META_PAD_SIDE
from zephon_field_cases import PAD, documents, fleet, source, token, whose

L = 12
IGNORED = -100

#: P3's lengths: nothing, one token, one less than a window, a window, one more, two windows, and documents that end
#: exactly where a window does.
LENGTHS = [0, 1, L - 1, L, L + 1, 2 * L, 5, 7, 0, 1, 1, 3 * L - 1, 4, 8, L, 2]
ALGORITHMS = ["wrap", "first_fit", "best_fit", "best_fit_wrap"]


def packed(lengths=LENGTHS, algorithm="wrap", microbatch=3, shuffled=False, masks=None, metadata=None, **options):
    data = documents("a", lengths, masks=masks, metadata=metadata, shards=2)
    work = source(data, shuffle_shards=shuffled, shuffle_within_shard=shuffled)
    pipeline = Pipeline(work).pack_flat(L, algorithm=algorithm).batch(microbatch, drop_last=False)
    return pipeline.options(**{"parallelism": 0, "tail": "pad", **options})


def arrays_of(batch, **wanted):
    """``to_training`` as numpy, whether or not torch is installed."""
    return batch.to_training(dtype=np.int64, **wanted)


def tokens_in(batch):
    """Real tokens of each row seen, fill rows included as empty."""
    rows = [row["input_ids"] for row in batch.to_pylist()]
    return rows + [[]] * (len(batch) - len(rows))


def same_document(left, right):
    """Whether the right token follows the left one in one document."""
    (s1, r1, p1), (s2, r2, p2) = whose(left), whose(right)
    return (s1, r1, p1 + 1) == (s2, r2, p2)


def segments(row, width):
    """Where segments begin in a row of ``width`` columns: documents as the tokens tell them, then padding."""
    begins = [k for k in range(len(row)) if k == 0 or not same_document(row[k - 1], row[k])]
    if len(row) < width:
        begins.append(len(row))
    return [k for k in begins if k < width]


def labels_by_hand(row, width, *, masked, loss=None):
    """The right labels of a row, one by one."""
    labels = [IGNORED] * (width - 1)
    for k in range(min(len(row), width) - 1):
        wanted = loss is None or loss[k + 1]
        if wanted and (not masked or same_document(row[k], row[k + 1])):
            labels[k] = row[k + 1]
    return labels


# -- P3 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("labels", [False, True])
def test_p3_cu_seqlens_are_int32_from_0_strictly_increasing_to_the_end_of_the_row(algorithm, labels):
    seen = 0
    for batch in packed(algorithm=algorithm):
        arrays = arrays_of(batch, return_labels=labels, return_cu_seqlens=True)
        width = L - labels
        assert arrays["input_ids"].shape == (3, width)
        assert len(arrays["cu_seqlens"]) == 3
        for row, bounds, longest in zip(tokens_in(batch), arrays["cu_seqlens"], arrays["max_seqlen"], strict=True):
            assert bounds.dtype == np.int32
            assert bounds[0] == 0 and bounds[-1] == width
            assert (np.diff(bounds) > 0).all()
            assert bounds[:-1].tolist() == (segments(row, width) or [0])
            assert longest == np.diff(bounds).max()
            seen += len(row)
        flat = arrays_of(batch, return_labels=labels, return_cu_seqlens=True, flatten=True)
        joined = flat["cu_seqlens"]
        assert joined.dtype == np.int32 and joined[0] == 0 and joined[-1] == 3 * width == len(flat["input_ids"])
        assert (np.diff(joined) > 0).all()
        apart = [bounds[:-1] + number * width for number, bounds in enumerate(arrays["cu_seqlens"])]
        assert joined[:-1].tolist() == np.concatenate(apart).tolist()
        assert flat["max_seqlen"] == arrays["max_seqlen"].max()
    assert seen == sum(LENGTHS), "no token was lost on the way"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_p3_positions_restart_with_every_document_and_ids_tell_them_apart(algorithm):
    for batch in packed(algorithm=algorithm):
        arrays = arrays_of(batch, return_document_ids=True, return_padding_mask=True)
        for number, row in enumerate(tokens_in(batch)):
            begins = segments(row, L)
            expected, ids = np.zeros(L, int), np.zeros(L, int)
            for document, (start, stop) in enumerate(pairwise([*begins, L]), start=1):
                expected[start:stop] = np.arange(stop - start)
                ids[start:stop] = document if start < len(row) else 0
            assert arrays["positions"][number].tolist() == expected.tolist()
            assert arrays["document_ids"][number].tolist() == ids.tolist()
            assert arrays["padding_mask"][number].tolist() == [k >= len(row) for k in range(L)]
        straight = arrays_of(batch, position_mode="sequence")["positions"]
        assert straight.tolist() == [list(range(L))] * 3


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("masked", [False, True])
def test_p3_the_label_of_a_documents_last_token_trains_on_the_next_document_only_unmasked(algorithm, masked):
    crossing = 0
    for batch in packed(algorithm=algorithm):
        arrays = arrays_of(batch, return_labels=True, mask_document_boundaries=masked)
        for number, row in enumerate(tokens_in(batch)):
            assert arrays["labels"][number].tolist() == labels_by_hand(row, L, masked=masked)
            crossing += sum(not same_document(a, b) for a, b in pairwise(row))
    assert crossing > 0, "there were documents that follow each other in a row"


def test_p3_a_document_that_ends_exactly_at_the_window_leaves_none_of_it_to_the_next_row():
    lengths = [L, 5, L - 5, 2 * L, 3]
    batches = list(packed(lengths, microbatch=1))
    rows = [tokens_in(batch)[0] for batch in batches]
    assert [len(row) for row in rows] == [L, L, L, L, 3]
    bounds = [arrays_of(b, return_cu_seqlens=True)["cu_seqlens"][0].tolist() for b in batches]
    assert bounds == [[0, L], [0, 5, L], [0, L], [0, L], [0, 3, L]]
    assert [arrays_of(b)["positions"][0].tolist() for b in batches[2:4]] == [list(range(L))] * 2


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_p3_boundaries_come_from_data_never_from_an_end_of_sequence_token(algorithm):
    """No document ends with an end token; one holds it in its middle, where ``eos_mask_loss`` alone heeds it."""
    inside = token(1, 5, 3)
    plain = packed(algorithm=algorithm)
    marked = packed(algorithm=algorithm, metadata={META_EOS_ID: str(inside).encode()})
    wanted = {"return_labels": True, "return_cu_seqlens": True, "mask_document_boundaries": True}
    met = 0
    for one, other in zip(plain, marked, strict=True):
        a, b = arrays_of(one, **wanted), arrays_of(other, **wanted)
        assert [x.tolist() for x in a["cu_seqlens"]] == [x.tolist() for x in b["cu_seqlens"]]
        assert a["labels"].tolist() == b["labels"].tolist()
        assert a["positions"].tolist() == b["positions"].tolist()
        ended = arrays_of(other, **wanted, eos_mask_loss=True)["labels"]
        met += int((a["labels"] != ended).sum())
        assert (ended[b["input_ids"] == inside] == IGNORED).all()
        assert (ended == a["labels"])[b["input_ids"] != inside].all()
    assert met == 1


@settings(max_examples=20, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 3 * L), min_size=1, max_size=20).filter(any),
    algorithm=st.sampled_from(ALGORITHMS),
    microbatch=st.integers(1, 4),
    masked=st.booleans(),
    saved=st.integers(0, 5),
)
def test_p3_inputs_labels_and_boundaries_are_right_for_any_lengths_and_through_a_restore(
    lengths, algorithm, microbatch, masked, saved
):
    def make():
        return packed(lengths, algorithm, microbatch, shuffled=True)

    pipeline = make()
    before = [batch for _, batch in zip(range(saved), pipeline, strict=False)]
    after = list(make().restore(pipeline.checkpoint())) if len(before) == saved else []
    pipeline.close()
    trained = []
    for batch in [*before, *after]:
        arrays = arrays_of(
            batch,
            return_labels=True,
            return_cu_seqlens=True,
            return_num_valid_tokens=True,
            mask_document_boundaries=masked,
        )
        for number, row in enumerate(tokens_in(batch)):
            inputs = arrays["input_ids"][number]
            assert inputs.tolist() == (row + [PAD] * L)[: L - 1]
            assert arrays["labels"][number].tolist() == labels_by_hand(row, L, masked=masked)
            assert arrays["cu_seqlens"][number][:-1].tolist() == (segments(row, L - 1) or [0])
            trained += [label for label in arrays["labels"][number].tolist() if label != IGNORED]
        assert arrays["num_valid_tokens"] == int((arrays["labels"] != IGNORED).sum())
    assert len(set(trained)) == len(trained), "no token is trained on twice"


# -- P4 ---------------------------------------------------------------------------------------------------------------

MASKS = [[int((row + place) % 3 != 0) for place in range(length)] for row, length in enumerate(LENGTHS)]
UNSUPERVISED = [[0] * length for length in LENGTHS]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("flatten", [False, True])
def test_p4_the_number_of_loss_tokens_is_that_of_the_labels_that_are_not_ignored(algorithm, masked, flatten):
    counted = 0
    for batch in packed(algorithm=algorithm, masks=MASKS):
        arrays = arrays_of(
            batch,
            return_labels=True,
            return_loss_mask=True,
            return_num_valid_tokens=True,
            mask_document_boundaries=masked,
            flatten=flatten,
        )
        losses = [row["loss_mask"] for row in batch.to_pylist()] + [[]] * len(batch)
        expected = [
            labels_by_hand(row, L, masked=masked, loss=loss)
            for row, loss in zip(tokens_in(batch), losses, strict=False)
        ]
        labels = arrays["labels"].reshape(3, L - 1)
        assert labels.tolist() == expected
        assert isinstance(arrays["num_valid_tokens"], int)
        assert arrays["num_valid_tokens"] == int((labels != IGNORED).sum())
        assert arrays["loss_mask"].reshape(3, L - 1).tolist() == (labels != IGNORED).astype(float).tolist()
        counted += arrays["num_valid_tokens"]
    assert 0 < counted < sum(LENGTHS)


def test_p4_rows_without_any_supervised_token_count_nothing():
    for batch in packed(masks=UNSUPERVISED):
        arrays = arrays_of(batch, return_labels=True, return_num_valid_tokens=True)
        assert arrays["num_valid_tokens"] == 0
        assert (arrays["labels"] == IGNORED).all()


# -- P5 ---------------------------------------------------------------------------------------------------------------


def assert_padding_never_trains(batch, lengths, *, left=False):
    """Labels and masks of a batch, given how many real tokens each of its rows has."""
    arrays = arrays_of(batch, return_labels=True, return_padding_mask=True, return_num_valid_tokens=True)
    whole = arrays_of(batch, return_padding_mask=True)
    width = whole["input_ids"].shape[1]
    assert len(lengths) == len(batch)
    for number, length in enumerate(lengths):
        real = np.arange(width) >= width - length if left else np.arange(width) < length
        assert whole["padding_mask"][number].tolist() == (~real).tolist()
        assert (whole["input_ids"][number][~real] == PAD).all()
        trained = real[:-1] & real[1:]
        assert (arrays["labels"][number] != IGNORED).tolist() == trained.tolist()
        assert arrays["labels"][number][trained].tolist() == whole["input_ids"][number][1:][trained].tolist()
    assert arrays["num_valid_tokens"] == sum(max(0, length - 1) for length in lengths)


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("fixed", [None, 40])
def test_p5_padding_of_ragged_rows_never_trains_wherever_it_stands_and_whatever_its_id(side, fixed):
    """The id of padding, ``PAD``, is that of a real token too: row 0, place 1 of source 1."""
    metadata = {META_PAD_SIDE: side.encode()} | ({META_PAD_LENGTH: str(fixed).encode()} if fixed else {})
    lengths = [5, 0, 1, 17, 30, 2, 9]
    work = source(documents("a", lengths, metadata=metadata), shuffle_shards=False)
    pipeline = Pipeline(work).batch(7).options(parallelism=0)
    (batch,) = pipeline
    rows = tokens_in(batch)
    assert sorted(map(len, rows)) == sorted(lengths)
    assert any(PAD in row for row in rows)
    assert batch.to_training(dtype=np.int64)["input_ids"].shape[1] == (fixed or 30)
    assert_padding_never_trains(batch, [len(row) for row in rows], left=side == "left")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_p5_the_padding_of_short_packed_rows_and_of_a_filled_up_last_batch_never_trains(algorithm):
    short = filled = 0
    for batch in packed(algorithm=algorithm, microbatch=5):
        lengths = [len(row) for row in tokens_in(batch)]
        short += any(0 < length < L for length in lengths)
        filled += int(not batch.row_mask.all())
        assert len(batch) == 5
        assert_padding_never_trains(batch, lengths)
    assert short
    assert filled


@pytest.mark.parametrize("tail", ["drop", "pad"])
@pytest.mark.parametrize("groups", [2, 5, 8])
def test_p5_fillers_have_the_shape_of_a_batch_and_train_nothing(tail, groups):
    """Lanes that no group count divides, lanes that have ended, groups without any lane."""

    def make():
        work = source(documents("a", [3 + i % 9 for i in range(64)], shards=2))
        return Pipeline(work).batch(2).options(canonical_replicas=3)

    fillers = 0
    with fleet(make, groups, uneven="pad", tail=tail) as ranks:
        for pipeline in ranks.pipelines:
            for batch in pipeline:
                assert_padding_never_trains(batch, [len(row) for row in tokens_in(batch)])
                assert batch.is_filler == (not batch.row_mask.any())
                fillers += batch.is_filler
                if batch.is_filler:
                    arrays = arrays_of(
                        batch, return_labels=True, return_num_valid_tokens=True, return_padding_mask=True
                    )
                    assert arrays["num_valid_tokens"] == 0 and arrays["padding_mask"].all()
                    assert arrays["labels"].size > 0, "a loss over it has a shape"
    assert fillers


def test_p5_fillers_of_packed_runs_have_the_fixed_width_of_their_rows():
    """Two groups share the one lane, a row each; the third has none."""
    pipeline = Pipeline(source(documents("a", [4] * 30))).pack_flat(L).batch(2)
    pipeline.options(canonical_replicas=1, dp_degree=3, dp_group_id=2, uneven="pad", parallelism=0, max_rounds=2)
    fillers = list(pipeline)
    assert len(fillers) == 2
    for filler in fillers:
        assert filler.is_filler and filler.lane == -1
        arrays = arrays_of(filler, return_labels=True, return_cu_seqlens=True)
        assert arrays["labels"].shape == (1, L - 1)
        assert [bounds.tolist() for bounds in arrays["cu_seqlens"]] == [[0, L - 1]]


def test_p5_rows_shared_by_groups_are_padded_like_the_whole_microbatch():
    lengths = [3, 30, 5, 7, 2, 9, 4, 6]

    def make():
        return Pipeline(source(documents("a", lengths))).batch(4).options(canonical_replicas=1)

    whole = [arrays_of(batch, return_labels=True) for batch in make().options(parallelism=0)]
    with fleet(make, 4) as groups:
        for number, pipeline in enumerate(groups.pipelines):
            for batch, full in zip(pipeline, whole, strict=True):
                mine = arrays_of(batch, return_labels=True)
                for name in ("input_ids", "labels"):
                    assert mine[name].tolist() == full[name][number : number + 1].tolist()
    assert len(whole) == 2
