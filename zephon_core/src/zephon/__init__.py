"""Zephon: elastically deterministic data loading for foundation-model training.

Importing this package imports nothing else: the public names load on first use (PEP 562).
"""

__version__ = "0.3.0"
__all__ = ["Batch", "Pipeline", "__version__"]

_HOME = {"Pipeline": "zephon._pipeline", "Batch": "zephon.batch"}


def __getattr__(name: str) -> object:  # typing is slow to import; type checkers read __init__.pyi
    if name in _HOME:
        from importlib import import_module

        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'zephon' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
