"""The other side of a host: ``python -m zephon_processes.hosted DESCRIPTOR PARENT``. Never run by users.

Runs one function it is sent, with its end of the line, and ends with it.
"""

from __future__ import annotations

import os
import socket
import sys

from zephon_processes._channel import Channel, Gone
from zephon_processes._failure import failure
from zephon_processes._settle import end_with, settle


def main() -> None:
    """Serve the parent."""
    descriptor, parent = int(sys.argv[1]), int(sys.argv[2])
    end_with(parent)
    channel = Channel(socket.socket(fileno=descriptor))
    try:
        settle(channel)
        try:
            _, entry = channel.received()
            entry(channel)
        except Gone:
            raise
        except BaseException as error:  # noqa: BLE001 - told to the parent, whatever it is
            channel.send("failed", failure(error))
    except Gone:
        os._exit(0)  # nobody is left to be told of anything
    channel.close()


if __name__ == "__main__":
    main()
