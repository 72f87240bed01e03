"""The error codes of the sources, found in their syntax trees.

A code reaches an error through an argument called ``code``: of the error itself, of a helper that makes it, or of a
small class that carries it. All of these are found by that name, so that a new helper needs no entry here.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Codes(NamedTuple):
    """What a search found.

    Attributes:
        known: for each code, the places that use it, as ``path:line``.
        unresolved: places whose code is computed in a way the search does not see through.
    """

    known: dict[str, list[str]]
    unresolved: list[str]


class _Taker(NamedTuple):
    """A function or class with an argument ``code``.

    Attributes:
        place: its position among the arguments, without ``self``; None if it can be given by name only.
        default: the code if none is given.
    """

    place: int | None
    default: ast.expr | None


def error_codes(roots: Iterable[Path]) -> Codes:
    """All codes below the directories given."""
    known: defaultdict[str, list[str]] = defaultdict(list)
    unresolved: list[str] = []
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for root in roots for path in sorted(root.rglob("*.py"))}
    own = {path: _takers(tree) for path, tree in trees.items()}
    public = {name: taker for found in own.values() for name, taker in found.items() if not name.startswith("_")}
    for path, tree in trees.items():
        imported = _imported(tree)
        takers = {**{name: public[name] for name in imported & public.keys()}, **own[path]}
        for node, function in _with_function(tree):
            for value in _code_values(node, takers, public, imported):
                where = f"{path}:{node.lineno}"
                found = _resolve(value, function)
                if found is None:
                    unresolved.append(where)
                for code in found or ():
                    known[code].append(where)
    return Codes(dict(known), unresolved)


def _imported(tree: ast.Module) -> set[str]:
    """Names a module has from elsewhere."""
    return {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }


def _takers(tree: ast.Module) -> dict[str, _Taker]:
    """What a module defines that takes a code, by name."""
    takers = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            fields = [n for n in node.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)]
            names = [field.target.id for field in fields]
            if "code" in names:
                place = names.index("code")
                takers[node.name] = _Taker(place, fields[place].value)
            for method in node.body:
                if isinstance(method, Function) and method.name == "__init__" and (taker := _taker(method)):
                    takers[node.name] = taker
        elif isinstance(node, Function) and node.name != "__init__" and (taker := _taker(node)):
            takers[node.name] = taker
    return takers


def _taker(function: Function) -> _Taker | None:
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    found = next((a for a in [*positional, *arguments.kwonlyargs] if a.arg == "code"), None)
    if found is None or (found.annotation is not None and ast.unparse(found.annotation) != "str"):
        return None  # e.g. the code of a character
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if argument is found:
            return _Taker(None, default)
    plain = [a.arg for a in positional]
    place = plain.index("code")
    from_end = len(plain) - place
    default = arguments.defaults[-from_end] if from_end <= len(arguments.defaults) else None
    return _Taker(place - (plain[0] in ("self", "cls")), default)


def _with_function(tree: ast.AST, function: Function | None = None) -> Iterator[tuple[ast.AST, Function | None]]:
    """Every node with the innermost function around it."""
    for child in ast.iter_child_nodes(tree):
        yield child, function
        yield from _with_function(child, child if isinstance(child, Function) else function)


def _code_values(
    node: ast.AST, takers: dict[str, _Taker], public: dict[str, _Taker], imported: set[str]
) -> list[ast.expr]:
    """The expressions this node uses as codes.

    Args:
        node: any node.
        takers: what can be called by its bare name here.
        public: what can be called as an attribute of an imported module.
        imported: names from elsewhere.
    """
    if isinstance(node, Function):
        taker = _taker(node)
        return [taker.default] if taker and taker.default else []
    if isinstance(node, ast.ClassDef):
        fields = [n for n in node.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)]
        return [field.value for field in fields if field.target.id == "code" and field.value is not None]
    if not isinstance(node, ast.Call):
        return []
    named = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
    if named:
        return named
    called = node.func
    taker = None
    if isinstance(called, ast.Name):
        taker = takers.get(called.id)
    elif isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id in imported:
        taker = public.get(called.attr)
    place = taker.place if taker is not None else None
    return [node.args[place]] if place is not None and place < len(node.args) else []


def _resolve(value: ast.expr, function: Function | None) -> list[str] | None:
    """The codes an expression can be; none for what is handed on; None for what cannot be told."""
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return [value.value]
    if isinstance(value, ast.Attribute) and value.attr == "code":
        return []  # of another error, or of what carries it: found where that was made
    if isinstance(value, ast.IfExp):
        both = [_resolve(branch, function) for branch in (value.body, value.orelse)]
        return None if None in both else [code for branch in both for code in branch or ()]
    if isinstance(value, ast.Name) and function is not None:
        if value.id == "code" and _taker(function):
            return []
        assigned = [
            node.value
            for node in ast.walk(function)
            if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == value.id for t in node.targets)
        ]
        found = [_resolve(expression, None) for expression in assigned]
        return None if not found or None in found else [code for codes in found for code in codes or ()]
    return None
