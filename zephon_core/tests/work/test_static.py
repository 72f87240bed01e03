"""``StaticMixtureWorkSource`` as a whole, against a slow definition, and what users may rely on."""

from __future__ import annotations

import copy
import json
import pickle
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from inspect import signature

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zephon.abc import PhaseWeights, WorkSource
from zephon.block import Origins
from zephon.errors import ConfigError
from zephon.work import MixtureSpec, StaticMixtureWorkSource
from zephon.work.plugin import static_mixture

# The slow definitions take as long as they take.
law = settings(deadline=None, max_examples=40)

NAMES = ("code", "math", "web")

shards_ = st.lists(st.integers(0, 12), min_size=1, max_size=5).filter(any)
mixture_ = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 9), min_size=1)
schedule_ = st.lists(st.tuples(st.integers(1, 50), mixture_), min_size=1, max_size=4).map(
    lambda parts: [(sum(n for n, _ in parts[:i]), weights) for i, (_, weights) in enumerate(parts)]
)
options_ = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2),
        "chunk_size": st.integers(1, 20),
        "shuffle_shards": st.booleans(),
        "shuffle_within_shard": st.booleans(),
        "shuffle_block_size": st.sampled_from([None, 5, "auto", "global"]),
        "reshuffle_on_repeat": st.booleans(),
        "exhausted_policy": st.sampled_from([None, "stop", "redistribute", {"web": "redistribute"}]),
    }
)
lanes_ = st.integers(1, 9)


def source_of(dataset, schedule, shards, **options):
    used = {name for _, weights in schedule for name in weights}
    policy = options.get("exhausted_policy")
    if isinstance(policy, dict):
        options["exhausted_policy"] = {n: p for n, p in policy.items() if n in used}
    return StaticMixtureWorkSource([dataset(n, *shards[n]) for n in sorted(used, reverse=True)], schedule, **options)


def rows_of(source, origins: Origins):
    names = source.components
    columns = (origins.dataset, origins.shard, origins.row, origins.epoch)
    return [(names[d], s, r, e) for d, s, r, e in zip(*(c.tolist() for c in columns), strict=True)]


def read_lanes(source, lanes):
    return [source.read(lane, lanes, 0, source.lane_length(lane, lanes)) for lane in range(lanes)]


def two(dataset, **options):
    return StaticMixtureWorkSource(
        [dataset("web", 70, 30), dataset("code", 20, 0, 35)], {"web": 0.7, "code": 0.3}, **options
    )


# --- the slow definition --------------------------------------------------------------------------------------------


