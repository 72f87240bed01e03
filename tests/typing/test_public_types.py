"""That the stub type checkers read is what runs, and what it is made of."""

import ast
import re
from pathlib import Path

import pytest

import zephon
from zephon import Pipeline
from zephon.cli import main
from zephon.cli.stubs import STUB, stub
from zephon.io import Dataset
from zephon.plugins import OperatorDescriptor, register
from zephon.work import StaticMixtureWorkSource

HERE = Path(__file__).parent


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


@pytest.fixture
def stranger(monkeypatch):
    """The name of a module, on the path, that holds a stranger's operator."""
    monkeypatch.syspath_prepend(HERE)
    return "stranger"


def method_in(text, name):
    """The syntax tree of one method of the stub's class."""
    [pipeline] = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef) and node.name == "Pipeline"]
    return next((n for n in pipeline.body if isinstance(n, ast.FunctionDef) and n.name == name), None)


def test_a_strangers_operator_is_written_with_its_own_types_unless_only_ours_are_asked_for(stranger):
    descriptor = OperatorDescriptor(name="repeat", summary="repeats rows", impl=f"{stranger}:Repeat")
    with register("operator", descriptor):
        text, ours = stub(), stub(first_party=True)
    method = method_in(text, "repeat")
    assert ast.unparse(method.args) == (
        "self, times: Any=2, *, like: Kind | None=None, parallelism: int | None=None, placement: str | None=None"
    )
    assert f"from {stranger} import Kind" in text
    assert ast.get_docstring(method).startswith(r"Repeat every row, as in \1\1.")
    assert method_in(ours, "repeat") is None
    assert method_in(ours, "batch") is not None


def test_a_broken_operator_is_left_out_with_a_warning():
    descriptor = OperatorDescriptor(name="broken", summary="cannot be imported", impl="zephon_no_such_module:X")
    with register("operator", descriptor), pytest.warns(RuntimeWarning, match="operator broken is left out"):
        text = stub()
    assert method_in(text, "broken") is None
    assert method_in(text, "batch") is not None


def test_an_operator_cannot_take_the_place_of_a_method_every_pipeline_has(stranger):
    descriptor = OperatorDescriptor(name="checkpoint", summary="takes a name", impl=f"{stranger}:Repeat")
    with register("operator", descriptor):
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
