"""Zephon: elastically deterministic data loading for foundation-model training.

Importing this package imports nothing else: the public names load on first use (PEP 562).
"""

from typing import Any

__version__ = "0.3.0"
__all__ = ["Batch", "Pipeline", "__version__"]

_HOME = {"Pipeline": "zephon._pipeline", "Batch": "zephon.batch"}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        from importlib import import_module

        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'zephon' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
