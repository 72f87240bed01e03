"""The table of distributions in the README: ``python tests/support/zephon_distributions.py`` writes it anew."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
_BEGIN = "<!-- distributions: written by tests/support/zephon_distributions.py -->\n"
_END = "<!-- end of distributions -->\n"


def project(folder: Path) -> dict[str, Any]:
    """The ``[project]`` table of a distribution."""
    table: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    return table


def table() -> str:
    """All first-party distributions: what they provide, whether ``zephon`` brings them along, their extras."""
    root = project(ROOT)
    default = {re.split(r"[^\w-]", requirement)[0] for requirement in root["dependencies"]}
    folders = [ROOT / "zephon_core", *sorted((ROOT / "plugins").glob("zephon-*"))]
    lines = ["| distribution | provides | default |", "|---|---|---|"]
    for folder in folders:
        mine = project(folder)
        extras = f"[{', '.join(mine['optional-dependencies'])}]" if "optional-dependencies" in mine else ""
        provided = {
            group.removeprefix("zephon.").rpartition(".")[0].replace("_", " "): ", ".join(f"`{name}`" for name in names)
            for group, names in mine.get("entry-points", {}).items()
        }
        provides = "; ".join(f"{point} {names}" for point, names in sorted(provided.items()))
        is_default = "yes" if mine["name"] in default else ""
        lines.append(f"| `{mine['name']}`{extras} | {provides} | {is_default} |")
    lines += ["", "| extra of `zephon` | installs |", "|---|---|"]
    for extra, requirements in root["optional-dependencies"].items():
        lines.append(f"| `zephon[{extra}]` | {', '.join(f'`{requirement}`' for requirement in requirements)} |")
    return "\n".join(lines) + "\n"


def written() -> str:
    """The table as the README has it."""
    return README.read_text(encoding="utf-8").partition(_BEGIN)[2].partition(_END)[0].strip("\n") + "\n"


def write() -> None:
    """Put the table into the README."""
    before, _, rest = README.read_text(encoding="utf-8").partition(_BEGIN)
    after = rest.partition(_END)[2]
    README.write_text(f"{before}{_BEGIN}\n{table()}\n{_END}{after}", encoding="utf-8")


if __name__ == "__main__":
    write()