@settings(law, max_examples=80)
@given(schedule_, st.fixed_dictionaries(dict.fromkeys(NAMES, shards_)), options_, lanes_)
def test_every_lane_equals_the_slow_definition(dataset, slow, schedule, shards, options, lanes):
    source = source_of(dataset, schedule, shards, **options)
    totals = {name: sum(shards[name]) for name in source.components}
    names, starts, ended = slow.course(schedule, totals, source._policies, 10_000)
    assert ended
    assert len(source) == source.total_samples == len(names)
    drawn, everything = Counter(), []
    for name in names:
        epoch, place = divmod(drawn[name], totals[name])
        shuffled = slow.epoch(
            name,
            shards[name],
            epoch,
            seed=options["seed"],
            shards=options["shuffle_shards"],
            within=options["shuffle_within_shard"],
            block=options["shuffle_block_size"],
            reshuffle=options["reshuffle_on_repeat"],
        )
        everything.append((name, *shuffled[place], epoch))
        drawn[name] += 1
    ends = [*starts[1:], len(names)]
    spans = []
    for start, end, phase in zip(starts, ends, source.course.phases, strict=True):
        chunk = max(1, min(options["chunk_size"], phase.span // (8 * lanes)))
        spans.append((start, end - start, chunk))
    expected = slow.deal(spans, lanes, options["seed"])
    for lane, read in enumerate(read_lanes(source, lanes)):
        assert rows_of(source, read) == [everything[position] for position in expected[lane]]
        assert source.position_of(lane, lanes, np.arange(len(read))).tolist() == expected[lane]
        assert read.phase.tolist() == [int(np.searchsorted(starts, p, "right")) - 1 for p in expected[lane]]
        np.testing.assert_array_equal(read.component, read.dataset)
        assert not read.part.any()


@law
@given(schedule_, st.fixed_dictionaries(dict.fromkeys(NAMES, shards_)), options_, lanes_, st.data())
def test_reading_in_parts_is_reading_at_once(dataset, schedule, shards, options, lanes, data):
    source = source_of(dataset, schedule, shards, **options)
    lane = data.draw(st.integers(0, lanes - 1))
    length = source.lane_length(lane, lanes)
    a, b, c = sorted(data.draw(st.lists(st.integers(0, length), min_size=3, max_size=3)))
    joined = Origins.concat([source.read(lane, lanes, a, b), source.read(lane, lanes, b, c)])
    assert joined == source.read(lane, lanes, a, c)
    assert joined.columns().keys() == Origins.empty().columns().keys()


@law
@given(schedule_, st.fixed_dictionaries(dict.fromkeys(NAMES, shards_)), options_, lanes_, lanes_)
def test_lanes_hold_the_same_rows_however_many_there_are(dataset, schedule, shards, options, lanes, others):
    source = source_of(dataset, schedule, shards, **options)
    found = []
    for n in (lanes, others):
        read = read_lanes(source, n)
        lengths = [len(rows) for rows in read]
        assert max(lengths) - min(lengths) <= 1
        assert sum(lengths) == len(source)
        found.append(Counter(rows_of(source, Origins.concat(read))))
    assert found[0] == found[1]


# --- passes, mixtures, schedules --------------------------------------------------------------------------------------


@pytest.mark.parametrize("lanes", [1, 3, 32, 500])
def test_every_row_of_every_pass_is_delivered_exactly_once(dataset, lanes):
    source = StaticMixtureWorkSource([dataset("web", 70, 0, 30, 3)], {"web": 1}, stop_after_passes=3)
    assert len(source) == 309
    rows = Counter(rows_of(source, Origins.concat(read_lanes(source, lanes))))
    assert rows == Counter([("web", s, r, e) for e in range(3) for s, n in enumerate((70, 0, 30, 3)) for r in range(n)])


@pytest.mark.parametrize("share", [0.5, 0.75])
@pytest.mark.parametrize("microbatch", [1, 8])
def test_the_mixture_of_each_global_step_is_within_binomial_spread(dataset, share, microbatch):
    """Case S6: 32 lanes; a step is one microbatch of each. Check offsets and dealing of chunks when it fails."""
    source = StaticMixtureWorkSource(
        [dataset("a", *[10_000] * 50), dataset("b", *[10_000] * 50)],
        {"a": share, "b": 1 - share},
        exhausted_policy="repeat",
    )
    steps, lanes = 16, 32
    rows = lanes * microbatch
    # Steps from 30 chunk-rounds: within one, the lanes keep the phases they have drawn.
    drawn = np.zeros((30, steps))
    for lane in range(lanes):
        for number in range(len(drawn)):
            start = number * source.course.phases[0].chunk(lanes)
            component = source.read(lane, lanes, start, start + steps * microbatch).component
            drawn[number] += (component == 0).reshape(steps, microbatch).sum(axis=1)
    spread = (rows * share * (1 - share)) ** 0.5
    assert np.abs(drawn - rows * share).max() <= 4 * spread
    assert np.std(drawn) <= 1.2 * spread
    assert abs(drawn.mean() - rows * share) <= spread / 4


def test_changing_weights_and_entering_sources_lose_and_repeat_no_row(dataset):
    """Case M1: 1:1 becomes 2:1 at 1000, a source joins at 3000."""
    sources = [dataset("a", *[500] * 8), dataset("b", *[300] * 9), dataset("c", *[200] * 5)]
    schedule = [(0, {"a": 1, "b": 1}), (1000, {"a": 2, "b": 1}), (3000, {"a": 2, "b": 1, "c": 1})]
    source = StaticMixtureWorkSource(sources, schedule)
    read = Origins.concat(read_lanes(source, 8))
    for number, data in enumerate(sources):
        drawn = source.drawn_at(len(source))[data.name]
        mine = read.take(read.dataset == number)
        assert len(mine) == drawn
        rows = Counter(zip(mine.epoch.tolist(), mine.shard.tolist(), mine.row.tolist(), strict=True))
        assert max(rows.values()) == 1
        total = sum(data.rows)
        for epoch in range(drawn // total):
            assert sum(1 for e, _, _ in rows if e == epoch) == total
    assert source.drawn_at(1000) == {"a": 500, "b": 500, "c": 0}
    assert source.mixture_at(2999) == {"a": Fraction(2, 3), "b": Fraction(1, 3)}
    assert source.mixture_at(3000) == {"a": Fraction(1, 2), "b": Fraction(1, 4), "c": Fraction(1, 4)}
    assert [phase.weights for phase in source.phases] == [{"a": 1, "b": 1}, {"a": 2, "b": 1}, {"a": 2, "b": 1, "c": 1}]
    assert all(isinstance(phase, PhaseWeights) for phase in source.phases)


def test_datasets_come_in_order_of_first_use_then_name(dataset):
    names = ["web", "zoo", "art", "code"]
    schedule = [(0, {"web": 1, "code": 1}), (100, {"zoo": 1, "art": 1, "web": 1})]
    source = StaticMixtureWorkSource([dataset(n, 50) for n in names], schedule)
    assert [d.name for d in source.datasets] == ["code", "web", "art", "zoo"] == list(source.components)
    longer = StaticMixtureWorkSource([dataset(n, 50) for n in [*names, "aaa"]], [*schedule, (200, {"aaa": 1})])
    assert list(longer.components)[:4] == list(source.components)


def test_weights_of_tokens_become_weights_of_rows(dataset):
    source = two(dataset, token_estimation={"web": 500, "code": 1500.0})
    # 0.7 / 500 : 0.3 / 1500
    assert source.mixture_at(0) == {"web": Fraction(7, 8), "code": Fraction(1, 8)}


def test_one_row_among_many_lanes_is_read_once(dataset):
    source = StaticMixtureWorkSource([dataset("one", 0, 1, 0)], {"one": 1})
    assert [source.lane_length(lane, 8) for lane in range(8)] == [1, 0, 0, 0, 0, 0, 0, 0]
    assert rows_of(source, Origins.concat(read_lanes(source, 8))) == [("one", 1, 0, 0)]
    assert len(source.read(5, 8, 0, 0)) == 0


@pytest.mark.parametrize("far", [10**6, 10**12])
def test_far_positions_hold_what_an_endless_order_says(dataset, slow, far):
    source = two(dataset, exhausted_policy="repeat")
    (position,) = source.position_of(2, 4, [far])
    read = source.read(2, 4, far, far + 1)
    name = source.components[read.dataset[0]]
    ordinal = source.drawn_at(int(position))[name]
    shards = {"web": (70, 30), "code": (20, 0, 35)}[name]
    epoch, place = divmod(ordinal, sum(shards))
    assert source.drawn_at(int(position) + 1)[name] == ordinal + 1
    assert (int(read.epoch[0]), int(read.shard[0]), int(read.row[0])) == (
        epoch,
        *slow.epoch(name, shards, epoch)[place],
    )


def test_hundreds_of_datasets_are_read_once_each(dataset):
    datasets = [dataset(f"d{i:04}", 1 + i % 3) for i in range(300)]
    source = StaticMixtureWorkSource(
        datasets, {d.name: 1 + i for i, d in enumerate(datasets)}, exhausted_policy="redistribute"
    )
    rows = Counter(rows_of(source, Origins.concat(read_lanes(source, 4))))
    assert len(source) == len(rows) == sum(d.rows[0] for d in datasets)


# --- what is read when ------------------------------------------------------------------------------------------------


def test_building_a_source_reads_nothing_and_asking_for_its_length_changes_nothing(dataset):
    """Case R6."""
    datasets = [dataset("web", 70, 30), dataset("code", 20, 35)]
    asked = StaticMixtureWorkSource(datasets, {"web": 0.7, "code": 0.3})
    assert (asked.seed, len(asked.datasets), len(asked.components), bool(asked)) == (0, 2, 2, True)
    assert repr(asked)
    assert asked.settings()
    assert not any(d.looks for d in datasets)
    assert len(asked) == asked.total_samples
    assert asked.explain()
    fresh = StaticMixtureWorkSource(datasets, {"web": 0.7, "code": 0.3})
    for lane in range(3):
        assert fresh.read(lane, 3, 0, 20) == asked.read(lane, 3, 0, 20)


def test_datasets_that_are_never_reached_are_not_counted(dataset):
    far = dataset("far", 10)
    source = StaticMixtureWorkSource(
        [dataset("near", 5), far], [(0, {"near": 1}), (100, {"far": 1})], exhausted_policy="stop"
    )
    assert len(source) == 5
    source.read(0, 1, 0, 5)
    assert far.looks == []


def test_many_threads_read_one_source(dataset):
    source = two(dataset, shuffle_within_shard=True, shuffle_block_size=16, exhausted_policy="repeat")
    blocks = [(lane, start) for lane in range(8) for start in range(0, 2000, 100)]
    alone = two(dataset, shuffle_within_shard=True, shuffle_block_size=16, exhausted_policy="repeat")
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda at: source.read(at[0], 8, at[1], at[1] + 100), blocks))
    assert all(
        read == alone.read(lane, 8, start, start + 100) for read, (lane, start) in zip(found, blocks, strict=True)
    )


def test_caches_do_not_grow_with_what_is_read(dataset):
    source = StaticMixtureWorkSource(
        [dataset("web", *[1000] * 3000)], {"web": 1}, shuffle_within_shard=True, exhausted_policy="repeat"
    )
    for lanes in range(1, 40):
        source.read(0, lanes, lanes * 10**6, lanes * 10**6 + 3000)
        assert source._derived.cache.nbytes <= 32 << 20
    assert source._derived.cache.nbytes > 0


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
def test_copies_read_the_same_rows(copied, dataset):
    source = StaticMixtureWorkSource(
        [pickle.loads(pickle.dumps(dataset("web", 70, 30)))], [(0, {"web": 1}), (50, {"web": 2})], seed=5
    )
    before = copied(source)
    read = source.read(1, 4, 0, 20)
    assert copied(source).read(1, 4, 0, 20) == before.read(1, 4, 0, 20) == read


# --- lengths and ranges -----------------------------------------------------------------------------------------------


def test_an_endless_source_has_no_length_and_is_still_true(dataset):
    source = two(dataset, exhausted_policy="repeat")
    assert source.total_samples is None
    assert source.lane_length(0, 4) is None
    assert source
    with pytest.raises(TypeError, match="endless-curriculum"):
        len(source)


@pytest.mark.parametrize(
    ("lane", "lanes", "start", "stop", "code"),
    [
        (4, 4, 0, 1, "lane-out-of-range"),
        (-1, 4, 0, 1, "lane-out-of-range"),
        (0, 0, 0, 1, "lane-out-of-range"),
        (0, 4, -1, 1, "position-out-of-range"),
        (0, 4, 2, 1, "position-out-of-range"),
        (0, 4, 0, 10**6, "position-out-of-range"),
    ],
)
def test_reading_outside_a_lane_is_an_error(dataset, lane, lanes, start, stop, code):
    with pytest.raises(ConfigError) as caught:
        two(dataset).read(lane, lanes, start, stop)
    assert caught.value.code == code


def test_positions_outside_the_curriculum_are_errors(dataset):
    source = two(dataset)
    for ask in (
        lambda: source.drawn_at(len(source) + 1),
        lambda: source.mixture_at(-1),
        lambda: source.position_of(0, 4, [0, 10**6]),
        lambda: source.position_of(0, 4, [-1]),
        lambda: two(dataset, exhausted_policy="repeat").read(0, 4, 2**61, 2**61 + 1),
    ):
        with pytest.raises(ConfigError) as caught:
            ask()
        assert caught.value.code == "position-out-of-range"
    assert source.position_of(0, 4, []).tolist() == []


# --- arguments --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"mixture": {"web": 1}}, "mixture-names"),
        ({"mixture": {"web": 1, "code": 1, "math": 1}}, "mixture-names"),
        ({"mixture": {"web": 1, "coed": 1}}, "mixture-names"),
        ({"mixture": {"web": 0, "code": 1}}, "bad-weight"),
        ({"mixture": {}}, "bad-mixture"),
        ({"mixture": []}, "bad-schedule"),
        ({"mixture": "web"}, "bad-schedule"),
        ({"mixture": [(5, {"web": 1, "code": 1})]}, "bad-schedule"),
        ({"mixture": [(0, {"web": 1}), (0, {"code": 1})]}, "bad-schedule"),
        ({"mixture": [(0, {"web": 1}), (9, {"code": 1}), (8, {"web": 1})]}, "bad-schedule"),
        ({"mixture": [(0, {"web": 1}), (9.5, {"code": 1})]}, "bad-schedule"),
        ({"mixture": [{"web": 1, "code": 1}]}, "bad-schedule"),
        ({"mixture": [(0, None)]}, "bad-mixture"),
        ({"chunk_size": 0}, "bad-chunk-size"),
        ({"chunk_size": 1.5}, "bad-chunk-size"),
        ({"chunk_size": True}, "bad-chunk-size"),
        ({"seed": "x"}, "bad-seed"),
        ({"seed": None}, "bad-seed"),
        ({"shuffle_shards": 1}, "bad-switch"),
        ({"reshuffle_on_repeat": None}, "bad-switch"),
        ({"shuffle_block_size": 0}, "bad-shuffle-block-size"),
        ({"shuffle_block_size": "all"}, "bad-shuffle-block-size"),
        ({"shuffle_block_size": True}, "bad-shuffle-block-size"),
        ({"exhausted_policy": "loop"}, "bad-policy"),
        ({"exhausted_policy": {"wbe": "stop"}}, "unknown-dataset"),
        ({"exhausted_policy": "stop", "stop_after_passes": 2}, "goal-beyond-limit"),
        ({"exhausted_policy": "stop", "max_repeats": 2}, "contradictory-policy"),
        ({"token_estimation": "sample"}, "bad-token-estimation"),
        ({"token_estimation": {"web": 100}}, "bad-token-estimation"),
        ({"token_estimation": {"web": 100, "code": 0}}, "bad-token-estimation"),
        ({"token_estimation": {"web": 100, "code": 5, "x": 1}}, "unknown-dataset"),
    ],
)
def test_arguments_that_cannot_be_meant_are_refused_at_once(dataset, options, code):
    datasets = [dataset("web", 70), dataset("code", 20)]
    with pytest.raises(ConfigError) as caught:
        StaticMixtureWorkSource(**{"datasets": datasets, "mixture": {"web": 0.7, "code": 0.3}, **options})
    assert caught.value.code == code
    assert caught.value.found
    assert caught.value.fix
    assert not datasets[0].looks


