"""Registers the format and storages of ``zephon_io_doubles`` and keeps indexes out of the user's cache."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import zephon_io_doubles as doubles_module


@pytest.fixture(autouse=True)
def doubles(tmp_path, monkeypatch):
    monkeypatch.setenv("ZEPHON_CACHE_DIR", str(tmp_path / "cache"))
    with doubles_module.installed():
        yield doubles_module


@pytest.fixture
def write(tmp_path):
    """Writes ``.rows`` files below a directory and returns the directory."""

    def write_files(files, below="data"):
        root = tmp_path / below
        root.mkdir(exist_ok=True, parents=True)
        for name, rows in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(rows if isinstance(rows, bytes) else doubles_module.rows_file(rows))
        return root

    return write_files
