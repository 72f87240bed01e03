"""Wheels of every distribution, installed where no source tree is in reach."""

import os
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOY = Path(__file__).parent / "toy_plugin"
TESTKIT = ROOT / "tests" / "zephon-testkit"
FOLDERS = [ROOT / "zephon_core", *sorted(p.parent for p in ROOT.glob("plugins/*/pyproject.toml")), ROOT]


def project(folder):
    """The ``[project]`` table of a distribution."""
    return tomllib.loads((folder / "pyproject.toml").read_text())["project"]


def run(*command, **options):
    """Run a command that knows nothing of this process's configuration; its output, or a failure that shows it."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "PYTHON", "COV_"))}
    env = {**clean, "PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **options.pop("env", {})}
    command = [str(part) for part in command]
    done = subprocess.run(command, check=False, env=env, capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


class Installed:
    """A virtual environment that has the wheels, and the other libraries of this one."""

    def __init__(self, folder):
        self.folder = folder
        self.bin = folder / ("Scripts" if os.name == "nt" else "bin")
        self.python = self.bin / "python"

    def script(self, source, *arguments, path=None):
        """Output of a Python script run in an empty folder; ``path`` is one more folder to import from."""
        work = self.folder / "work"
        work.mkdir(exist_ok=True)
        env = {"PYTHONPATH": str(path)} if path else {}
        return run(self.python, "-c", source, *arguments, cwd=work, env=env)


@pytest.fixture(scope="session")
def wheels(tmp_path_factory):
    """Folder with the wheel of every distribution of this tree, of the toy plugin and of the conformance kit."""
    folder = tmp_path_factory.mktemp("wheels")
    build = ["-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", folder]
    run(sys.executable, *build, *FOLDERS, TOY, TESTKIT)
    return folder


@pytest.fixture(scope="session")
def installed(wheels, tmp_path_factory):
    """The wheels of ``zephon``, the toy plugin and the kit, installed from that folder alone."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=False, symlinks=os.name != "nt")
    environment = Installed(folder)
    # Third-party libraries are lent by this environment, without anything that leads back to the source tree.
    lent = folder / "third-party"
    lent.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if entry.suffix != ".pth" and "zephon" not in entry.name and entry.name != "__pycache__":
            (lent / entry.name).symlink_to(entry)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (folder / "lib" / version / "site-packages" / "third-party.pth").write_text(f"{lent}\n")
    pip = [sys.executable, "-m", "pip", "--python", environment.python]
    run(*pip, "install", "--no-index", "--find-links", wheels, "zephon[ray]", "acme-toy", "zephon-testkit")
    run(*pip, "check")
    return environment
