"""``zephon new-plugin``: start a distribution that passes the kit before it is edited.

Asks for what the command line does not say, refuses names that would get in somebody's way, and renders the template.
"""

from __future__ import annotations

import argparse
import difflib
import json
import keyword
import re
import shlex
import tempfile
from collections.abc import Callable
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, Final

import attrs

from zephon import Pipeline
from zephon.errors import ConfigError, PluginError, ZephonError
from zephon.plugins import StorageDescriptor, registry
from zephon_testkit.shipped import shipped

_USAGE: Final = "zephon new-plugin --kind KIND --name NAME"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    kinds = ", ".join(Template.shipped().kinds)
    parser.add_argument("--kind", help=f"one of {kinds}")
    parser.add_argument("--name", help="the name users will write: lower-case letters, digits and underscores")
    parser.add_argument("--author", help="who it is by (default: the authors of the distribution)")
    parser.add_argument("--output", metavar="DIR", default=".", help="folder to make it in (default: this one)")
    parser.add_argument("--no-input", action="store_true", help="ask nothing; --kind and --name are then needed")


def run(args: argparse.Namespace) -> int:
    """Ask, check, render, and say how to go on."""
    render = _renderer()
    template = Template.shipped()
    output = Path(args.output)
    if args.no_input and not (args.kind and args.name):
        raise _usage("nothing may be asked, and not everything is said", "--no-input needs --kind and --name")
    kind = template.kind(args.kind) if args.kind else _ask(template.question(), template.kind)

    def name_of(text: str) -> str:
        return template.name(text, kind, output)

    name = name_of(args.name) if args.name else _ask(f"{template.prompts['name']}: ", name_of)
    standard = f"The authors of {_distribution(name)}"
    if args.author is not None or args.no_input:
        author = _author(standard if args.author is None else args.author)
    else:
        author = _ask(f"{template.prompts['author']} [{standard}]: ", lambda text: _author(text or standard))
    folder = _rendered(render, template, {"kind": kind, "name": name, "author": author}, output)
    print(_next_steps(folder, template.points[kind], name))
    return 0


@attrs.frozen(slots=True)
class Template:
    """What ``cookiecutter.json`` says.

    Attributes:
        folder: where the template is.
        kinds: what there is to choose from.
        points: the extension point of each kind.
        prompts: the questions.
        pattern: regular expression of a name.
    """

    folder: Path
    kinds: list[str]
    points: dict[str, str]
    prompts: dict[str, Any]
    pattern: str

    @staticmethod
    def shipped() -> Template:
        """The one this kit carries."""
        folder = shipped("cookiecutter")
        content = json.loads((folder / "cookiecutter.json").read_text(encoding="utf-8"))
        return Template(folder, content["kind"], content["_points"], content["__prompts__"], content["_name"])

    def question(self) -> str:
        """The kinds with their numbers."""
        texts = self.prompts["kind"]
        lines = [f"  {number}  {texts[kind]}" for number, kind in enumerate(self.kinds, start=1)]
        return "\n".join([texts["__prompt__"], *lines, f"Number or word (1-{len(self.kinds)}): "])

    def kind(self, text: str) -> str:
        """The kind somebody means by a number or a word.

        Raises:
            ConfigError: ``new-plugin-usage``.
        """
        word = text.strip().lower().replace("_", "-")
        if word in self.kinds:
            return word
        if word.isdecimal() and 1 <= int(word) <= len(self.kinds):
            return self.kinds[int(word) - 1]
        near = difflib.get_close_matches(word, self.kinds, n=1)
        kinds = f"the kinds are {', '.join(self.kinds)}"
        raise _usage(f"there is no kind {text!r}", f"{kinds}; did you mean {near[0]}?" if near else kinds)

    def name(self, text: str, kind: str, output: Path) -> str:
        """The name, if it can be used.

        Args:
            text: what somebody wrote.
            kind: what it is to be a name of.
            output: where the distribution's folder is to be made.

        Raises:
            ConfigError: ``new-plugin-name``, ``new-plugin-taken``.
        """
        name = text.strip()
        # test_conformance.py is the kit's, and test_<name>.py the example's.
        if not re.fullmatch(self.pattern, name) or keyword.iskeyword(name) or name == "conformance":
            raise ConfigError(
                f"{text!r} cannot be the name of a plugin",
                found="expected 2 to 32 lower-case letters, digits and single underscores, and no word of Python",
                fix=f"zephon new-plugin --kind {kind} --name my_{kind.replace('-', '_')}",
                code="new-plugin-name",
            )
        claimed = _claimed(self.points[kind], name, output / _distribution(name))
        if claimed:
            raise ConfigError(
                f"the name {name!r} is taken",
                found=claimed,
                fix=f"zephon new-plugin --kind {kind} --name ANOTHER",
                code="new-plugin-taken",
            )
        return name


