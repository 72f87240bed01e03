"""What a tokenizer gives in a process of its own.

Run as ``python -m zephon_testkit.encoded NAME SETTINGS OPTIONS ID``, with texts as JSON on standard input; see
:func:`encoded`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any


def encoded(
    name: str, settings: Mapping[str, Any], options: Mapping[str, Any], tokenizer_id: str, texts: Sequence[str]
) -> dict[str, Any]:
    """Content hash, vocabulary size, offsets and ids, from a fresh interpreter whose ``hash()`` is another."""
    plain = [json.dumps(dict(settings)), json.dumps(dict(options))]
    command = [sys.executable, "-m", "zephon_testkit.encoded", name, *plain, tokenizer_id]
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
        "PYTHONHASHSEED": "7" if os.environ.get("PYTHONHASHSEED") != "7" else "8",
    }
    done = subprocess.run(
        command, input=json.dumps(list(texts)), capture_output=True, text=True, env=env, timeout=120, check=False
    )
    assert done.returncode == 0, f"the process with the tokenizer ended with status {done.returncode}\n{done.stderr}"
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Encode what comes in, print what comes out."""
    import pyarrow as pa

    from zephon.plugins import registry

    name, settings, options, tokenizer_id = sys.argv[1:]
    backend = registry("tokenizer").load(name)(**json.loads(settings))
    tokenizer = backend.load(tokenizer_id, **json.loads(options))
    offsets, ids = tokenizer.encode(pa.array(json.load(sys.stdin), pa.string()), special_tokens=True)
    found = {"hash": tokenizer.content_hash, "offsets": offsets.tolist(), "ids": ids.tolist()}
    print(json.dumps({**found, "vocab_size": tokenizer.vocab_size}))


if __name__ == "__main__":
    main()
