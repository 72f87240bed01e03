"""``zephon doctor``: a report that is complete, that has no secrets in it, and that says what is broken."""

import json
import os
import re

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zephon import __version__
from zephon.cli.doctor import hardware, software
from zephon.cli.doctor.hardware import cgroup_memory
from zephon.cli.doctor.secrets import scrubbed
from zephon.cli.doctor.surroundings import SHOWN, environment, identity
from zephon.plugins import status

KEYS = {
    "machine": ["system", "python", "cpus", "memory", "shm", "files", "temp", "umask"],
    "cache": ["path", "exists", "writable", "files", "bytes"],
    "hooks": ["observers", "error"],
    "identity": ["known", "dp_degree", "dp_group_id", "source"],
}
DATA = ["path", "format", "shards", "bytes", "list_seconds", "read_seconds", "index", "error"]
TOP = [
    "machine",
    "distributions",
    "plugins",
    "cache",
    "hooks",
    "environment",
    "identity",
    "data",
    "problems",
    "warnings",
]


@pytest.fixture
def doctor(zephon):
    """The status and the report."""

    def run(*arguments):
        code, out, err = zephon("doctor", *arguments, "--json")
        assert err == ""
        return code, json.loads(out)

    return run


def test_json_has_exactly_these_keys(doctor, data):
    code, report = doctor(data)
    assert (code, list(report)) == (0, TOP)
    for part, keys in KEYS.items():
        assert list(report[part]) == keys
    assert [list(found) for found in report["data"]] == [DATA]
    assert list(report["machine"]["cpus"]) == ["machine", "affinity", "quota", "local_ranks", "usable", "error"]
    assert list(report["machine"]["memory"]) == ["total", "available", "cgroup_limit", "default_limit"]
    assert {tuple(plugin) for plugin in report["plugins"]} == {("plugin", "distribution", "version", "status")}
    assert report["problems"] == []