@pytest.mark.parametrize("datasets", [[], "web", None, [1], {"web": 1}])
def test_what_is_no_list_of_datasets_is_refused(datasets):
    with pytest.raises(ConfigError) as caught:
        StaticMixtureWorkSource(datasets, {"web": 1})
    assert caught.value.code == "bad-datasets"


def test_two_datasets_of_one_name_are_refused(dataset):
    with pytest.raises(ConfigError) as caught:
        StaticMixtureWorkSource([dataset("web", 1), dataset("web", 2)], {"web": 1})
    assert caught.value.code == "duplicate-dataset"


def test_a_misspelt_name_is_met_with_the_one_that_was_meant(dataset):
    with pytest.raises(ConfigError) as caught:
        StaticMixtureWorkSource([dataset("web", 1), dataset("code", 2)], {"web": 1, "coed": 1})
    assert "'coed' -> 'code'" in caught.value.found


def test_more_components_than_origins_can_number_are_refused(dataset):
    datasets = [dataset(f"d{i}", 1) for i in range(2**15 + 1)]
    with pytest.raises(ConfigError) as caught:
        StaticMixtureWorkSource(datasets, {d.name: 1 for d in datasets})
    assert caught.value.code == "bad-mixture"


def test_an_empty_dataset_is_an_error_when_rows_are_counted_not_before(dataset):
    source = StaticMixtureWorkSource([dataset("web", 0, 0)], {"web": 1})
    with pytest.raises(ConfigError) as caught:
        len(source)
    assert caught.value.code == "empty-dataset"