def _claimed(point: str, name: str, folder: Path) -> str:
    """Who has the name already; "" if nobody has."""
    if name in registry(point).names():
        return f"{point}:{name} is installed, by {registry(point).requirement(name).distribution}"
    if point == "operator" and hasattr(Pipeline, name):
        return f"every Pipeline has a method {name}()"
    if point == "storage":
        for other, descriptor in registry(point).descriptors().items():
            if isinstance(descriptor, StorageDescriptor) and name.replace("_", "-") in descriptor.schemes:
                return f"storage:{other} reads the URL scheme {name.replace('_', '-')}://"
    if any(_distribution(name) == found.name for found in metadata.distributions()):
        return f"a distribution {_distribution(name)} is installed"
    return f"{folder} is there" if folder.exists() else ""


def _distribution(name: str) -> str:
    return f"zephon-{name.replace('_', '-')}"


def _author(text: str) -> str:
    """The author, if it can stand in every file of the template.

    Raises:
        ConfigError: ``new-plugin-usage``.
    """
    author = text.strip()
    if not author or not author.isprintable() or "{" in author:
        raise _usage("this cannot be the author", f"{text!r}; expected a name, without line breaks and braces")
    return author


def _ask(question: str, accept: Callable[[str], str]) -> str:
    """Ask until the answer is accepted.

    Raises:
        ConfigError: ``new-plugin-usage``, nobody answers.
    """
    while True:
        try:
            answer = input(question)
        except EOFError:
            raise _usage("there is nobody to ask", "the standard input has ended") from None
        try:
            return accept(answer)
        except ConfigError as error:
            print(f"{error.what}: {error.found}")


def _renderer() -> Callable[..., str]:
    """The function of the rendering library.

    Raises:
        PluginError: ``new-plugin-needs-cookiecutter``.
    """
    try:
        render: Callable[..., str] = import_module("cookiecutter.main").cookiecutter
    except ModuleNotFoundError as error:
        needs = [need for need in metadata.requires("zephon-testkit") or () if need.startswith("cookiecutter")]
        raise PluginError(
            "new-plugin renders a template with cookiecutter, which is not installed",
            found=f"no module {error.name}; it comes with the extra zephon-testkit[new-plugin]",
            fix=" ".join(["pip install", *(shlex.quote(need.partition(";")[0].strip()) for need in needs)]),
            code="new-plugin-needs-cookiecutter",
        ) from error
    return render


def _rendered(render: Callable[..., str], template: Template, answers: dict[str, str], output: Path) -> Path:
    try:
        output.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="zephon-new-plugin-") as scratch:
            # The library would read a file of the user's home, and keep the answers there.
            settings = Path(scratch) / "settings.yaml"
            settings.write_text(json.dumps({"replay_dir": scratch, "cookiecutters_dir": scratch}), encoding="utf-8")
            folder = render(
                str(template.folder),
                no_input=True,
                extra_context=answers,
                output_dir=str(output),
                config_file=str(settings),
                accept_hooks=False,  # the hook checks what has been checked here
            )
    except OSError as error:
        raise _usage(f"nothing can be written to {output}", str(error.strerror)) from error
    return Path(folder)


def _next_steps(folder: Path, point: str, name: str) -> str:
    return f"""\
{folder} is a plugin that works: {point}:{name}

To see it pass:
  cd {shlex.quote(str(folder))}
  pip install --editable ".[dev]"
  pytest
  zephon conformance run {point}:{name}

Then make it yours, beginning with src/zephon_{name}/{point}.py; README.md says what every file is for."""


def _usage(what: str, found: str) -> ZephonError:
    return ConfigError(what, found=found, fix=_USAGE, code="new-plugin-usage")
