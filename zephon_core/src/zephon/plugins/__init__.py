"""How plugins are found: light descriptors, lazy registries, hook specifications.

Registries select one thing by name, hooks broadcast events to many. Importing this package imports no plugin and
neither numpy nor pyarrow; it is what a plugin's light module (``zephon_x/plugin.py``) imports, and all it needs.
"""

from typing import TYPE_CHECKING, Any

from zephon.plugins.descriptor import (
    POINTS,
    CheckpointStoreDescriptor,
    Descriptor,
    HooksDescriptor,
    OperatorDescriptor,
    RunnerDescriptor,
    ShardFormatDescriptor,
    StorageDescriptor,
    TokenizerDescriptor,
    WorkSourceDescriptor,
)
from zephon.plugins.registry import PluginRequirement, Registration, Registry, register, registry, require

if TYPE_CHECKING:
    from zephon.plugins.hookspecs import hookimpl
    from zephon.plugins.manager import HookManager, Observer, hooks, hooks_manager
    from zephon.plugins.report import PluginStatus, status

__all__ = [
    "POINTS",
    "CheckpointStoreDescriptor",
    "Descriptor",
    "HookManager",
    "HooksDescriptor",
    "Observer",
    "OperatorDescriptor",
    "PluginRequirement",
    "PluginStatus",
    "Registration",
    "Registry",
    "RunnerDescriptor",
    "ShardFormatDescriptor",
    "StorageDescriptor",
    "TokenizerDescriptor",
    "WorkSourceDescriptor",
    "hookimpl",
    "hooks",
    "hooks_manager",
    "register",
    "registry",
    "require",
    "status",
]

# pluggy brings importlib.metadata and inspect along, which a descriptor module has no use for.
_LAZY = {
    "HookManager": "manager",
    "Observer": "manager",
    "PluginStatus": "report",
    "hookimpl": "hookspecs",
    "hooks": "manager",
    "hooks_manager": "manager",
    "status": "report",
}


if not TYPE_CHECKING:  # which would take it that every name is here

    def __getattr__(name: str) -> Any:
        if name in _LAZY:
            from importlib import import_module

            value = getattr(import_module(f"zephon.plugins.{_LAZY[name]}"), name)
            globals()[name] = value
            return value
        raise AttributeError(f"module 'zephon.plugins' has no attribute {name!r}")