def test_arguments_have_the_names_order_and_defaults_users_know():
    assert str(signature(StaticMixtureWorkSource).replace(return_annotation=None)).count("=") == 10
    parameters = {name: p.default for name, p in signature(StaticMixtureWorkSource).parameters.items()}
    assert list(parameters) == [
        "datasets",
        "mixture",
        "chunk_size",
        "seed",
        "shuffle_shards",
        "shuffle_within_shard",
        "shuffle_block_size",
        "exhausted_policy",
        "reshuffle_on_repeat",
        "max_repeats",
        "stop_after_passes",
        "token_estimation",
    ]
    assert [parameters[name] for name in list(parameters)[2:]] == [
        16384, 0, True, False, None, None, True, None, None, None,
    ]  # fmt: skip


def test_mixtures_may_be_specs_dicts_or_schedules_of_either(dataset):
    weights = {"web": 0.7, "code": 0.3}
    reads = [
        StaticMixtureWorkSource([dataset("web", 70), dataset("code", 20)], mixture).read(0, 2, 0, 30)
        for mixture in (weights, MixtureSpec(weights), [(0, weights)], [(np.int64(0), MixtureSpec(weights))])
    ]
    assert all(read == reads[0] for read in reads)


# --- plain data and explaining ----------------------------------------------------------------------------------------


