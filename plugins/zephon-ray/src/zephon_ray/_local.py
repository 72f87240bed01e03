"""A cluster on this machine, from its owner's side."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from typing import Final

#: What the processes of a local cluster are told, unless the user has decided otherwise.
QUIET: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",  # a loader sends no reports of its user anywhere
    "RAY_AUTH_MODE": "disabled",  # no token is written into the home folder; nothing listens but on loopback
}
#: Ray puts the address of the machine in the place of 127.0.0.1, and then listens on all interfaces, unless it takes
#: the machine for one that cannot be part of a cluster.
_ALONE: Final = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
#: Seconds a cluster has to end by itself.
_END_SECONDS: Final = 4.0


class LocalCluster:
    """A cluster that ends with :meth:`stop`, and with this process however that ends.

    Args:
        cpus: what it offers.

    Attributes:
        address: host and port.
        cpus: as asked for.

    Raises:
        RuntimeError: it did not start.
    """

    def __init__(self, cpus: int) -> None:
        self.cpus = cpus
        command = [sys.executable, "-m", "zephon_ray._keeper", str(os.getpid()), str(cpus)]
        with tempfile.TemporaryFile() as errors:
            # In a session of its own: Ctrl-C is for this process, which then ends the cluster when it is done with it.
            self._keeper = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**QUIET, **os.environ, **_ALONE},
                start_new_session=True,
            )
            assert self._keeper.stdout is not None
            self._folder = ""
            try:
                with self._keeper.stdout as output:
                    line = output.readline()
                if not line:
                    errors.seek(0)
                    text = errors.read().decode(errors="replace").strip()[-2000:]
                    raise RuntimeError(f"the process that starts it ended with {self._keeper.wait()}: {text}")
                said: dict[str, str] = json.loads(line)
                if "error" in said:
                    raise RuntimeError(said["error"])
            except BaseException:  # Ctrl-C, too
                self.stop()
                raise
        self.address = said["address"]
        self._folder = said["folder"]

    def serves(self, cpus: int) -> bool:
        """Whether it runs and has so many CPUs."""
        return cpus <= self.cpus and self._keeper.poll() is None

    def stop(self) -> None:
        """End it and wait for that; doing so twice is no error."""
        assert self._keeper.stdin is not None
        with suppress(BrokenPipeError, ValueError):  # it has ended; it was told before
            self._keeper.stdin.write(b"\n")  # closing alone says nothing where a fork of this process has it open
            self._keeper.stdin.close()
        try:
            self._keeper.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._keeper.kill()
            self._keeper.wait()
        if self._folder:  # where the keeper was killed
            shutil.rmtree(self._folder, ignore_errors=True)
