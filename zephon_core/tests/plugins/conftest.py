"""Installed distributions, made by hand: a folder of metadata and modules on ``sys.path``."""

import sys
import textwrap

import pytest


class Environment:
    """A folder that behaves like site-packages."""

    def __init__(self, folder):
        self.folder = folder

    def module(self, name, source):
        self.folder.joinpath(f"{name}.py").write_text(textwrap.dedent(source))

    def install(self, distribution, groups, version="1.2.3"):
        """Write the metadata of a distribution; groups: entry-point group -> {name: target}."""
        info = self.folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        info.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        lines = []
        for group, entries in groups.items():
            lines += [f"[{group}]", *(f"{name} = {target}" for name, target in entries.items())]
        info.joinpath("entry_points.txt").write_text("\n".join(lines) + "\n")


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """A fresh folder on ``sys.path``; modules imported from it are forgotten afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield Environment(tmp_path)
    for name in set(sys.modules) - before:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]
