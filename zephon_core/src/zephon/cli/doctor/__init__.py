"""``zephon doctor``: what this machine, this environment and this data look like to Zephon; to paste into an issue.

Nothing is changed and no index is built. Values of environment variables are shown for a list of names that hold no
secret, URLs lose userinfo and query, and whatever looks like a secret of the environment is taken out of the whole
report before it is printed.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from zephon.cli.doctor.data import look_at
from zephon.cli.doctor.hardware import machine
from zephon.cli.doctor.secrets import scrubbed
from zephon.cli.doctor.software import cache, distributions, observers, plugins
from zephon.cli.doctor.surroundings import environment, identity

#: Below these, something is likely to fail: bytes of shared memory and temporary space, and open files.
LITTLE_SHM = 256 << 20
LITTLE_TEMP = 1 << 30
FEW_FILES = 1024


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("path", nargs="*", help="data to look at: directory, glob, file or URL; or a recipe (.toml)")
    parser.add_argument("--json", action="store_true", help="print one object")


def run(args: argparse.Namespace) -> int:
    """Print the report; status 1 if something is broken."""
    report = scrubbed(examine(args.path))
    print(json.dumps(report, indent=2) if args.json else as_text(report))
    return int(bool(report["problems"]))


def examine(paths: list[str]) -> dict[str, Any]:
    """The report as plain data; ``problems`` is what is broken, ``warnings`` is what may be."""
    report: dict[str, Any] = {
        "machine": machine(),
        "distributions": distributions(),
        "plugins": plugins(),
        "cache": cache(),
        "hooks": observers(),
        "environment": environment(),
        "identity": identity(),
        "data": [found for path in paths for found in look_at(path)],
    }
    report["problems"] = _problems(report)
    report["warnings"] = _warnings(report)
    return report


def _problems(report: dict[str, Any]) -> list[str]:
    found = [f"plugin {p['plugin']}: {p['status']}" for p in report["plugins"] if p["status"] != "ok"]
    found += [f"{data['path']}: {data['error']}" for data in report["data"] if data["error"]]
    found += [error for error in (report["machine"]["cpus"]["error"], report["hooks"]["error"]) if error]
    return found


def _warnings(report: dict[str, Any]) -> list[str]:
    here, found = report["machine"], []
    if not report["identity"]["known"]:
        found.append(f"every rank would read the same data: {report['identity']['source']}")
    if 0 <= here["shm"]["total"] < LITTLE_SHM:
        found.append("there is little shared memory, which some frameworks need: start the container with --shm-size")
    if 0 <= here["files"]["limit"] < FEW_FILES:
        found.append("few files may be open at once; raise it with ulimit -n")
    if 0 <= here["temp"]["free"] < LITTLE_TEMP:
        found.append(f"little space is left in {here['temp']['path']}")
    if not report["cache"]["writable"]:
        found.append("indexes of data that cannot be written to are built anew by every run: set ZEPHON_CACHE_DIR")
    return found


def as_text(report: dict[str, Any]) -> str:
    """The report for people."""
    here = report["machine"]
    cpus, memory, shm, files = here["cpus"], here["memory"], here["shm"], here["files"]
    lines = ["machine", f"  {here['system']}, Python {here['python']}"]
    usable = _or(cpus["usable"], "unknown")
    lines.append(
        f"  CPUs: {cpus['machine']} of the machine, {cpus['affinity']} to be placed on, "
        f"quota {_or(cpus['quota'], 'none')}, ranks here {cpus['local_ranks']}: {usable} for this one"
    )
    lines.append(
        f"  memory: {_size(memory['available'])} available of {_size(memory['total'])}, "
        f"control group {_size(memory['cgroup_limit'], 'without a limit')}; memory_limit is "
        f"{_size(memory['default_limit'])} unless set"
    )
    lines.append(f"  /dev/shm: {_size(shm['free'])} free of {_size(shm['total'])}")
    lines.append(f"  open files: {_or(files['open'], 'unknown')} of {_or(files['limit'], 'unlimited')}")
    lines.append(
        f"  temporary files: {here['temp']['path']}, {_size(here['temp']['free'])} free; umask {here['umask']}"
    )
    lines += ["", "distributions", *(f"  {name} {version}" for name, version in report["distributions"].items())]
    good = [p["plugin"] for p in report["plugins"] if p["status"] == "ok"]
    lines += ["", "plugins", f"  ok: {', '.join(good)}"]
    lines += [
        f"  {p['plugin']} ({p['distribution']} {p['version']}): {p['status']}"
        for p in report["plugins"]
        if p["status"] != "ok"
    ]
    kept = report["cache"]
    lines += [
        "",
        "cache",
        f"  {kept['path']}: {_size(kept['bytes'])} in {kept['files']} files, "
        f"{'writable' if kept['writable'] else 'NOT WRITABLE'}",
    ]
    lines += ["", "hooks", f"  {', '.join(report['hooks']['observers']) or 'none'}"]
    lines += ["", "environment", *(f"  {name}={value}" for name, value in report["environment"].items())]
    who = report["identity"]
    lines += ["", "identity"]
    lines.append(
        f"  group {who['dp_group_id']} of {who['dp_degree']} (from {who['source']})"
        if who["known"]
        else f"  unknown: {who['source']}"
    )
    if report["data"]:
        lines += ["", "data", *(_data(found) for found in report["data"])]
    for title in ("problems", "warnings"):
        lines += ["", title, *(f"  {text}" for text in report[title] or ["none"])]
    return "\n".join(lines)


def _data(found: dict[str, Any]) -> str:
    text = f"  {found['path']}"
    if found["error"]:
        return f"{text}: {found['error']}"
    index = f"index {found['index']}" if found["index"] else "no index beside it"
    return (
        f"{text}: {found['format']}, {found['shards']} shards, {_size(found['bytes'])}; listed in "
        f"{found['list_seconds']:.2f} s, first bytes read in {found['read_seconds']:.3f} s; {index}"
    )


def _or(value: Any, otherwise: str) -> str:
    return otherwise if value is None or value == -1 else str(value)


def _size(nbytes: int | None, otherwise: str = "unknown") -> str:
    if nbytes is None or nbytes < 0:
        return otherwise
    number = float(nbytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"
