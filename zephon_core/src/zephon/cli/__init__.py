"""The command line ``zephon``.

One module a command, imported when the command is used. Errors of ours end with their three lines and exit status 1;
what a command finds wrong (``verify``, ``demo``) is exit status 1 as well; bad usage is 2.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final

from zephon import __version__
from zephon.errors import ZephonError

#: Command -> its one-line help; the module is zephon.cli.<command> (``-`` written ``_``) with ``configure(parser)`` and
#: ``run(args)``.
COMMANDS: Final = {
    "demo": "real text through a run that is killed and resumed on other numbers of groups",
    "plugins": "what is installed, and whether it works",
    "index": "build or check the index of a dataset",
    "cache": "what a shard cache holds; make it smaller; check it",
    "inspect": "show rows of a dataset or batches of a recipe",
    "explain": "the compiled plan of a recipe",
    "verify": "run a recipe under several topologies, runners and restarts and compare every round",
    "checkpoint": "look into a checkpoint",
    "doctor": "machine, plugins, environment and data at a glance, to paste into an issue",
    "conformance": "check an installed plugin against its contract, clause by clause",
    "new-plugin": "start a plugin distribution from the template",
    "stubs": "write the types of Pipeline, with every installed operator as a method",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    parser = argparse.ArgumentParser(prog="zephon", description="Elastically deterministic data loading.")
    parser.add_argument("--version", action="version", version=f"zephon {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    arguments = list(sys.argv[1:] if argv is None else argv)
    used = next((argument for argument in arguments if argument in COMMANDS), None)
    try:
        for command, summary in COMMANDS.items():
            sub = subparsers.add_parser(command, help=summary, description=summary)
            if command == used:  # only the command in use is imported
                _module(command).configure(sub)
        args = parser.parse_args(arguments)
        run: Callable[[argparse.Namespace], int] = _module(args.command).run
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            return run(args)
    except ZephonError as error:
        print(error, file=sys.stderr)
        return 1
    except BrokenPipeError:  # e.g. `zephon inspect ... | head`
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        return 130


def _module(command: str) -> Any:
    return import_module(f"zephon.cli.{command.replace('-', '_')}")


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """One line for people: where in our code it was raised is of no use to them."""
    print(f"warning: {message}", file=sys.stderr)
