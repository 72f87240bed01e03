"""What two type checkers make of a user's code and of a plugin author's, right and wrong."""

import re
from pathlib import Path

import pytest

from zephon.cli import main
from zephon.plugins import OperatorDescriptor, register

HERE = Path(__file__).parent
RIGHT = ["user_code.py", "author_code.py"]
WRONG = ["user_mistakes.py", "author_mistakes.py"]
CHECKERS = ["mypy", "pyright"]

#: ``# E: mypy's code | pyright's rule ; why only one of them finds it``, with ``-`` for the other.
MARK = re.compile(r"# E: (?P<mypy>[\w-]+) \| (?P<pyright>\w+|-)(?: ; (?P<reason>.+))?$")


def marks(path):
    """The mistakes marked in a file, by line."""
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
    found = {number: MARK.search(line) for number, line in lines if "# E: " in line}
    assert all(found.values()), f"a mark that cannot be read in {path}: {found}"
    return found


def expected(path, checker):
    """Codes by line that a checker has to find, and no others."""
    return {line: mark[checker] for line, mark in marks(path).items() if mark[checker] != "-"}


@pytest.fixture(scope="module")
def found(errors_of):
    """The errors of all files, by checker, each run once."""
    return {checker: errors_of(checker, [HERE / name for name in RIGHT + WRONG]) for checker in CHECKERS}


@pytest.mark.parametrize("checker", CHECKERS)
@pytest.mark.parametrize("name", RIGHT)
def test_correct_code_has_no_type_error_under_strict_rules(found, checker, name):
    assert found[checker].get(name, {}) == {}


@pytest.mark.parametrize("checker", CHECKERS)
@pytest.mark.parametrize("name", WRONG)
def test_every_mistake_is_found_on_its_line_and_nothing_else_is(found, checker, name):
    assert found[checker][name] == expected(HERE / name, checker)


@pytest.mark.parametrize(("name", "least"), [("user_mistakes.py", 18), ("author_mistakes.py", 45)])
def test_both_checkers_find_the_same_mistakes_unless_the_line_says_why_not(name, least):
    found = marks(HERE / name)
    assert len(found) >= least
    one_sided = [mark["reason"] for mark in found.values() if "-" in (mark["mypy"], mark["pyright"])]
    assert all(one_sided)
    assert len(one_sided) * 10 <= len(found)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Folder of a stub ``written.pyi`` that ``zephon stubs write`` made with a stranger's operator installed."""
    folder = tmp_path_factory.mktemp("stubs")
    (folder / "written.py").touch()  # pyright wants a module beside each stub
    descriptor = OperatorDescriptor(name="repeat", summary="repeats rows", impl="stranger:Repeat")
    with pytest.MonkeyPatch.context() as patch, register("operator", descriptor):
        patch.syspath_prepend(HERE)
        assert main(["stubs", "write", "--output", str(folder / "written.pyi")]) == 0
    return folder


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_written_stub_types_the_operators_of_strangers(errors_of, written, checker):
    files = [written / "written.pyi", HERE / "stranger.py", HERE / "stranger_used.py"]
    used = expected(HERE / "stranger_used.py", checker)
    assert len(used) > 3
    assert errors_of(checker, files, path=[written, HERE]) == {"stranger_used.py": used}
