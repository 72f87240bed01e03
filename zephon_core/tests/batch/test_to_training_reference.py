"""to_training against a slow reference that goes row by row and token by token."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

IGNORE = -100
EOS = 2
#: Few ids, so that pad id (0), end of sequence (2) and ordinary tokens get mixed up if anything looks at ids.
DOCUMENT = st.lists(st.integers(0, 4), min_size=1, max_size=5)
ROW = st.lists(DOCUMENT, max_size=4)


@st.composite
def microbatches(draw):
    rows = draw(st.lists(ROW, min_size=0, max_size=5))
    longest = max((sum(map(len, row)) for row in rows), default=0)
    known = draw(st.sampled_from(["both", "documents", "positions"]))
    fill = draw(st.integers(0, 2)) if known != "positions" else 0
    size = len(rows) + draw(st.integers(0, 2))
    start = draw(st.integers(0, size))
    return {
        "rows": rows,
        "fill": fill,
        "length": draw(st.none() | st.integers(longest + fill, longest + fill + 3)),
        "side": draw(st.sampled_from([None, "right", "left"])),
        "known": known,
        "loss": draw(st.booleans())
        and [draw(st.lists(st.integers(0, 1), min_size=n, max_size=n)) for n in (sum(map(len, r)) for r in rows)],
        "size": size,
        "view": (start, draw(st.integers(start, size))),
    }


@st.composite
def option_sets(draw):
    labels = draw(st.booleans())
    flags = {"flatten": draw(st.booleans()), "return_labels": labels}
    for name in ("return_cu_seqlens", "return_padding_mask", "return_document_ids"):
        flags[name] = draw(st.booleans())
    if labels:
        for name in ("return_num_valid_tokens", "return_loss_mask", "eos_mask_loss", "mask_document_boundaries"):
            flags[name] = draw(st.booleans())
    flags["position_mode"] = draw(st.sampled_from(["preserve", "sequence"]))
    return flags


def reference_row(row, loss, width, left, fill, options):
    """Expected values of one row, from its documents; ``row`` is None for a fill row."""
    cells = []  # per column: token, document number (0: padding), position, trained as a label
    for number, document in enumerate(row or [], start=1):
        for place, token in enumerate(document):
            cells.append((token, number, place))
    stored = len(cells) + (fill if row is not None else 0)
    before, after = (width - stored, stored - len(cells)) if left and cells else (0, width - len(cells))
    padded = [(0, 0, i) for i in range(before)] + cells + [(0, 0, i) for i in range(after)]
    mask = [0] * before + list(loss if loss else [1] * len(cells)) + [0] * after
    labels = []
    for here, there, wanted in zip(padded, padded[1:], mask[1:], strict=False):
        trained = here[1] and there[1] and wanted
        if options.get("mask_document_boundaries") and here[1] != there[1]:
            trained = False
        if options.get("eos_mask_loss") and here[0] == EOS:
            trained = False
        labels.append(there[0] if trained else IGNORE)
    seen = padded[: max(width - 1, 0)] if options["return_labels"] else padded
    bounds = [i for i, cell in enumerate(seen) if i == 0 or cell[1] != seen[i - 1][1]] + [len(seen)]
    sequence = [max(0, i - before) for i in range(len(seen))]
    return {
        "input_ids": [c[0] for c in seen],
        "labels": labels,
        "positions": sequence if options["position_mode"] == "sequence" else [c[2] for c in seen],
        "padding_mask": [c[1] == 0 for c in seen],
        "document_ids": [c[1] for c in seen],
        "cu_seqlens": sorted(set(bounds)),
    }


def reference(batch, options):
    rows, left = batch["rows"], batch["side"] == "left"
    stored = [sum(map(len, row)) + batch["fill"] for row in rows]
    width = batch["length"] if batch["length"] is not None else max(stored, default=2)
    losses = batch["loss"] or [None] * len(rows)
    filled = [*zip(rows, losses, strict=True), *[(None, None)] * (batch["size"] - len(rows))]
    start, stop = batch["view"]
    seen = [reference_row(row, loss, width, left, batch["fill"], options) for row, loss in filled[start:stop]]

    def table(key):
        values = [row[key] for row in seen]
        return [v for row in values for v in row] if options["flatten"] else values

    expected = {"input_ids": table("input_ids"), "positions": table("positions")}
    if options["return_labels"]:
        expected["labels"] = table("labels")
        if options.get("return_loss_mask"):
            flat = [[float(v != IGNORE) for v in row["labels"]] for row in seen]
            expected["loss_mask"] = [v for row in flat for v in row] if options["flatten"] else flat
        if options.get("return_num_valid_tokens"):
            expected["num_valid_tokens"] = sum(v != IGNORE for row in seen for v in row["labels"])
    if options["return_padding_mask"]:
        expected["padding_mask"] = table("padding_mask")
    if options["return_document_ids"]:
        expected["document_ids"] = table("document_ids")
    if options["return_cu_seqlens"]:
        vectors = [row["cu_seqlens"] for row in seen]
        if options["flatten"]:
            span = len(seen[0]["input_ids"]) if seen else 0
            joined = sorted({0, *(b + i * span for i, vector in enumerate(vectors) for b in vector)})
            expected["cu_seqlens"] = joined
            expected["max_seqlen"] = max((b - a for a, b in itertools.pairwise(joined)), default=0)
        else:
            expected["cu_seqlens"] = vectors
            expected["max_seqlen"] = [max((b - a for a, b in itertools.pairwise(v)), default=0) for v in vectors]
    return expected


def listed(value):
    if isinstance(value, list):
        return [listed(v) for v in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


@given(microbatches(), option_sets())
@settings(max_examples=200, deadline=None)
def test_every_key_equals_the_reference(make_packed, tokens_field, batch, options):
    made = make_packed(
        batch["rows"],
        field=tokens_field(length=batch["length"], side=batch["side"], eos=EOS),
        documents=batch["known"] != "positions",
        positions=batch["known"] != "documents",
        loss=batch["loss"] or None,
        fill=batch["fill"],
        size=batch["size"],
        seen=batch["view"],
    )
    out = made.to_training(dtype=np.int64, exclude_fields=("ids", "texts"), **options)
    raw = out.pop("loss_mask") if "loss_mask" in out and not options["return_labels"] else None
    expected = reference(batch, options)
    assert {key: listed(value) for key, value in out.items()} == expected
    assert (raw is not None) == (bool(batch["loss"]) and not options["return_labels"])
    if raw is not None:
        assert raw.dtype == np.int8
        real = ~made.to_training(return_padding_mask=True, flatten=options["flatten"], dtype=np.int64)["padding_mask"]
        first, last = batch["view"]
        assert raw[real].tolist() == [v for row in batch["loss"][first:last] for v in row]


@given(microbatches(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_arrays_have_the_promised_dtypes_and_memory_of_their_own(make_packed, tokens_field, batch, flatten):
    made = make_packed(batch["rows"], field=tokens_field(length=batch["length"]), size=batch["size"], fill=0)
    out = made.to_training(
        return_labels=True,
        return_loss_mask=True,
        return_padding_mask=True,
        return_document_ids=True,
        return_cu_seqlens=True,
        flatten=flatten,
    )
    dtypes = {
        "input_ids": np.int64, "labels": np.int64, "positions": np.int64, "loss_mask": np.float32,
        "padding_mask": np.bool_, "document_ids": np.int32, "max_seqlen": np.int32,
    }  # fmt: skip
    buffers = [b for c in made.block.data.columns for b in c.buffers() if b is not None]
    spans = [(b.address, b.address + b.size) for b in buffers]
    for key, dtype in dtypes.items():
        value = out[key]
        if key == "max_seqlen" and flatten:
            assert type(value) is int
            continue
        assert value.dtype == dtype and value.flags.writeable
        if key != "max_seqlen":
            assert value.ndim == (1 if flatten else 2)
            place = value.__array_interface__["data"][0]
            assert value.size == 0 or not any(a <= place < b for a, b in spans), f"{key} aliases Arrow memory"
    vectors = [out["cu_seqlens"]] if flatten else out["cu_seqlens"]
    for vector in vectors:
        assert vector.dtype == np.int32 and vector[0] == 0
        assert (np.diff(vector) > 0).all()
        assert vector[-1] == (out["input_ids"].size if flatten else out["input_ids"].shape[1])


@pytest.mark.parametrize("flatten", [False, True])
def test_lists_are_given_where_no_dtype_is_wanted(make_packed, flatten):
    out = make_packed([[[1, 3], [4]]]).to_training(
        dtype=None, return_labels=True, return_cu_seqlens=True, flatten=flatten
    )
    assert out["input_ids"] == ([1, 3] if flatten else [[1, 3]])
    assert out["labels"] == ([3, 4] if flatten else [[3, 4]])
    assert out["cu_seqlens"] == ([0, 2] if flatten else [[0, 2]])


# -- the cases by hand -------------------------------------------------------------------------------------------------


def test_a_label_never_crosses_documents_when_boundaries_are_masked(make_packed):
    batch = make_packed([[[1, 3, 4], [4, 1]]])
    plain = batch.to_training(return_labels=True, dtype=None)
    masked = batch.to_training(return_labels=True, mask_document_boundaries=True, dtype=None)
    assert plain["labels"] == [[3, 4, 4, 1]]
    assert masked["labels"] == [[3, 4, IGNORE, 1]]


@pytest.mark.parametrize("length", [0, 1, 7, 8])
def test_rows_of_every_length_around_the_window_end_at_the_window(make_packed, tokens_field, length):
    batch = make_packed([[[1] * length] if length else []], field=tokens_field(length=8))
    for labels in (False, True):
        out = batch.to_training(return_labels=labels, return_cu_seqlens=True)
        [vector] = out["cu_seqlens"]
        assert vector.tolist() == sorted({0, min(length, out["input_ids"].shape[1]), out["input_ids"].shape[1]})


def test_a_document_that_ends_exactly_at_the_window_leaves_no_padding(make_packed, tokens_field):
    batch = make_packed([[[1, 1, 1], [3, 3]]], field=tokens_field(length=5))
    out = batch.to_training(return_cu_seqlens=True, return_padding_mask=True)
    assert out["cu_seqlens"][0].tolist() == [0, 3, 5] and not out["padding_mask"].any()


def test_pad_ids_inside_real_text_train(make_batch, tokens_field):
    batch = make_batch({"input_ids": [[0, 0, 5, 0], [7]]}, tokens_field(pad=0))
    out = batch.to_training(return_labels=True, return_num_valid_tokens=True, dtype=None)
    assert out["labels"] == [[0, 5, 0], [IGNORE] * 3]
    assert out["num_valid_tokens"] == 3


def test_end_of_sequence_in_the_inputs_is_masked_only_when_asked(make_batch, tokens_field):
    batch = make_batch({"input_ids": [[1, 9, 2, 1, 8, 2]]}, tokens_field(eos=2))
    out = batch.to_training(return_labels=True, eos_mask_loss=True, dtype=None)
    assert out["labels"] == [[9, 2, IGNORE, 8, 2]]
    other = batch.to_training(return_labels=True, eos_mask_loss=True, eos_token_id=9, dtype=None)
    assert other["labels"] == [[9, IGNORE, 1, 8, 2]]


def test_the_loss_mask_belongs_to_labels_not_to_inputs(make_packed):
    batch = make_packed([[[1, 3, 4, 1]]], loss=[[0, 1, 0, 1]])
    out = batch.to_training(return_labels=True, return_loss_mask=True, dtype=None)
    assert out["labels"] == [[3, IGNORE, 1]] and out["loss_mask"] == [[1.0, 0.0, 1.0]]
    assert batch.to_training(dtype=None)["loss_mask"] == [[0, 1, 0, 1]]
    assert "loss_mask" not in batch.to_training(return_labels=True)


def test_positions_are_handed_on_as_they_are(make_batch, tokens_field):
    """Positions need not restart unless boundaries are asked of them."""
    batch = make_batch({"input_ids": [[1, 2, 3], [4]], "positions": [[5, 9, 9], [7]]}, tokens_field())
    assert batch.to_training(dtype=None)["positions"] == [[5, 9, 9], [7, 0, 1]]