def test_what_it_says_of_the_machine_is_what_is_there(doctor, monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")
    _, report = doctor()
    here = report["machine"]
    assert here["cpus"]["machine"] == os.cpu_count()
    assert 1 <= here["cpus"]["usable"] <= here["cpus"]["affinity"] <= here["cpus"]["machine"]
    assert 0 < here["memory"]["available"] <= here["memory"]["total"]
    assert 0 < here["files"]["open"] < here["files"]["limit"]
    assert here["umask"].isdecimal()
    assert report["distributions"]["zephon-core"] == __version__
    assert {"runner:threads", "shard_format:parquet", "tokenizer:hf"} <= {p["plugin"] for p in report["plugins"]}


def test_the_text_has_every_section_and_what_is_wrong_comes_last(zephon, data):
    code, out, err = zephon("doctor", data)
    assert (code, err) == (0, "")
    titles = [line for line in out.splitlines() if re.fullmatch(r"[a-z]+", line)]
    assert titles == TOP
    assert "tokenizer:hf" in out
    assert out.endswith("warnings\n  none\n")


# ------------------------------------------------------------------ secrets

SECRET = "hunter2-4f9a0c"


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_no_secret_of_the_environment_is_ever_printed(zephon, monkeypatch, tmp_path, form):
    for name in ("AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "ZEPHON_ANYTHING", "SLURM_JWT", "DB_PASSWORD", "ZEPHON_API_KEY"):
        monkeypatch.setenv(name, SECRET)
    monkeypatch.setenv("ZEPHON_CACHE_DIR", str(tmp_path / SECRET))
    monkeypatch.setenv("RANK", f"https://me:{SECRET}@host/?sig={SECRET}")
    url = f"memory://me:{SECRET}@bucket/data?token={SECRET}"
    code, out, err = zephon("doctor", url, tmp_path / f"token={SECRET}", *form)
    assert code == 1
    assert SECRET not in out + err
    assert "ZEPHON_ANYTHING" in out
    assert "HF_TOKEN" not in out


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyzABC0123456789+/_-", min_size=6, max_size=40))
def test_wherever_a_secret_stands_it_is_taken_out(secret):
    report = {
        "a": [f"failed with {secret} in it", {"b": f"x{secret}y"}],
        "c": f"Authorization: Bearer {secret}",
        "d": "s3://bucket/key",
        "e": 3,
    }
    clean = scrubbed(report, {"MY_TOKEN": secret})
    assert secret not in json.dumps([clean["a"][0][len("failed") :], clean["a"][1]["b"]])
    assert clean["e"] == 3
    assert f"Bearer {secret}" not in scrubbed(report, {})["c"]


@pytest.mark.parametrize(
    "text",
    ["api_key=abc", "password: abc", "'secret': 'abc'", "https://user:abc@host/", "http://h/?X-Signature=abc"],
)
def test_what_is_assigned_to_a_secret_name_is_taken_out(text):
    assert "abc" not in scrubbed(text, {})


@pytest.mark.parametrize("text", ["tokenizer:hf", "operator:tokenize", "s3://bucket/keys/a.jsonl", "of 3 shards"])
def test_what_is_no_secret_stays(text):
    assert scrubbed(text, {}) == text


@given(st.dictionaries(st.text(alphabet="ABCDEKNOST_", min_size=1), st.text()))
def test_only_listed_names_show_their_value(environ):
    shown = environment({**environ, "ZEPHON_OTHER": SECRET})
    assert shown["ZEPHON_OTHER"] == "(set)"
    assert all(name in SHOWN or value == "(set)" for name, value in shown.items())


# ------------------------------------------------------------------ what is broken


def test_a_broken_plugin_is_listed_with_its_reason(doctor, zephon, monkeypatch):
    first, *others = status()
    broken = attrs.evolve(first, status="broken: ImportError: no module named x", summary="", capabilities=())
    monkeypatch.setattr(software, "status", lambda: [broken, *others])
    code, report = doctor()
    assert code == 1
    assert report["problems"] == [f"plugin {broken.address}: broken: ImportError: no module named x"]
    assert "no module named x" in zephon("doctor")[1]


def test_data_that_cannot_be_reached_is_a_problem(doctor, tmp_path):
    code, report = doctor(tmp_path / "nowhere")
    assert code == 1
    assert report["data"][0]["error"].startswith("[path-missing]")
    assert "nowhere" in report["problems"][0]


def test_data_is_listed_read_and_its_index_found(doctor, zephon, data):
    (before,) = doctor(data)[1]["data"]
    assert (before["format"], before["shards"], before["index"], before["error"]) == ("jsonl", 2, "", "")
    assert not (data / ".zephon").exists(), "looking builds no index"
    zephon("index", data)
    (index,) = (data / ".zephon").glob("index-*.arrow")
    assert doctor(data)[1]["data"][0]["index"] == f"{index.name} of 2 shards"
    index.write_bytes(b"nothing of the kind")
    assert "cannot be read" in doctor(data)[1]["data"][0]["index"]


def test_a_recipe_stands_for_its_datasets(doctor, recipe, data, tmp_path):
    code, report = doctor(recipe())
    assert code == 0
    assert [(found["path"], found["shards"]) for found in report["data"]] == [(str(data), 2)]
    broken = tmp_path / "broken.toml"
    broken.write_text("[[operators]]\nop = 'no_such'\n")
    code, report = doctor(broken)
    assert code == 1
    assert report["data"][0]["error"].startswith("[")


def test_ranks_that_do_not_know_who_they_are_are_warned(doctor, monkeypatch):
    monkeypatch.setenv("SLURM_NTASKS", "8")
    code, report = doctor()
    assert code == 0, "a pipeline may be told by its options"
    assert not report["identity"]["known"]
    assert "SLURM_NTASKS=8" in report["warnings"][0]
    monkeypatch.setenv("WORLD_SIZE", "8")
    monkeypatch.setenv("RANK", "3")
    code, report = doctor()
    assert report["identity"] == {"known": True, "dp_degree": 8, "dp_group_id": 3, "source": "WORLD_SIZE and RANK"}
    assert report["warnings"] == []


def test_a_rank_that_is_no_number_is_told(monkeypatch):
    assert not identity({"WORLD_SIZE": "eight", "RANK": "0"})["known"]


def test_ranks_of_a_machine_that_cannot_be_counted_are_a_problem(doctor, monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "four")
    code, report = doctor()
    assert code == 1
    assert report["machine"]["cpus"]["usable"] == -1
    assert "LOCAL_WORLD_SIZE" in report["problems"][0]


def test_a_cache_that_cannot_be_written_to_is_warned_of(doctor, monkeypatch, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("ZEPHON_CACHE_DIR", str(file / "cache"))
    code, report = doctor()
    assert (code, report["cache"]["writable"]) == (0, False)
    assert "ZEPHON_CACHE_DIR" in report["warnings"][-1]


# ------------------------------------------------------------------ limits of control groups


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/memory.max": "1000"}, 1000),
        ({"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max"}, None),
        ({"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "9", "sys/fs/cgroup/memory.max": "7"}, 7),
        ({"proc/self/cgroup": "4:memory:/x\n", "sys/fs/cgroup/memory/x/memory.limit_in_bytes": "5"}, 5),
        (
            {
                "proc/self/cgroup": "4:memory:/x\n",
                "sys/fs/cgroup/memory/x/memory.limit_in_bytes": "9223372036854771712",
            },
            None,
        ),
    ],
    ids=["none", "an ancestor's", "no limit", "the tightest", "version 1", "version 1, no limit"],
)
def test_the_memory_a_control_group_grants(tmp_path, files, limit):
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert cgroup_memory(tmp_path) == limit


def test_where_the_system_says_nothing_the_report_says_so(doctor, zephon, monkeypatch, tmp_path):
    monkeypatch.setattr(hardware, "ROOT", tmp_path)
    _, report = doctor()
    assert report["machine"]["memory"]["total"] == -1
    assert report["machine"]["umask"] == "unknown"
    assert "unknown available of unknown" in zephon("doctor")[1]