@law
@given(schedule_, st.fixed_dictionaries(dict.fromkeys(NAMES, shards_)), options_)
def test_a_source_is_rebuilt_from_its_plain_data(dataset, schedule, shards, options):
    source = source_of(dataset, schedule, shards, **options)
    for plain in (source.to_plain(), source.settings()):
        rebuilt = StaticMixtureWorkSource.from_plain(json.loads(json.dumps(plain)), source.datasets)
        assert rebuilt.to_plain() == source.to_plain()
        assert rebuilt.read(0, 2, 0, source.lane_length(0, 2)) == source.read(0, 2, 0, source.lane_length(0, 2))


def test_settings_are_arguments_that_differ_from_their_defaults(dataset):
    assert two(dataset).settings() == {"mixture": {"web": 0.7, "code": 0.3}}
    changed = two(
        dataset,
        seed=7,
        shuffle_block_size=np.int64(9),
        max_repeats={"web": 2},
        token_estimation={"web": "1/3", "code": 2},
    )
    assert changed.settings() == {
        "mixture": {"web": 0.7, "code": 0.3},
        "seed": 7,
        "shuffle_block_size": 9,
        "max_repeats": {"web": 2},
        "token_estimation": {"web": "1/3", "code": 2},
    }
    again = StaticMixtureWorkSource(datasets=changed.datasets, **changed.settings())
    assert again.read(0, 1, 0, 50) == changed.read(0, 1, 0, 50)


