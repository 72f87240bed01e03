"""``zephon stubs``: the types of ``Pipeline`` with every operator as a method, for type checkers and editors.

At run time an operator becomes a method when it is first used. Type checkers run nothing, so ``_pipeline.pyi`` spells
the methods out: signature and documentation are those of the operators themselves, the options those of ``Options``.
The file of this repository holds the first-party operators; ``zephon stubs write`` makes it hold whatever is installed.
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
import textwrap
import types
import typing
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, get_args, get_origin, get_type_hints

import attrs

from zephon._builder import PipelineBase
from zephon.engine.options import ALIASES, Options
from zephon.errors import ConfigError, PluginError
from zephon.plugins import registry
from zephon.plugins.known import KNOWN

#: The stub that stands beside ``_pipeline.py``.
STUB: Final = Path(__file__).parents[1] / "_pipeline.pyi"

_HEADER: Final = '''\
"""``Pipeline`` for type checkers. Written by ``zephon stubs write``; do not edit.

What is common to all pipelines is in :mod:`zephon._builder`; here are the options and the operators.
"""

# fmt: off
# ruff: noqa
'''

_CLASS: Final = """
__all__ = ["Pipeline"]

class _OperatorsAsMethods(type): ...

class Pipeline(PipelineBase, metaclass=_OperatorsAsMethods):
    def options(  # type: ignore[override]  # names the options that **settings takes
{options}
    ) -> Self:
{options_doc}
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    write = actions.add_parser("write", help="write the methods of Pipeline for type checkers")
    write.add_argument("--output", type=Path, default=STUB, help="file to write (default: beside zephon/_pipeline.py)")
    write.add_argument("--first-party", action="store_true", help="only the operators this project provides")
    write.add_argument("--check", action="store_true", help="write nothing; status 1 if the file is out of date")


def run(args: argparse.Namespace) -> int:
    """Write or compare the stub."""
    text = stub(first_party=args.first_party)
    if args.check:
        if args.output.is_file() and args.output.read_text(encoding="utf-8") == text:
            return 0
        print(f"{args.output} is out of date: run zephon stubs write", file=sys.stderr)
        return 1
    try:
        args.output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            "the types of Pipeline cannot be written",
            found=f"{args.output}: {error.strerror}",
            fix="name a file that can be written: zephon stubs write --output FILE",
            code="stubs-unwritable",
        ) from error
    print(args.output)
    return 0


def stub(*, first_party: bool = False) -> str:
    """The text of the stub. An operator that cannot be imported is left out with a ``RuntimeWarning``.

    Args:
        first_party: leave out the operators of other people's plugins.
    """
    operators = registry("operator")
    types_ = _Types()
    methods = []
    for name in operators.names():
        ours = name in KNOWN["operator"]
        if (first_party and not ours) or hasattr(PipelineBase, name):
            continue
        try:
            methods.append(_method(name, operators.load(name), types_, foreign=not ours))
        except PluginError as error:
            warnings.warn(f"operator {name} is left out\n{error}", RuntimeWarning, stacklevel=2)
    options = _CLASS.format(
        options=textwrap.indent(_options(types_), " " * 8),
        options_doc=_docstring(inspect.getdoc(Options) or ""),
    )
    imports = "\n".join(types_.imports())
    return "\n".join([_HEADER + imports, options.rstrip("\n"), *methods]) + "\n"


def _options(types_: _Types) -> str:
    """The arguments of ``options``: none has a default, as what is not given stays as it is."""
    annotations = _annotations(Options)
    lines = ["self,", "*,"]
    names = {field.name: annotations[field.name] for field in attrs.fields(Options)}
    names |= {alias: annotations[name] for alias, name in ALIASES.items()}
    lines += [f"{name}: {types_.text(hint)} = ..." for name, hint in names.items()]
    return "\n".join(line if line.endswith(",") else f"{line}," for line in lines)


def _method(name: str, cls: type, types_: _Types, *, foreign: bool) -> str:
    annotations = _annotations(cls)
    lines = ["self,"]
    keyword_only = False
    for parameter in inspect.signature(cls).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            lines.append("*,")
            keyword_only = True
        lines.append(f"{_parameter(parameter, types_.text(annotations.get(parameter.name, Any), foreign=foreign))},")
    arguments = textwrap.indent("\n".join(lines), " " * 8)
    return f"\n    def {name}(\n{arguments}\n    ) -> Self:\n{_docstring(inspect.getdoc(cls) or '')}"


