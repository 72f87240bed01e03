"""What every plugin must do whatever its kind: be found, be light, be described, be honest about what it needs."""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

from zephon import abc as contracts
from zephon.plugins import POINTS, status
from zephon_testkit.clauses import clause
from zephon_testkit.incomplete import Incomplete
from zephon_testkit.suite import Suite

#: Modules of Zephon a plugin may import; the last part of design 10.
PUBLIC: Final = ("abc", "block", "random", "plugins", "spec", "errors")

_HEAVY: Final = re.compile(r"zephon\.(abc|batch|block|checkpoint|engine|io|work)\b")

#: Optional abilities each contract knows.
CAPABILITIES: Final[Mapping[str, frozenset[str]]] = {
    "shard_format": frozenset({"ranges", "predicate", "write"}),
    "storage": frozenset({"local_path", "write"}),
    "runner": frozenset({"hosts", "reports_workers"}),
    "tokenizer": frozenset({"train"}),
}

#: The class of :mod:`zephon.abc` an implementation derives from.
CONTRACTS: Final[Mapping[str, type]] = {
    "shard_format": contracts.ShardFormat,
    "storage": contracts.StorageBackend,
    "operator": contracts.Operator,
    "runner": contracts.Runner,
    "work_source": contracts.WorkSource,
    "tokenizer": contracts.TokenizerBackend,
    "checkpoint_store": contracts.CheckpointStore,
}


class Home(NamedTuple):
    """Where a plugin comes from."""

    distribution: metadata.Distribution
    entry: metadata.EntryPoint
    package: Path

    @property
    def name(self) -> str:
        """The distribution's name."""
        return str(self.distribution.metadata["Name"])