def test_odd_numbers_are_written_down_with_the_decimals_they_were_given_with(dataset):
    source = StaticMixtureWorkSource([dataset("a", 5), dataset("b", 5)], {"a": np.float32(0.7), "b": Fraction(3, 10)})
    plain = json.loads(json.dumps(source.to_plain()))
    assert plain["mixture"] == {"a": 0.7, "b": "3/10"}
    assert plain["phases"][0]["weights"] == {"a": 7, "b": 3}


def test_plain_data_of_another_kind_is_refused(dataset):
    data = [dataset("web", 70, 30), dataset("code", 20, 0, 35)]
    for plain in ({"mixture": {"web": 1, "code": 1}, "sede": 1}, {"seed": 1}):
        with pytest.raises(ConfigError) as caught:
            StaticMixtureWorkSource.from_plain(plain, data)
        assert caught.value.code == "bad-spec"


def test_phases_are_not_taken_over_for_other_rows(dataset):
    plain = two(dataset).to_plain()
    with pytest.raises(ConfigError) as caught:
        StaticMixtureWorkSource.from_plain(plain, [dataset("web", 70, 31), dataset("code", 20, 0, 35)])
    assert caught.value.code == "dataset-changed"


def test_explain_says_what_is_worth_knowing(dataset):
    source = StaticMixtureWorkSource(
        [dataset("big", *[1000] * 50), dataset("tiny", 3)],
        [(0, {"big": 0.9, "tiny": 0.1}), (10**6, {"big": 1})],
        shuffle_block_size="auto",
        seed=1,
    )
    text = "\n".join(source.explain(lanes=4))
    for said in (
        "phase 0, from position 0",
        "big 0.9 (9/10)",
        "dataset tiny: 3 rows",
        "ends after 55,556 rows: pass 1 of 'big'",
        "overlap by one chunk-round",
        "tiny has 3 rows, fewer than its share",
        "rows decoded per row delivered",
        "mixture from position 1,000,000 on is never reached",
    ):
        assert said in text
    assert "overlap" not in "\n".join(two(dataset, exhausted_policy="stop").explain())
    assert "never ends" in "\n".join(two(dataset, exhausted_policy="repeat").explain())


def test_explain_admits_rounded_weights(dataset):
    source = StaticMixtureWorkSource(
        [dataset("a", 5), dataset("b", 5)], {"a": 1e-12, "b": 1}, exhausted_policy="repeat"
    )
    assert any("rounded" in line for line in source.explain())


def test_explain_stays_short_for_a_thousand_phases(dataset):
    schedule = [(i * 10, {"a": 1 + i % 3, "b": 1}) for i in range(1000)]
    source = StaticMixtureWorkSource([dataset("a", 50), dataset("b", 50)], schedule, exhausted_policy="repeat")
    assert len(source.explain()) < 40


def test_the_plugin_leads_to_the_class():
    assert static_mixture.load() is StaticMixtureWorkSource
    assert issubclass(StaticMixtureWorkSource, WorkSource)
