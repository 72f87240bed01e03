"""Environment variables that matter, and which rank this process would be."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Final

from zephon.engine.options import Options
from zephon.engine.topology import identify
from zephon.errors import ConfigError

#: Names whose values are shown: numbers of ranks and threads, and directories of ours.
SHOWN: Final = frozenset(
    {
        *("WORLD_SIZE", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK"),
        *("SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"),
        *("SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE", "SLURM_MEM_PER_NODE", "SLURM_NTASKS_PER_NODE"),
        *("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_SIZE", "PMI_RANK"),
        *("MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"),
        *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS", "ARROW_NUM_THREADS"),
        *("TOKENIZERS_PARALLELISM", "PYTHONHASHSEED", "PYTHONUNBUFFERED", "TMPDIR", "XDG_CACHE_HOME"),
        "ZEPHON_CACHE_DIR",
    }
)
#: Families whose other members are worth a name, but may hold anything.
NAMED: Final = ("ZEPHON_", "SLURM_", "OMPI_COMM_WORLD_")
_PLAIN: Final = re.compile(r"[\w./,:~+() -]{0,200}")


def environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Variables by name, with values where these can be no secret."""
    found = {}
    for name in sorted(environ):
        if name in SHOWN:
            found[name] = environ[name] if _PLAIN.fullmatch(environ[name]) else "(set to something unusual)"
        elif name.startswith(NAMED):
            found[name] = "(set)"
    return found


def identity(environ: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """The group this process would be without a word in ``options``, and where that is known from."""
    try:
        found = identify(Options(), environ)
    except (ConfigError, ValueError) as error:
        source = f"{error.what} ({error.found})" if isinstance(error, ConfigError) else str(error)
        return {"known": False, "dp_degree": None, "dp_group_id": None, "source": source}
    return {"known": True, "dp_degree": found.dp_degree, "dp_group_id": found.dp_group_id, "source": found.source}
