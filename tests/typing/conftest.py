"""Type checkers as strangers run them: in a folder of their own, with no configuration of this repository in reach.

Both are as strict as they go, save for one thing that is not ours: pyarrow ships no types. mypy is told so. Pyright
calls such types *unknown*, and everything they touch, so its rules on the unknown are off.
"""

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

MYPY = """\
[mypy]
strict = true
show_error_codes = true
[mypy-pyarrow.*]
ignore_missing_imports = true
"""
PYRIGHT = {
    "typeCheckingMode": "strict",
    "reportMissingTypeStubs": False,
    "reportUnknownArgumentType": False,
    "reportUnknownLambdaType": False,
    "reportUnknownMemberType": False,
    "reportUnknownParameterType": False,
    "reportUnknownVariableType": False,
}


def run_module(folder, *arguments, **variables):
    """Run a Python module in a folder. Gives its exit status and all it wrote."""
    # Pyright asks the first `python` of PATH where packages are.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    command = [sys.executable, "-m", *map(str, arguments)]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **variables, "PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def by_line(errors):
    """``{file name: {line: codes}}`` of triples; what a line is told twice counts once."""
    found = defaultdict(lambda: defaultdict(set))
    for path, line, code in errors:
        found[Path(path).name][int(line)].add(code)
    return {name: {line: ", ".join(sorted(codes)) for line, codes in lines.items()} for name, lines in found.items()}


@pytest.fixture(scope="session")
def mypy(tmp_path_factory):
    """Run a module of mypy, with what it learnt of our packages the time before. Gives what it wrote."""
    folder = tmp_path_factory.mktemp("mypy")
    (folder / "mypy.ini").write_text(MYPY)

    def run(module, *arguments, path=()):
        status, output = run_module(folder, module, *arguments, MYPYPATH=os.pathsep.join(map(str, path)))
        assert status in (0, 1), output
        return output

    return run


@pytest.fixture(scope="session")
def pyright(tmp_path_factory):
    """Run basedpyright. Gives the report it writes as JSON."""

    def run(*arguments, files=(), path=()):
        folder = tmp_path_factory.mktemp("pyright")
        settings = {**PYRIGHT, "include": [str(file) for file in files], "extraPaths": [str(entry) for entry in path]}
        (folder / "pyrightconfig.json").write_text(json.dumps(settings))
        status, output = run_module(folder, "basedpyright", "--outputjson", *arguments)
        assert status in (0, 1), output
        return json.loads(output)

    return run


@pytest.fixture(scope="session")
def errors_of(mypy, pyright):
    """Check files by one of the two checkers. Gives ``{file name: {line: codes}}``, files without errors left out."""

    def with_mypy(files, path):
        output = mypy("mypy", "--config-file", "mypy.ini", *files, path=path)
        # `checked 2 source files`: of whatever it found, it has seen all.
        assert f"{len(files)} source file" in output, output
        return by_line(re.findall(r"^(.*?):(\d+): error: .*\[([\w-]+)\]$", output, re.MULTILINE))

    def with_pyright(files, path):
        report = pyright(files=files, path=path)
        assert report["summary"]["filesAnalyzed"] == len(files), report["summary"]
        found = report["generalDiagnostics"]
        return by_line((f["file"], f["range"]["start"]["line"] + 1, f.get("rule", f["message"])) for f in found)

    checkers = {"mypy": with_mypy, "pyright": with_pyright}

    def run(checker, files, path=()):
        return checkers[checker](files, path)

    return run
