"""``zephon checkpoint show``: what a stored state holds."""

import json
import re

import pytest

from zephon import Pipeline, __version__
from zephon.checkpoint import DirectoryStore


@pytest.fixture
def stored(recipe, tmp_path):
    """A store with complete states of steps 1 and 3, and half of one of step 4."""
    path = recipe({"op": "shuffle", "buffer_size": 4}, options={"parallelism": 0, "tail": "pad", "block_rows": 2})
    store = DirectoryStore(tmp_path / "states")
    with Pipeline.from_spec(path) as pipeline:
        for number, _ in enumerate(pipeline, 1):
            if number % 3 == 0:
                store.save(number // 3, pipeline.checkpoint())
            if number == 9:
                break
        store.delete(2)
        half = pipeline.checkpoint()
        store.save(4, {**half, "lanes": dict(list(half["lanes"].items())[:1])})
        return tmp_path / "states", pipeline.checkpoint()


def test_the_latest_complete_step_is_shown_with_its_lanes(zephon, stored):
    code, out, err = zephon("checkpoint", "show", stored[0])
    assert (code, err) == (0, "")
    head, table = out.split("\n\n")
    lines = head.splitlines()
    assert lines[0] == "step 3 of 1, 3"
    assert re.fullmatch("fingerprint [0-9a-f]{64}", lines[1])
    assert f"zephon-core {__version__}" in lines[2]
    assert re.fullmatch(r"round 3, slot 0; 3 lanes; [\d,]+ bytes", lines[3])
    assert lines[4] == "operators: shuffle, batch"
    assert re.fullmatch(r"dataset web: 40 rows in 2 shards, 1,\d{3} bytes", lines[5])
    titles, *lanes = table.splitlines()
    assert titles.split() == ["lane", "position", "delivered", "since", "cut", "bytes", "held"]
    assert [line.split()[0] for line in lanes] == ["0", "1", "2"]
    assert {line.split()[2] for line in lanes} == {"3"}
    assert all("rows." in line for line in lanes)  # the shuffle buffer


def test_a_step_can_be_chosen(zephon, stored):
    assert zephon("checkpoint", "show", stored[0], "--step", "1")[1].startswith("step 1 of 1, 3\n")


def test_json_holds_everything_but_the_arrow_data(zephon, stored):
    folder, state = stored
    code, out, _ = zephon("checkpoint", "show", folder, "--json")
    found = json.loads(out)
    assert code == 0
    assert set(found) == {"step", "header", "lanes"}
    assert found["step"] == 3
    header = json.loads(state["header"])
    header.pop("zephon_checkpoint")
    assert found["header"] == header
    assert [lane["lane"] for lane in found["lanes"]] == [0, 1, 2]
    for lane in found["lanes"]:
        assert {"position", "delivered", "since_cut", "rounds", "counters", "stages", "bytes", "arrow_bytes"} <= set(
            lane
        )
        assert lane["delivered"] == lane["rounds"] == 3
        assert lane["counters"]["delivered"]["rows"] == {"web": 6}


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda folder: (folder / "step-000000000003" / "lane-00001.bin").unlink(), "checkpoint-incomplete"),
        (lambda folder: _flip(folder / "step-000000000003" / "lane-00001.bin"), "checkpoint-corrupt"),
        (lambda folder: _newer(folder / "step-000000000003"), "checkpoint-newer"),
    ],
)
def test_what_is_wrong_with_a_state_is_told(zephon, stored, spoil, code):
    folder, _ = stored
    spoil(folder)
    status, out, err = zephon("checkpoint", "show", folder, "--step", "3")
    assert (status, out) == (1, "")
    assert err.startswith(f"[{code}]")


def _flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _newer(folder):
    (path,) = folder.glob("header-*.json")
    header = json.loads(path.read_bytes())
    header["zephon_checkpoint"] += 1
    path.write_text(json.dumps(header))


def test_a_step_half_written_is_not_shown_as_if_it_were_whole(zephon, stored):
    status, out, err = zephon("checkpoint", "show", stored[0], "--step", "4")
    assert (status, out) == (1, "")
    assert err.startswith("[checkpoint-incomplete]")
    assert "1-2" in err
