"""Where the files lie that the kit's wheel carries beside its code: the pages of the contracts and the template."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_HERE: Final = Path(__file__).resolve().parent

#: Folder in the wheel -> where a source tree keeps it.
_IN_THE_TREE: Final = {"contracts": "docs/contracts", "cookiecutter": "cookiecutter"}


def shipped(folder: str) -> Path:
    """A folder the wheel carries; of an editable installation, the one in the source tree.

    Args:
        folder: ``"contracts"`` or ``"cookiecutter"``.
    """
    packed = _HERE / folder
    # <root>/tests/zephon-testkit/src/zephon_testkit
    return packed if packed.is_dir() else _HERE.parents[3] / _IN_THE_TREE[folder]
