"""What a type checker makes of a user's code, and that the stub it reads is what runs."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

import zephon
from zephon import Pipeline
from zephon.abc import RowOperator
from zephon.cli import main
from zephon.cli.stubs import STUB, stub
from zephon.io import Dataset
from zephon.plugins import OperatorDescriptor, register
from zephon.spec import execution
from zephon.work import StaticMixtureWorkSource

HERE = Path(__file__).parent
CONFIG = """\
[mypy]
strict = true
show_error_codes = true
[mypy-pyarrow.*]
ignore_missing_imports = true
"""


@pytest.fixture(scope="module")
def mypy(tmp_path_factory):
    """Runs a module of mypy where no configuration of this repository is in reach."""
    folder = tmp_path_factory.mktemp("mypy")
    (folder / "mypy.ini").write_text(CONFIG)

    def run(*arguments):
        command = [sys.executable, "-m", *map(str, arguments)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
        return done.stdout + done.stderr

    return run


@pytest.fixture(scope="module")
def found(mypy):
    """The errors of the two files, as ``{file: {line: code}}``."""
    output = mypy("mypy", "--config-file", "mypy.ini", HERE / "user_code.py", HERE / "user_mistakes.py")
    assert "Found" in output, output
    errors = {"user_code.py": {}, "user_mistakes.py": {}}
    for path, line, code in re.findall(r"^(.*?):(\d+): error: .*\[([\w-]+)\]$", output, re.MULTILINE):
        errors[Path(path).name][int(line)] = code
    return errors


def test_a_correct_script_has_no_type_error_under_strict_rules(found):
    assert found["user_code.py"] == {}


def test_every_mistake_is_found_on_its_line_and_nothing_else_is(found):
    lines = (HERE / "user_mistakes.py").read_text().splitlines()
    expected = {number: line.rpartition("# E: ")[2] for number, line in enumerate(lines, start=1) if "# E: " in line}
    assert len(expected) > 15
    assert found["user_mistakes.py"] == expected


def test_the_stub_agrees_with_what_runs(mypy):
    output = mypy("mypy.stubtest", "zephon._pipeline", "--mypy-config-file", "mypy.ini", "--concise")
    assert re.fullmatch(r"(Success: .*)?\s*", output)


def test_the_committed_stub_is_what_the_operators_say():
    assert STUB.read_text(encoding="utf-8") == stub(first_party=True), (
        "an operator's arguments or documentation changed: run `zephon stubs write --first-party`"
    )


def test_check_is_silent_on_the_written_stub_and_fails_on_any_other(tmp_path, capsys):
    path = tmp_path / "_pipeline.pyi"
    arguments = ["stubs", "write", "--first-party", "--output", str(path)]
    assert main([*arguments, "--check"]) == 1
    assert main(arguments) == 0
    assert main([*arguments, "--check"]) == 0
    path.write_text(path.read_text().replace("microbatch_size: int", "microbatch_size: str"))
    capsys.readouterr()
    assert main([*arguments, "--check"]) == 1
    assert "zephon stubs write" in capsys.readouterr().err


def test_a_stub_that_cannot_be_written_is_an_error_with_its_path(tmp_path, capsys):
    path = tmp_path / "no-such-folder" / "stub.pyi"
    assert main(["stubs", "write", "--output", str(path)]) == 1
    error = capsys.readouterr().err
    assert "stubs-unwritable" in error
    assert str(path) in error


@attrs.frozen(slots=True)
class Repeat(RowOperator):
    r"""Repeat every row, as in \1\1.

    Args:
        times: how often.
        like: rows of this kind only.
    """

    times: int = attrs.field(default=2, converter=int)
    like: "Kind | None" = attrs.field(default=None, kw_only=True)
    parallelism: int | None = execution(default=None)
    placement: str | None = execution(default=None)

    def output_schema(self, schema):
        return schema

    def apply(self, block):
        return block


@attrs.frozen
class Kind:
    """A class of a stranger's plugin."""


def method_in(text, name):
    """The syntax tree of one method of the stub's class."""
    [pipeline] = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef) and node.name == "Pipeline"]
    return next((n for n in pipeline.body if isinstance(n, ast.FunctionDef) and n.name == name), None)


def test_a_strangers_operator_is_written_with_its_own_types_unless_only_ours_are_asked_for():
    descriptor = OperatorDescriptor(name="repeat", summary="repeats rows", impl="unused:Unused")
    with register("operator", descriptor, Repeat):
        text, ours = stub(), stub(first_party=True)
    method = method_in(text, "repeat")
    assert ast.unparse(method.args) == (
        "self, times: Any=2, *, like: Kind | None=None, parallelism: int | None=None, placement: str | None=None"
    )
    assert f"from {__name__} import Kind" in text
    assert ast.get_docstring(method).startswith(r"Repeat every row, as in \1\1.")
    assert method_in(ours, "repeat") is None
    assert method_in(ours, "batch") is not None


def test_a_broken_operator_is_left_out_with_a_warning():
    descriptor = OperatorDescriptor(name="broken", summary="cannot be imported", impl="zephon_no_such_module:X")
    with register("operator", descriptor), pytest.warns(RuntimeWarning, match="operator broken is left out"):
        text = stub()
    assert method_in(text, "broken") is None
    assert method_in(text, "batch") is not None


def test_an_operator_cannot_take_the_place_of_a_method_every_pipeline_has():
    descriptor = OperatorDescriptor(name="checkpoint", summary="takes a name", impl="unused:Unused")
    with register("operator", descriptor, Repeat):
        assert method_in(stub(), "checkpoint") is None


def test_the_stub_of_the_package_names_exactly_its_public_names():
    tree = ast.parse((Path(zephon.__file__).parent / "__init__.pyi").read_text())
    declared = {alias.asname for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    declared |= {node.target.id for node in tree.body if isinstance(node, ast.AnnAssign)}
    assert declared == set(zephon.__all__)


def test_an_operator_is_documented_on_the_class_as_on_a_pipeline():
    assert "microbatch_size" in Pipeline.batch.__doc__
    assert Pipeline.batch.__name__ == "batch"
    with pytest.raises(AttributeError, match="did you mean 'batch'"):
        Pipeline.batsch  # noqa: B018 - the look-up is what is tested


def test_a_call_that_does_not_fit_is_told_in_the_words_of_the_method():
    source = StaticMixtureWorkSource([Dataset.from_dict("a", [{"n": 1}])], {"a": 1})
    with pytest.raises(TypeError, match=r"^Pipeline\.shuffle\(\).*unexpected.*'bufer'.*did you mean buffer_size=\?$"):
        Pipeline(source).shuffle(bufer=8)
    with pytest.raises(
        TypeError, match=r"^Pipeline\.batch\(\): missing.*'microbatch_size'.*did you mean microbatch_size"
    ):
        Pipeline(source).batch(batch_size=8)
