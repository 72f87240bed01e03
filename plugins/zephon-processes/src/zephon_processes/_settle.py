"""The other side's beginning: take over what it must share with its parent, and end with it."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

from zephon_processes._channel import Channel
from zephon_processes._failure import failure

#: Seconds between two looks at the parent.
INTERVAL = 0.5


def settle(channel: Channel) -> None:
    """Take the parent's import path, and agree on plugins.

    Raises:
        SystemExit: the plugins here are not those of the parent; it has been told.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, which then ends this process
    _, setting = channel.received()
    sys.path[:] = setting["path"]
    sys.argv[:] = setting["argv"]
    if setting["threads"] is not None:
        import pyarrow as pa

        pa.set_cpu_count(setting["threads"])
    from zephon.plugins import PluginRequirement, require

    try:
        require([PluginRequirement(*wanted) for wanted in setting["plugins"]])
    except Exception as error:
        channel.send("refused", failure(error))
        raise SystemExit(0) from error
    channel.send("ready")


def end_with(parent: int) -> None:
    """End soon after the parent has ended, even in the middle of a task."""
    if os.getppid() != parent:
        os._exit(0)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(INTERVAL)
        os._exit(0)

    threading.Thread(target=watch, name="zephon-parent-watch", daemon=True).start()
