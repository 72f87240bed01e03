"""One plugin of each kind, rendered from the template of the kit's wheel, built, and installed where no source is."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import attrs
import pytest

ROOT = Path(__file__).resolve().parents[2]
REPLAY = {path.stem: path for path in sorted((Path(__file__).parent / "replay").glob("*.json"))}
#: What the template asks for: an author who has more would not notice that something is missing there.
WANTED = [
    "zephon_core",
    *(f"plugins/zephon-{name}" for name in ("fsspec", "jsonl", "ops", "text")),
    "tests/zephon-testkit",
]

RENDER = """
import sys
from cookiecutter.main import cookiecutter
from zephon_testkit.shipped import shipped
for replay in sys.argv[2:]:
    cookiecutter(str(shipped("cookiecutter")), replay=replay, output_dir=sys.argv[1])
"""


def execute(*command, **options):
    """What became of a command that knows nothing of this process's configuration."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "PYTHON", "PYTEST_", "COV_", "ZEPHON_"))}
    env = {**clean, "PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **options.pop("env", {})}
    command = [str(part) for part in command]
    return subprocess.run(command, check=False, env=env, capture_output=True, text=True, timeout=600, **options)


def run(*command, **options):
    """Output of such a command, or a failure that shows it."""
    done = execute(*command, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@attrs.frozen
class Plugin:
    """A rendered distribution, and the environment that has its wheel.

    Attributes:
        folder: what was rendered.
        answers: what the replay file says.
        bin: the environment's programs.
        scratch: a folder all plugins share, for caches.
    """

    folder: Path
    answers: dict
    bin: Path
    scratch: Path

    @property
    def address(self):
        """``point:name``."""
        return f"{self.answers['__point']}:{self.answers['name']}"

    def execute(self, program, *arguments, **options):
        """What becomes of a program of the environment, run in the rendered folder."""
        return execute(self.bin / program, *arguments, cwd=self.folder, **options)


def wheel(target, *folders):
    """Build wheels, with what is installed here alone."""
    build = ["-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", target]
    run(sys.executable, *build, *folders)


@pytest.fixture(scope="session")
def environment(tmp_path_factory):
    """A fresh virtual environment with the kit, as an author makes it; the folder of wheels it came from."""
    wheels = tmp_path_factory.mktemp("wheels")
    wheel(wheels, *(ROOT / folder for folder in WANTED))
    folder = tmp_path_factory.mktemp("author")
    venv.create(folder, with_pip=False, symlinks=os.name != "nt")
    # Third-party libraries are lent by this environment, without anything that leads back to the source tree.
    lent = folder / "third-party"
    lent.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if entry.suffix != ".pth" and "zephon" not in entry.name and entry.name != "__pycache__":
            (lent / entry.name).symlink_to(entry)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (folder / "lib" / version / "site-packages" / "third-party.pth").write_text(f"{lent}\n")
    # The programs of ruff and mypy are found beside the interpreter.
    for program in ("ruff", "mypy", "dmypy"):
        (folder / "bin" / program).symlink_to(Path(sys.executable).parent / program)
    install(folder, wheels, "zephon-testkit[new-plugin]")
    return folder, wheels


def install(folder, wheels, *names):
    """Install from wheels alone."""
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python"]
    run(*pip, "install", "--no-index", "--find-links", wheels, *names)
    run(*pip, "check")


@pytest.fixture(scope="session")
def plugins(environment, tmp_path_factory):
    """Every kind: rendered by the environment itself, built into wheels, installed from them. By kind."""
    folder, wheels = environment
    rendered, home = tmp_path_factory.mktemp("rendered"), tmp_path_factory.mktemp("home")
    # The library keeps answers at home, and leaves scripts behind that it has run.
    private = {"HOME": str(home), "TMPDIR": str(home)}
    run(folder / "bin" / "python", "-c", RENDER, rendered, *REPLAY.values(), env=private)
    answers = {kind: json.loads(path.read_text())["cookiecutter"] for kind, path in REPLAY.items()}
    found = {
        kind: Plugin(rendered / answer["__distribution"], answer, folder / "bin", home)
        for kind, answer in answers.items()
    }
    wheel(wheels, *(plugin.folder for plugin in found.values()))
    install(folder, wheels, *(f"{answer['__distribution']}[dev]" for answer in answers.values()))
    return found


@pytest.fixture(params=REPLAY)
def plugin(request, plugins):
    """One of them."""
    return plugins[request.param]