def _parameter(parameter: inspect.Parameter, annotation: str) -> str:
    default = parameter.default
    if default is parameter.empty:
        shown = ""
    elif default is None or type(default) in (bool, int, float, str):
        shown = f" = {_literal(default)}"
    else:
        shown = " = ..."
    star = (
        "*" if parameter.kind is parameter.VAR_POSITIONAL else "**" if parameter.kind is parameter.VAR_KEYWORD else ""
    )
    return f"{star}{parameter.name}: {annotation}{shown}"


def _literal(value: object) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _docstring(text: str) -> str:
    quote = 'r"""' if "\\" in text else '"""'
    body = text if "\n" not in text else f"{text}\n"
    return textwrap.indent(f'{quote}{body}"""', " " * 8)


def _annotations(cls: type) -> Mapping[str, Any]:
    """What each argument of a class takes: of a field with a converter, what the converter takes."""
    if not attrs.has(cls):
        return _hints(cls.__init__)  # type: ignore[misc]  # of this very class, whatever subclasses do
    hints = _hints(cls)
    found = {}
    for field in attrs.fields(cls):
        converter = getattr(field.converter, "converter", field.converter)  # unwraps an attrs.Converter
        found[field.alias] = _argument(converter) if converter is not None else hints.get(field.name, Any)
    return found


def _argument(converter: Callable[..., Any]) -> Any:
    """What a converter takes; Any where it does not say."""
    try:
        first = next(iter(inspect.signature(converter).parameters))
    except (ValueError, StopIteration):
        return Any
    return _hints(converter).get(first, Any)


def _hints(annotated: Any) -> Mapping[str, Any]:
    try:
        return get_type_hints(annotated)
    except (NameError, TypeError):  # a name that is imported for type checkers only
        return {}


class _Types:
    """Types as text, and the imports the text needs."""

    def __init__(self) -> None:
        self._names: dict[str, set[str]] = {"typing": {"Self"}, "zephon._builder": {"PipelineBase"}}
        self._modules: dict[str, str] = {}

    def imports(self) -> Iterator[str]:
        """One line each."""
        yield from (f"import {module} as {name}" for name, module in sorted(self._modules.items()))
        yield from (f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(self._names.items()))

    def text(self, hint: Any, *, foreign: bool = True) -> str:
        """A type as an annotation.

        Args:
            hint: the type.
            foreign: keep types that belong to a plugin. Without, they are left out of unions and are Any elsewhere:
                the stub of the core imports no plugin.
        """
        origin, arguments = get_origin(hint), get_args(hint)
        if origin in (typing.Union, types.UnionType):
            kept = [part for part in arguments if foreign or not _of_plugin(part)]
            return " | ".join(dict.fromkeys(self.text(part, foreign=foreign) for part in kept))
        if origin is typing.Literal:
            return f"{self._named('typing', 'Literal')}[{', '.join(map(_literal, arguments))}]"
        if hint is Any or isinstance(hint, typing.TypeVar) or (not foreign and _of_plugin(hint)):
            return self._named("typing", "Any")
        if hint is None or hint is type(None):
            return "None"
        if hint is Ellipsis:
            return "..."
        if isinstance(hint, list):
            return f"[{', '.join(self.text(part, foreign=foreign) for part in hint)}]"
        if origin is not None:
            return f"{self._class(origin)}[{', '.join(self.text(part, foreign=foreign) for part in arguments)}]"
        return self._class(hint)

    def _class(self, cls: type) -> str:
        if cls.__module__ == "builtins":
            return cls.__name__
        if cls.__module__.startswith("pyarrow"):
            # Its classes live in private modules under public names.
            for short, module in (("pa", "pyarrow"), ("pc", "pyarrow.compute")):
                if getattr(sys.modules.get(module), cls.__name__, None) is cls:
                    self._modules[short] = module
                    return f"{short}.{cls.__name__}"
        return self._named(cls.__module__, cls.__qualname__)

    def _named(self, module: str, name: str) -> str:
        self._names.setdefault(module, set()).add(name.partition(".")[0])
        return name


def _of_plugin(hint: Any) -> bool:
    """Whether a class is defined by a plugin, rather than by the core or by what the core stands on."""
    if not isinstance(hint, type):
        return False
    root = hint.__module__.partition(".")[0]
    return root not in {"zephon", "numpy", "pyarrow", "attrs", *sys.stdlib_module_names, "builtins"}
