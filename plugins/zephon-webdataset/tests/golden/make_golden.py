"""Writes the golden archives with the webdataset library and GNU tar, and what that library reads from them.

The same bytes on every run, but for the time and the process number that GNU tar puts into extended headers of its own.

Run in an environment of its own, with GNU tar 1.34 and zstd at hand::

    python -m venv golden && golden/bin/pip install --no-deps -r requirements.txt && golden/bin/python make_golden.py
"""

import gzip
import io
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import IO

from webdataset.tariterators import group_by_keys, tar_file_expander
from webdataset.writer import TarWriter

HERE = Path(__file__).parent
#: 120 characters and more: does not fit a ustar name; and one that is not ASCII.
LONG = "a-directory-with-a-long-name/" + "sample-with-a-very-long-name-" * 4
SAMPLES = [
    {"__key__": "0000", "txt": "plain", "json": {"n": 1, "tags": ["a"]}, "cls": 3, "bin": bytes(range(256))},
    {"__key__": "0001", "txt": "", "json": {"n": 2.5}, "cls": -1, "bin": b""},
    {"__key__": "0002", "txt": "漢字 \u2028 🙂", "json": {"n": None, "tags": []}, "cls": 0, "bin": b"\0" * 1024},
    {"__key__": "sub.dir/0003", "txt": "in a folder", "json": {"deep": {"x": [1, 2]}}, "cls": 12, "bin": b"x" * 511},
    {"__key__": "0004", "txt": "no class", "json": {}, "seg.BIN": b"upper case", "bin": b"x" * 513},
]
LINES = "".join(f"line {n}\n" for n in range(40)).encode()


def write_samples(file: IO[bytes], mtime: float) -> None:
    with TarWriter(file, mtime=mtime) as writer:
        for sample in SAMPLES:
            writer.write(dict(sample))


def gnu_tar(name: str, *options: str, names: list[str], links: bool = False, sparse: bool = False) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for n, base in enumerate(names):
            for extension, content in (("txt", f"text {n}".encode()), ("data.bin", LINES[: 50 * n])):
                path = Path(folder, f"{base}.{extension}")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        Path(folder, "README").write_text("a member of no row\n")
        if links:
            os.link(Path(folder, f"{names[0]}.txt"), Path(folder, f"{names[-1]}.same"))
        if sparse:
            with open(Path(folder, "hole.bin"), "wb") as file:
                file.truncate(1 << 20)
        fixed = ["--sort=name", "--mtime=@0", "--owner=o:1", "--group=g:1", "--mode=0644", "--blocking-factor=1"]
        subprocess.run(["tar", "-C", folder, *fixed, *options, "-cf", str(HERE / name), "."], check=True)


def read(path: Path) -> list[dict[str, str]]:
    """The rows of an archive as the webdataset library reads them, bytes as hexadecimal digits."""
    content = path.read_bytes()
    if path.suffix == ".zst":
        content = subprocess.run(["zstd", "-dc"], input=content, stdout=subprocess.PIPE, check=True).stdout
    source = [{"url": path.name, "stream": io.BytesIO(content)}]
    return [
        {name: value if name == "__key__" else value.hex() for name, value in sample.items() if name != "__url__"}
        for sample in group_by_keys(tar_file_expander(source))
    ]


def main() -> None:
    os.umask(0o022)
    for former in (*HERE.glob("*.tar"), *HERE.glob("*.tar.*")):
        former.unlink()
    with open(HERE / "wds.tar", "wb") as file:
        write_samples(file, mtime=0)
    # A time with a fraction, as the library writes by default, gives every member a pax header.
    with open(HERE / "wds.tar.gz", "wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as file:
        write_samples(file, mtime=0.5)
    names = ["a/0", "a/1", "b.c/2", LONG, "ü/漢字"]
    no_times = "--pax-option=delete=atime,delete=ctime,exthdr.name=%d/PaxHeaders/%f,globexthdr.name=global"
    gnu_tar("gnu.tar", "--format=gnu", names=names)
    gnu_tar("pax.tar", "--format=pax", f"{no_times},comment=written by GNU tar", names=names[1:])
    gnu_tar("v7.tar", "--format=v7", names=names[:3])
    gnu_tar("ustar.tar", "--format=ustar", names=[*names[:3], "d" * 90 + "/" + "e" * 80])
    gnu_tar("gnu.tar.zst", "--format=gnu", "--zstd", names=names)
    expected = [
        {"file": path.name, "rows": read(path)}
        for path in sorted(HERE.iterdir())
        if path.name.endswith((".tar", ".gz", ".zst"))
    ]
    with open(HERE / "expected.jsonl", "w", encoding="utf-8") as file:
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in expected)
    # What the webdataset library reads as something else, or not at all.
    gnu_tar("links.tar", "--format=gnu", names=names[:2], links=True)
    gnu_tar("sparse-gnu.tar", "--format=gnu", "--sparse", names=names[:1], sparse=True)
    gnu_tar("sparse-pax.tar", "--format=pax", no_times, "--sparse", names=names[:1], sparse=True)


if __name__ == "__main__":
    main()
