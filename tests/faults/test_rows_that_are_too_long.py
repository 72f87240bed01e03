"""Rows longer than ``max_length``: an explicit policy each, and what it keeps is exactly what it says."""

import pytest

from zephon import Pipeline
from zephon.errors import DataError
from zephon.io import Dataset
from zephon_fault_files import VARIANTS, byte_tokenizer, fails_with, inline, jsonl, run, text_of, work

ROWS = 24
LIMIT = 9


@pytest.fixture
def dataset(tmp_path):
    return Dataset.from_path("web", jsonl(tmp_path / "data", [10, 14]))


@pytest.fixture
def tokenizer(tmp_path):
    return byte_tokenizer(tmp_path / "tokenizer")


def lengths():
    """Tokens of each row, without special ones: a token is a byte."""
    return [len(text_of(n).encode()) for n in range(ROWS)]


LONG = [n for n, length in enumerate(lengths()) if length > LIMIT]


def tokenized(dataset, tokenizer, **options):
    pipeline = Pipeline(work(web=dataset))
    return pipeline.tokenize(
        tokenizer_id=tokenizer, field="text", special_tokens="none", preserve_upstream_payload=True, **options
    )


def rows_of(pipeline):
    """Number and tokens of every row delivered."""
    return sorted(
        (record.payload["n"], len(record.payload["input_ids"]))
        for batch in pipeline
        if not batch.is_filler
        for record in batch.records
    )


def test_the_test_has_rows_of_all_kinds():
    assert LIMIT in lengths()
    assert 0 < len(LONG) < ROWS
    assert max(lengths()) > 2 * LIMIT


def test_without_a_policy_a_long_row_is_an_error_that_names_it_and_the_choices(dataset, tokenizer):
    with fails_with("row-too-long", DataError) as found:
        rows_of(inline(tokenized(dataset, tokenizer, max_length=LIMIT).batch(2)))
    assert "of dataset 'web'" in found[0].what
    assert "'tokenize'" in found[0].what
    assert f"max_length is {LIMIT}" in found[0].found
    assert "truncation=True" in found[0].fix
    assert "split_long_samples=True" in found[0].fix


def test_under_skip_the_long_rows_are_dropped_and_counted(dataset, tokenizer):
    def make():
        return tokenized(dataset, tokenizer, max_length=LIMIT).batch(2).options(canonical_replicas=4)

    pipeline = inline(make(), 4, on_error="skip")
    assert rows_of(pipeline) == [(n, length) for n, length in enumerate(lengths()) if length <= LIMIT]
    assert pipeline.stats()["skipped"] == {"web": len(LONG)}
    plain = run(make, on_error="skip")
    for name, chain in VARIANTS.items():
        assert run(make, chain, on_error="skip") == plain, name


def test_truncation_keeps_every_row_and_its_beginning(dataset, tokenizer):
    pipeline = inline(tokenized(dataset, tokenizer, max_length=LIMIT, truncation=True).batch(2))
    assert rows_of(pipeline) == [(n, min(length, LIMIT)) for n, length in enumerate(lengths())]


def test_splitting_keeps_every_token(dataset, tokenizer):
    pipeline = inline(tokenized(dataset, tokenizer, max_length=LIMIT, split_long_samples=True).batch(2))
    expected = [
        (n, min(LIMIT, length - start)) for n, length in enumerate(lengths()) for start in range(0, length, LIMIT)
    ]
    assert rows_of(pipeline) == sorted(expected)


def packed(dataset, tokenizer, *, shuffled=False, **options):
    pipeline = tokenized(dataset, tokenizer)
    if shuffled:  # so that most documents reach the packer while the lane is being finished
        pipeline.shuffle(100)
    return pipeline.pack_flat(LIMIT, **{"algorithm": "first_fit", "num_bins": 3, **options}).batch(2)


def tokens_by_row(pipeline):
    """How many tokens of every row were delivered."""
    found = dict.fromkeys(range(ROWS), 0)
    starts = {"part-0.jsonl": 0, "part-1.jsonl": 10}
    names = list(starts)
    for batch in pipeline:
        if not batch.is_filler:
            for documents in batch["documents"].to_pylist():
                for piece in documents or ():  # a row that only fills up the last batch has none
                    found[starts[names[piece["shard"]]] + piece["row"]] += piece["length"]
    return found


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"overflow": "split"}, lambda length: length),
        ({"algorithm": "wrap", "num_bins": None}, lambda length: length),
        ({"algorithm": "best_fit_wrap"}, lambda length: length),
        ({"overflow": "truncate"}, lambda length: min(length, LIMIT)),
        ({"algorithm": "best_fit", "overflow": "truncate"}, lambda length: min(length, LIMIT)),
        ({"overflow": "drop"}, lambda length: length if length <= LIMIT else 0),
        ({"algorithm": "best_fit", "overflow": "drop"}, lambda length: length if length <= LIMIT else 0),
    ],
)
def test_packing_keeps_of_a_long_document_what_its_policy_says_and_counts_the_rest(
    dataset, tokenizer, shuffled, options, kept
):
    pipeline = inline(packed(dataset, tokenizer, shuffled=shuffled, **options))
    assert tokens_by_row(pipeline) == {n: kept(length) for n, length in enumerate(lengths())}
    counted = pipeline.stats()["operators"]
    lost = sum(lengths()) - sum(map(kept, lengths()))
    dropped, truncated = (options.get("overflow") == policy for policy in ("drop", "truncate"))
    assert counted["dropped_documents"] == (len(LONG) if dropped else 0)
    assert counted["dropped_tokens"] == (lost if dropped else 0)
    assert counted["truncated_documents"] == (len(LONG) if truncated else 0)
    assert counted["truncated_tokens"] == (lost if truncated else 0)
    assert counted["documents"] == ROWS
    assert pipeline.stats()["tokens"] == {"web": sum(map(kept, lengths()))}
    assert pipeline.stats()["skipped"] == {}


@pytest.mark.parametrize("shuffled", [False, True])
def test_packing_may_refuse_long_documents_which_are_then_bad_rows(dataset, tokenizer, shuffled):
    def make():
        return packed(dataset, tokenizer, shuffled=shuffled, overflow="error").options(canonical_replicas=4)

    with fails_with("pack-document-too-long", DataError) as found:
        tokens_by_row(inline(make(), 4))
    assert "of dataset 'web'" in found[0].what
    assert "'pack_flat'" in found[0].what
    assert f"max_length is {LIMIT}" in found[0].found
    pipeline = inline(make(), 4, on_error="skip")
    assert tokens_by_row(pipeline) == {n: length if length <= LIMIT else 0 for n, length in enumerate(lengths())}
    assert pipeline.stats()["skipped"] == {"web": len(LONG)}
    plain = run(make, on_error="skip")
    for name, chain in VARIANTS.items():
        assert run(make, chain, on_error="skip") == plain, name
