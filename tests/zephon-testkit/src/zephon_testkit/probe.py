"""Looks at a plugin from a fresh interpreter: what describing and importing it brings in, and what it leaves changed.

Run as ``python -m zephon_testkit.probe POINT NAME [MODULE ...]``; the modules named are made unimportable first. Prints
one JSON object. What the kit itself imports must not count, so this module uses the standard library only.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any


class Missing(MetaPathFinder):
    """Makes modules look as if they were not installed."""

    def __init__(self, roots: Sequence[str]) -> None:
        self._roots = roots

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        """Refuse the modules that are to be missing, pass over all others."""
        if fullname.partition(".")[0] in self._roots:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None


def surroundings() -> dict[str, Any]:
    """What an import has no business to change."""
    found: dict[str, Any] = {
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "working directory": os.getcwd(),
        "environment": dict(os.environ),
        "random state": hash(random.getstate()),
        "signal handlers": [str(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)],
    }
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        found["numpy random state"] = str(numpy.random.get_state())
    return found


def third_party(modules: Sequence[str]) -> list[str]:
    """Top-level names that are not of the standard library."""
    roots = {name.partition(".")[0] for name in modules}
    return sorted(root for root in roots if root not in sys.stdlib_module_names and not root.startswith("_"))


def look(point: str, name: str) -> dict[str, Any]:
    """Describe and load one plugin, and say what that did."""
    from zephon.errors import PluginError
    from zephon.plugins import registry

    before = set(sys.modules)
    found: dict[str, Any] = {}
    try:
        registry(point).describe(name)
    except PluginError as error:
        return {"error": str(error), "code": error.code, "fix": error.fix, "phase": "describe"}
    found["described"] = third_party(sorted(set(sys.modules) - before))
    found["described by zephon"] = sorted(module for module in sys.modules if module.startswith("zephon."))
    try:
        import numpy  # noqa: F401 - its state is compared, so it must be there before

        import zephon.abc  # noqa: F401 - whatever its imports do is none of the plugin's business

        calm = surroundings()
        registry(point).load(name)
    except PluginError as error:
        return {**found, "error": str(error), "code": error.code, "fix": error.fix, "phase": "load"}
    after = surroundings()
    found["changed"] = [key for key, value in calm.items() if after[key] != value]
    return found


def main() -> None:
    """Look at the plugin of the command line."""
    point, name, *missing = sys.argv[1:]
    if missing:
        sys.meta_path.insert(0, Missing(missing))
    out = sys.stdout
    sys.stdout = sys.stderr  # what a plugin prints is told apart from the result
    try:
        result = look(point, name)
    except BaseException:  # noqa: BLE001 - a plugin may raise anything; it is reported, not handled
        result = {"error": traceback.format_exc(), "code": "", "fix": "", "phase": "crash"}
    sys.stdout = out
    print(json.dumps(result))


if __name__ == "__main__":
    main()
