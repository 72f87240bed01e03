"""Options are checked by name and value when they are set."""

import pytest

from zephon.engine.options import NOT_NEEDED, ErrorPolicy, Options, default_memory_limit, parse_bytes
from zephon.errors import ConfigError
from zephon.spec import data_fields


def test_only_canonical_replicas_is_a_data_setting():
    assert [f.name for f in data_fields(Options)] == ["canonical_replicas"]


def test_published_aliases_mean_the_same():
    options = Options().changed({"world_size": 8, "global_rank": 3})
    assert (options.dp_degree, options.dp_group_id) == (8, 3)


def test_an_alias_together_with_its_name_is_an_error():
    with pytest.raises(ConfigError) as caught:
        Options().changed({"world_size": 8, "dp_degree": 8})
    assert caught.value.code == "option-invalid"


def test_a_typo_is_an_error_with_a_suggestion():
    with pytest.raises(ConfigError) as caught:
        Options().changed({"canonical_replica": 8})
    assert caught.value.code == "option-unknown"
    assert "canonical_replicas" in caught.value.fix


@pytest.mark.parametrize("name", sorted(NOT_NEEDED))
def test_published_options_that_nothing_needs_say_why(name):
    with pytest.raises(ConfigError) as caught:
        Options().changed({name: 1})
    assert caught.value.code == "option-not-needed"
    assert caught.value.found == NOT_NEEDED[name]


@pytest.mark.parametrize(
    "value",
    [True, {"caches": {}}, {"cache": {}}, {"cache": {"directory": "x"}}, {"cache": {"directory": "x", "limit": None}}],
)
def test_io_options_name_directory_and_limit_of_the_cache_or_say_how(value):
    assert Options().changed({"io_options": None}) == Options().changed({"io_options": {}}) == Options()
    with pytest.raises(ConfigError) as caught:
        Options().changed({"io_options": value})
    assert caught.value.code == "option-invalid"


@pytest.mark.parametrize(
    "setting",
    [
        {"canonical_replicas": 0},
        {"canonical_replicas": 1.5},
        {"canonical_replicas": True},
        {"dp_group_id": -1},
        {"parallelism": -1},
        {"prefetch_batches": 0},
        {"uneven": "yes"},
        {"tail": "keep"},
        {"agree": 3},
        {"memory_limit": "much"},
        {"memory_limit": 0},
        {"on_error": "ignore"},
        {"on_error": {"action": "skip", "limit": 3}},
        {"on_error": {"action": "skip", "budget": -1}},
        {"on_error": {"action": "quarantine"}},
    ],
)
def test_values_that_cannot_be_meant_are_refused(setting):
    with pytest.raises(ConfigError) as caught:
        Options().changed(setting)
    assert caught.value.code == "option-invalid"


@pytest.mark.parametrize(
    ("text", "size"),
    [("4GiB", 4 << 30), ("500 MB", 500_000_000), ("1.5k", 1500), ("2KiB", 2048), ("7", 7), (9, 9), (None, None)],
)
def test_bytes_as_people_write_them(text, size):
    assert parse_bytes(text, "memory_limit") == size


def test_the_default_memory_limit_is_shared_by_the_ranks_of_a_machine(monkeypatch):
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    alone = default_memory_limit()
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert default_memory_limit() < alone / 2


def test_error_policies_from_text_and_mapping():
    assert ErrorPolicy.of("skip").action == "skip"
    assert ErrorPolicy.of("quarantine").path
    assert ErrorPolicy.of({"action": "quarantine", "path": "q", "budget": 3}).budget == 3
