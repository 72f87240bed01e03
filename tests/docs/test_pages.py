"""What the pages say of the code, held against the code."""

import inspect
import re
from pathlib import Path

import attrs
import pytest

import zephon_distributions
from zephon import Batch
from zephon.cli import COMMANDS
from zephon.engine.options import ALIASES, Options
from zephon.plugins import POINTS, registry
from zephon.plugins.known import KNOWN
from zephon.work import StaticMixtureWorkSource

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def page(name):
    return (DOCS / name).read_text()


def first_cells(text, heading):
    """The code in the first cells of the table below a heading."""
    section = re.split(rf"^#+ {re.escape(heading)}$", text, flags=re.MULTILINE)[1]
    section = re.split(r"^#+ ", section, flags=re.MULTILINE)[0]
    cells = [row.split("|")[1] for row in re.findall(r"^\|.*$", section, re.MULTILINE)]
    return {code for cell in cells for code in re.findall(r"`([^`]+)`", cell)}


def test_the_readme_lists_every_distribution_with_what_it_provides():
    assert zephon_distributions.written() == zephon_distributions.table(), (
        "run python tests/support/zephon_distributions.py"
    )


def test_the_readme_promises_nothing_as_missing_that_is_there():
    limits = (ROOT / "README.md").read_text().partition("## Limits")[2]
    missing = set(re.findall(r"`(\w+)`", re.findall(r"Operators that do not exist yet: (.*?)\.\n", limits)[0]))
    assert missing
    assert not missing & set(registry("operator").names())


def test_the_table_of_commands_is_that_of_the_program():
    commands = {code.split()[1] for code in first_cells(page("cli.md"), "The command line and recipes")}
    assert commands == COMMANDS.keys()


def test_the_table_of_operators_has_every_first_party_operator_with_arguments_it_has():
    shown = first_cells(page("pipeline.md"), "Operators")
    methods = {code.partition("(")[0]: code.partition("(")[2].rstrip(")") for code in shown}
    ours = {name for name in registry("operator").names() if name in KNOWN["operator"]}
    assert methods.keys() == ours
    for name, arguments in methods.items():
        signature = inspect.signature(registry("operator").load(name))
        for argument in re.split(r", (?=\w+(?:=|,|$)|\*|\.)", arguments):
            given, _, default = argument.partition("=")
            if given in ("*", "..."):
                continue
            assert given in signature.parameters, f"{name}: {given}"
            if default:
                assert signature.parameters[given].default == eval(default), f"{name}: {given}"


def test_the_table_of_options_has_every_option():
    shown = {code.partition("=")[0] for code in first_cells(page("pipeline.md"), "Options")}
    assert shown == {field.name for field in attrs.fields(Options)}
    assert ALIASES.keys() <= set(re.findall(r"`(\w+)`", page("pipeline.md")))


def test_the_table_of_order_shows_real_settings_with_their_defaults():
    signature = inspect.signature(StaticMixtureWorkSource)
    for setting in first_cells(page("data.md"), "Order"):
        name, _, default = setting.partition("=")
        assert signature.parameters[name].default == eval(default)


def test_the_tables_of_batches_have_every_view_and_every_argument_of_to_training():
    text = page("batches.md")
    shown = " ".join(first_cells(text, "Views"))
    views = {name for name in dir(Batch) if not name.startswith("_")} - {"block", "facts", "filler", "to_training"}
    assert {name for name in views if f"batch.{name}" not in shown} == set()
    arguments = inspect.signature(Batch.to_training).parameters.keys() - {"self"}
    section = text.partition("## to_training")[2]
    assert {name for name in arguments if not re.search(rf"`{name}\b", section)} == set()


def test_the_map_has_every_layer_of_the_core_and_every_module_of_the_engine():
    text = page("architecture.md")
    source = ROOT / "zephon_core/src/zephon"
    layers = {path.name for path in source.iterdir() if (path / "__init__.py").is_file()}
    layers |= {path.stem for path in source.glob("*.py")} - {"__init__"}
    shown = text.partition("## Layers")[2].partition("## A run")[0]
    assert {name for name in layers if not re.search(rf"^(.* )?{name}\b", shown, re.MULTILINE)} == set()
    modules = {path.stem for path in (source / "engine").glob("*.py")} - {"__init__", "plugin"}
    assert modules <= set(re.findall(r"`(\w+)`", text))
    assert set(re.findall(r"`((?:\w+/)+\w+\.py)`", text)) <= {
        path.relative_to(source).as_posix() for path in source.rglob("*.py")
    }


def test_the_table_of_extension_points_has_every_point():
    assert first_cells(page("plugins/README.md"), "Plugins") == POINTS.keys()


def test_every_page_and_every_decision_is_listed_in_its_index():
    for index, pages in (
        (DOCS / "README.md", DOCS.glob("*.md")),
        (DOCS / "decisions/README.md", (DOCS / "decisions").glob("*.md")),
        (DOCS / "plugins/README.md", (DOCS / "plugins").glob("*.md")),
        (DOCS / "contracts/README.md", (DOCS / "contracts").glob("*.md")),
    ):
        listed = set(re.findall(r"\]\(([^)#]+)", index.read_text()))
        assert {path.name for path in pages} - {"README.md"} <= listed


@pytest.mark.parametrize("path", sorted((DOCS / "decisions").glob("0*.md")), ids=lambda p: p.stem)
def test_a_decision_has_its_number_and_its_three_parts(path):
    text = path.read_text()
    assert text.startswith(f"# {path.name[:4]}: ")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"]


def test_there_is_one_decision_to_a_number():
    numbers = [path.name[:4] for path in (DOCS / "decisions").glob("0*.md")]
    assert len(set(numbers)) == len(numbers)
