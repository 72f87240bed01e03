"""Observers of a run: who listens to which hook (specifications in :mod:`zephon.plugins.hookspecs`)."""

from __future__ import annotations

import inspect
import threading
import warnings
from types import TracebackType
from typing import Any, Final, NoReturn

import pluggy

from zephon.errors import PluginError
from zephon.plugins import hookspecs, problems
from zephon.plugins.registry import registry

#: Every hook of this contract.
HOOKS: Final = ("plan", "block", "batch", "checkpoint", "quarantine", "worker_start", "worker_stop", "close")


class HookManager:
    """Tells observers what a run does. One per process: :func:`hooks_manager`.

    A loop that may be hot asks :meth:`has` first, and so builds no event that nobody wants.
    """

    def __init__(self) -> None:
        self._pluggy = pluggy.PluginManager(hookspecs.PROJECT)
        self._pluggy.add_hookspecs(hookspecs)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "the hook manager cannot be pickled: observers live in the user's process, and workers send events home as "
            "plain data"
        )

    def has(self, hook: str) -> bool:
        """Whether anybody listens to a hook.

        Raises:
            PluginError: ``hook-unknown``.
        """
        return bool(self._caller(hook).get_hookimpls())

    def call(self, hook: str, **event: Any) -> None:
        """Tell everybody who listens. What an observer raises is not caught.

        Args:
            hook: name of the hook.
            event: all arguments of its specification, by name.

        Raises:
            PluginError: ``hook-unknown``.
        """
        self._caller(hook)(**event)

    def observers(self) -> list[str]:
        """Names of the observers, in the order they came."""
        return [name for name, observer in self._pluggy.list_name_plugin() if observer is not None]

    def register(self, observer: object, name: str | None = None) -> Observer:
        """Add an observer: an object or module with functions marked ``@zephon.plugins.hookimpl``.

        It hears of iterations that begin from now on.

        Args:
            observer: the object.
            name: how it is called in errors; by default its class or module.

        Returns:
            A context manager that takes the observer back, with a plain ``undo()``.

        Raises:
            PluginError: ``hook-unknown`` if it implements a hook that does not exist, or none at all;
                ``hook-signature`` if it asks for arguments the hook does not have; ``plugin-duplicate`` if it, or
                another of that name, is registered already.
        """
        label = name or _label(observer)
        self._check_hooks(label, observer)
        if self._pluggy.is_registered(observer) or self._pluggy.has_plugin(label):
            raise PluginError(
                f"the observer {label!r} is registered already",
                found=f"registered: {', '.join(self.observers())}",
                fix="undo the first registration, or pass name= to tell two of a kind apart",
                code="plugin-duplicate",
            )
        try:
            self._pluggy.register(observer, label)
        except pluggy.PluginValidationError as error:
            # pluggy before 1.7 keeps the half of a plugin it had accepted.
            if self._pluggy.is_registered(observer):
                self._pluggy.unregister(observer)
            raise self._bad_signature(label, observer, error) from error
        return Observer(self._pluggy, observer)

    def _caller(self, hook: str) -> pluggy.HookCaller:
        if hook not in HOOKS:
            raise problems.unknown_hook("somebody", hook, HOOKS)
        caller: pluggy.HookCaller = getattr(self._pluggy.hook, hook)
        return caller

    def _implementations(self, observer: object) -> dict[str, str]:
        """Attribute to hook, of what the observer has marked; optional hooks this core lacks are left out."""
        found = {}
        for attribute in dir(observer):
            options = self._pluggy.parse_hookimpl_opts(observer, attribute)
            if options is not None:
                hook = options.get("specname") or attribute
                if hook in HOOKS or not options.get("optionalhook"):
                    found[attribute] = hook
        return found

    def _check_hooks(self, label: str, observer: object) -> None:
        implementations = self._implementations(observer)
        if isinstance(observer, type) or not implementations:
            raise problems.no_hook(label, isinstance(observer, type), HOOKS)
        for hook in implementations.values():
            if hook not in HOOKS:
                raise problems.unknown_hook(f"the observer {label!r}", hook, HOOKS)

    def _bad_signature(self, label: str, observer: object, error: Exception) -> PluginError:
        pairs = []
        for attribute, hook in self._implementations(observer).items():
            wanted, offered = _arguments(getattr(observer, attribute)), _arguments(getattr(hookspecs, hook))
            if not set(wanted) <= set(offered):
                pairs.append((f"{attribute}({', '.join(wanted)})", f"{hook}({', '.join(offered)})"))
        if not pairs:
            return PluginError(
                f"the observer {label!r} does not fit its hooks", found=str(error), code="hook-signature"
            )
        return PluginError(
            f"the observer {label!r} asks for arguments its hook does not have",
            found="; ".join(f"{mine}, but the hook is {theirs}" for mine, theirs in pairs),
            fix=f"take arguments of {pairs[0][1]}, by these names, as many as you need",
            code="hook-signature",
        )


class Observer:
    """A registered observer. Leaving it as a context manager, or :meth:`undo`, takes it back."""

    __slots__ = ("_observer", "_pluggy")

    def __init__(self, manager: pluggy.PluginManager, observer: object) -> None:
        self._pluggy = manager
        self._observer = observer

    def undo(self) -> None:
        """Take the observer back; doing so twice is no error."""
        if self._pluggy.is_registered(self._observer):
            self._pluggy.unregister(self._observer)

    def __enter__(self) -> Observer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.undo()


_lock = threading.Lock()
_manager: HookManager | None = None


def hooks_manager() -> HookManager:
    """The hook manager of this process; the first call brings in the observers that are installed.

    An installed observer that is broken is left out with a ``RuntimeWarning``: nobody asked for it by name.
    """
    global _manager  # noqa: PLW0603 - one per process, by definition
    with _lock:
        if _manager is None:
            manager = HookManager()
            for name in registry("hooks").names():
                try:
                    observer = registry("hooks").load(name)
                    manager.register(observer() if isinstance(observer, type) else observer, name)
                except PluginError as error:
                    warnings.warn(f"observer hooks:{name} is left out\n{error}", RuntimeWarning, stacklevel=2)
            _manager = manager
    return _manager


def hooks() -> HookManager | None:
    """The hook manager if there is any observer, otherwise None: what a run asks once, at its start."""
    if _manager is None and not registry("hooks").names():
        return None
    manager = hooks_manager()
    return manager if manager.observers() else None


def _arguments(function: Any) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]


def _label(observer: object) -> str:
    kind = type(observer)
    return str(getattr(observer, "__name__", None) or f"{kind.__module__}.{kind.__qualname__}")
