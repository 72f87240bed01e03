"""Every rank writes its own lanes; a step counts when all are there."""

import os

import pytest

from zephon.checkpoint import DirectoryStore, encode_header
from zephon.errors import CheckpointError, ConfigError


def part(lanes, total=4, mark=b"", **header):
    head = encode_header({"lanes": total, "fingerprint": "f", "round": 1, "slot": 0, **header})
    return {"header": head, "lanes": {f"{lane:05d}": b"lane %d %s" % (lane, mark) for lane in lanes}}


def test_a_step_is_complete_when_all_lanes_are_there(tmp_path):
    store = DirectoryStore(tmp_path / "new" / "folder")
    assert store.steps() == []
    store.save(10, part([0, 1]))
    assert store.steps() == []
    store.save(10, part([2, 3]))
    store.save(20, part([0, 1, 2, 3]))
    assert store.steps() == [10, 20]
    assert store.load(10) == part([0, 1, 2, 3])


def test_r9_a_missing_part_is_refused_naming_the_lanes(tmp_path):
    store = DirectoryStore(tmp_path)
    store.save(10, part([0, 3]))
    with pytest.raises(CheckpointError) as caught:
        store.load(10)
    assert caught.value.code == "checkpoint-incomplete"
    assert "1-2" in caught.value.found


def test_an_unknown_step_names_the_known_ones(tmp_path):
    store = DirectoryStore(tmp_path)
    store.save(10, part(range(4)))
    with pytest.raises(CheckpointError) as caught:
        store.load(11)
    assert caught.value.code == "checkpoint-missing"
    assert "10" in caught.value.found


def test_saving_a_lane_again_replaces_it(tmp_path):
    store = DirectoryStore(tmp_path)
    store.save(10, part(range(4)))
    store.save(10, part([2], mark=b"again"))
    assert store.load(10)["lanes"]["00002"] == b"lane 2 again"


def test_lanes_of_different_moments_under_one_step_are_refused(tmp_path):
    store = DirectoryStore(tmp_path)
    store.save(10, part([0, 1]))
    store.save(10, part([2, 3], round=2))
    assert store.steps() == []
    with pytest.raises(CheckpointError) as caught:
        store.load(10)
    assert caught.value.code == "checkpoint-mixed"


def test_a_writer_that_dies_leaves_nothing_that_counts(tmp_path, monkeypatch):
    store = DirectoryStore(tmp_path)

    def dies(source, target):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", dies)
        with pytest.raises(KeyboardInterrupt):
            store.save(10, part(range(4)))
    assert store.steps() == []
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


def test_delete_forgets_a_step(tmp_path):
    store = DirectoryStore(tmp_path)
    store.save(10, part(range(4)))
    store.delete(10)
    store.delete(11)
    assert store.steps() == []


def test_a_directory_may_be_named_by_a_file_url(tmp_path):
    place = tmp_path / "of run #1"
    DirectoryStore(place.as_uri()).save(10**13, part(range(4)))
    assert DirectoryStore(place).steps() == [10**13]
    assert DirectoryStore(f"file://localhost{place.as_uri().removeprefix('file://')}").steps() == [10**13]


@pytest.mark.parametrize("url", ["s3://key:secret@bucket/run", "file://elsewhere/run"])
def test_a_url_that_is_no_directory_of_this_machine_is_refused(url):
    with pytest.raises(ConfigError) as caught:
        DirectoryStore(url)
    assert caught.value.code == "checkpoint-location"
    assert "secret" not in str(caught.value)