class PluginTests(Suite):
    """The packaging clauses; every other suite inherits them. On its own it checks plugins of the point ``hooks``."""

    point: ClassVar[str] = "hooks"

    @clause("PK-1")
    def test_the_entry_point_leads_to_a_descriptor_of_its_name(self) -> None:
        """If this fails, look at the entry point in your pyproject: its group is ``zephon.<point>.v<major>``, its name
        that of the descriptor it leads to, and no other installed distribution may claim the same name.

        Install your distribution (``pip install -e .``) again after you change an entry point.
        """
        home = self.home()
        [found] = [s for s in status() if s.address == self.address() and s.distribution == home.name]
        assert found.status == "ok"
        assert found.contract == POINTS[self.point]

    @clause("PK-2")
    def test_describing_it_imports_nothing_that_is_heavy(self) -> None:
        """If this fails, the module with your descriptor, or the ``__init__`` of its package, imports more than
        ``zephon.plugins``. Every ``zephon plugins`` and every completion of a method name would pay for it.

        Move the import into the module of the implementation, which is named in ``impl=`` and imported when used.
        """
        found = _probe(self.point, self.plugin)
        own = self.home().package.name
        surplus = [root for root in found.get("described", []) if root not in {"attr", "attrs", "zephon", own}]
        assert not surplus, f"describing it imports {', '.join(surplus)}"
        entry = self.home().entry.module
        light = {".".join(entry.split(".")[:n]) for n in range(1, entry.count(".") + 2)}  # where the core keeps its own
        heavy = [m for m in found.get("described by zephon", []) if m not in light and _HEAVY.match(m)]
        assert not heavy, f"describing it imports {', '.join(heavy)}"

    @clause("PK-3")
    def test_the_implementation_is_of_the_contract_and_complete(self) -> None:
        """If this fails, ``impl=`` leads to something else than a class derived from the contract in ``zephon.abc``, or
        the class lacks a method the contract demands.
        """
        self.home()
        found = _probe(self.point, self.plugin)
        if found.get("code") == "plugin-broken" and self.descriptor().requires and "pip install" in found["fix"]:
            raise Incomplete(f"{self.address()} needs what is not installed here: {found['fix']}")
        assert "error" not in found, found["error"]
        if self.point == "hooks":
            return
        implementation = self.implementation()
        contract = CONTRACTS[self.point]
        assert isinstance(implementation, type), f"{implementation!r} is no class"
        assert issubclass(implementation, contract), f"{implementation.__name__} is no {contract.__name__}"
        if self.point == "operator":
            assert issubclass(implementation, (contracts.RowOperator, contracts.LaneOperator))
        lacking = sorted(getattr(implementation, "__abstractmethods__", ()))
        assert not lacking, f"{implementation.__name__} lacks {', '.join(lacking)}"

    @clause("PK-4")
    def test_the_package_tells_type_checkers_that_it_is_typed(self) -> None:
        """If this fails, put an empty file ``py.typed`` beside the ``__init__`` of your package, and see to it that
        your build backend packs it.
        """
        assert (self.home().package / "py.typed").is_file()

    @clause("PK-5")
    def test_methods_take_what_the_contract_says(self) -> None:
        """If this fails, a method has parameters that the core does not pass, or lacks some that it does, or gives them
        other names. More parameters are fine where they have defaults.
        """
        if self.point == "hooks":
            return
        contract, implementation = CONTRACTS[self.point], self.implementation()
        for base in (contract, contracts.RowOperator, contracts.LaneOperator):
            if issubclass(implementation, base):
                for name, method in vars(base).items():
                    if inspect.isfunction(method) and not name.startswith("_"):
                        _check_signature(f"{implementation.__name__}.{name}", getattr(implementation, name), method)

    @clause("PK-6")
    def test_only_public_modules_of_zephon_are_imported(self) -> None:
        """If this fails, your code leans on a part of Zephon that may change with any release.

        A plugin needs ``zephon.abc``, ``block``, ``random``, ``plugins``, ``spec`` and ``errors``; storage, retries and
        caches reach it through the context it is handed.
        """
        if self.home().package.name == "zephon":
            return  # the core's own plugins may use the core
        private = sorted(
            {f"{path.name}:{line} {module}" for path, line, module in self._imports() if not _is_public(module)}
        )
        assert not private, f"not public: {'; '.join(private)}"

    @clause("PK-7")
    def test_every_library_imported_is_a_declared_dependency(self) -> None:
        """If this fails, your code imports a library that ``pip install`` of your distribution does not bring along.

        Add it to ``dependencies``; or, if it comes with an extra, to the extra and to ``requires=`` of the descriptor.
        """
        home = self.home()
        declared = {_normal(re.split(r"[^\w.-]", need)[0]) for need in home.distribution.requires or ()}
        declared |= {_normal(need) for need in self.descriptor().requires}
        providers = _providers()
        undeclared = set()
        for _, _, module in self._imports():
            root = module.partition(".")[0]
            if root in sys.stdlib_module_names or root in {home.package.name, "zephon"}:
                continue
            if not {_normal(name) for name in providers.get(root, [root])} & declared:
                undeclared.add(root)
        assert not undeclared, f"imported, not declared: {', '.join(sorted(undeclared))}"

    @clause("PK-8")
    def test_a_missing_optional_library_is_named_with_the_line_that_installs_it(self) -> None:
        """If this fails, either ``requires=`` names a distribution that the implementation works without, or importing
        the implementation without it raises something else than ``ModuleNotFoundError``, which the core turns into the
        line to paste. Import optional libraries at the top of the implementation's module.
        """
        requires = self.descriptor().requires
        providers = _providers()
        for need in requires:
            roots = [root for root, names in providers.items() if _normal(need) in map(_normal, names)]
            found = _probe(self.point, self.plugin, *(roots or [need.replace("-", "_")]))
            assert found.get("phase") == "load", f"without {need}: {found.get('error', 'it loads all the same')}"
            assert found["code"] == "plugin-broken"
            assert f"pip install {' '.join(requires)}" in found["fix"]

    @clause("PK-9")
    def test_it_says_what_it_is(self) -> None:
        """If this fails, write a summary of one line without a full stop into the descriptor (``zephon plugins`` shows
        it), and a docstring on the implementation (it becomes the documentation of ``Pipeline``'s method).
        """
        summary = self.descriptor().summary
        assert "\n" not in summary, "the summary has several lines"
        assert not summary.endswith("."), "the summary ends with a full stop"
        assert (getattr(self.implementation(), "__doc__", None) or "").strip(), "the implementation has no docstring"

    @clause("PK-10")
    def test_it_declares_only_capabilities_the_contract_knows(self) -> None:
        """If this fails, a capability is misspelt: nobody would ever ask for it."""
        unknown = set(self.descriptor().capabilities) - CAPABILITIES.get(self.point, frozenset())
        assert not unknown, f"the contract of {self.point} knows no {', '.join(sorted(unknown))}"

    @clause("PK-11")
    def test_importing_it_changes_nothing_around_it(self) -> None:
        """If this fails, importing your plugin starts a thread, seeds a global generator, changes the environment, the
        working directory or a signal handler, prints, or warns. Do such things where they are needed, or not at all.
        """
        found = _probe(self.point, self.plugin)
        if found.get("phase"):
            raise Incomplete(f"{self.address()} cannot be imported: {found['error']}")
        assert not found["changed"], f"changed: {', '.join(found['changed'])}"
        assert not found["printed"], f"printed: {found['printed']}"

    def home(self) -> Home:
        """Where the plugin comes from.

        Raises:
            Incomplete: no installed distribution claims the name.
        """
        group = f"zephon.{self.point}.v{POINTS[self.point]}"
        for entry in metadata.entry_points(group=group, name=self.plugin):
            if entry.dist is not None:
                package = import_module(entry.module.partition(".")[0])
                return Home(entry.dist, entry, Path(inspect.getfile(package)).parent)
        raise Incomplete(f"no installed distribution has an entry point {self.plugin!r} in the group {group!r}")

    def _imports(self) -> Iterator[tuple[Path, int, str]]:
        """Every import in the sources of the package, unless it is for type checkers only: file, line, module."""
        for path in sorted(self.home().package.rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            skipped = {id(child) for node in ast.walk(tree) if _is_type_checking(node) for child in ast.walk(node)}
            for node in ast.walk(tree):
                if id(node) in skipped:
                    continue
                if isinstance(node, ast.Import):
                    yield from ((path, node.lineno, alias.name) for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    # `from zephon import io` imports zephon.io
                    names = [f"zephon.{a.name}" for a in node.names] if node.module == "zephon" else [node.module]
                    yield from ((path, node.lineno, name) for name in names)


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def _is_public(module: str) -> bool:
    parts = module.split(".")
    if parts[0] != "zephon":
        return True
    return len(parts) > 1 and parts[1] in (*PUBLIC, "__version__") and not any(p.startswith("_") for p in parts[2:])


def _normal(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def _check_signature(label: str, offered: Any, contract: Any) -> None:
    mine = [p for p in inspect.signature(offered).parameters.values() if p.name != "self"]
    wanted = [p for p in inspect.signature(contract).parameters.values() if p.name != "self"]
    if any(p.kind is p.VAR_POSITIONAL for p in mine) and any(p.kind is p.VAR_KEYWORD for p in mine):
        return
    names = [p.name for p in wanted]
    # What has a default may stand between an argument by name and **options, where those are part of the contract.
    named = [p.name for p in mine if p.name in names or p.default is p.empty]
    extra = [p for p in mine if p.name not in names]
    optional = all(p.default is not p.empty or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in extra)
    taken = [p.name for p in mine if p.name in names]
    says = f"{label} takes ({', '.join(p.name for p in mine)}), not {inspect.signature(contract)}"
    assert taken == names, says
    assert optional, f"{says}: the core does not pass {', '.join(set(named) - set(names))}"
    positional = [p.name for p in mine if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    first = [p.name for p in wanted if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    assert positional[: len(first)] == first, says


@cache
def _providers() -> Mapping[str, list[str]]:
    """Distributions by the packages they install; looks at the files of all of them."""
    return metadata.packages_distributions()


@cache
def _probe(point: str, plugin: str, *missing: str) -> dict[str, Any]:
    """What a fresh interpreter sees of the plugin, with what it printed under ``printed``."""
    command = [sys.executable, "-m", "zephon_testkit.probe", point, plugin, *missing]
    path = os.pathsep.join(entry for entry in sys.path if entry)
    env = {**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "default"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        return {"error": "importing it took over two minutes", "code": "", "fix": "", "phase": "crash"}
    lines = done.stdout.splitlines()
    if not lines:
        ending = f"the interpreter that imports it ended with status {done.returncode}\n{done.stderr}"
        return {"error": ending, "code": "", "fix": "", "phase": "crash"}
    found: dict[str, Any] = json.loads(lines[-1])
    found["printed"] = done.stderr.strip()
    return found
