"""What all suites share: which plugin is under test, and the guard of the tests they inherit."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar

from zephon.errors import PluginError
from zephon.plugins import Descriptor, registry
from zephon_testkit.clauses import cited
from zephon_testkit.incomplete import Incomplete


class Suite:
    """A suite an author subclasses: the plugin's name, and what the kit cannot know of it.

    The plugin is resolved through its entry point, as users do; nothing is imported around it.
    """

    #: Extension point; each suite sets its own.
    point: ClassVar[str] = ""
    #: What users write: the name of the entry point.
    plugin: ClassVar[str] = ""
    #: Keyword arguments the implementation is made with, as plain data.
    settings: ClassVar[Mapping[str, Any]] = {}

    @classmethod
    def address(cls) -> str:
        """``point:name``."""
        return f"{cls.point}:{cls.plugin}"

    @classmethod
    def kit(cls) -> type[Suite]:
        """The class of the kit that an author's class derives from."""
        return next(base for base in cls.__mro__ if base.__module__.startswith("zephon_testkit."))

    @classmethod
    def guard_is_overridden(cls) -> bool:
        """Whether an author's class replaces the very test that would tell."""
        name = "test_no_test_of_the_kit_is_overridden"
        return inspect.getattr_static(cls, name) is not inspect.getattr_static(Suite, name)

    def descriptor(self) -> Descriptor:
        """The plugin's descriptor.

        Raises:
            Incomplete: it cannot be described; what is wrong is a finding of the packaging clauses.
        """
        try:
            return registry(self.point).describe(self.plugin)
        except PluginError as error:
            raise Incomplete(f"{self.address()} cannot be described\n{error}") from error

    def implementation(self) -> Any:
        """The class the descriptor leads to.

        Raises:
            Incomplete: it cannot be imported; what is wrong is a finding of the packaging clauses.
        """
        try:
            return registry(self.point).load(self.plugin)
        except PluginError as error:
            raise Incomplete(f"{self.address()} cannot be imported\n{error}") from error

    def has(self, capability: str) -> bool:
        """Whether the descriptor declares a capability."""
        return capability in self.descriptor().capabilities

    def test_no_test_of_the_kit_is_overridden(self) -> None:
        """If this fails, your class defines a test of the kit anew, or sets it to None, and hides what it would find.

        Give your test another name. What your plugin cannot do belongs into ``conformance.toml``, with a reason.
        """
        kit = self.kit()
        tests = [name for name in dir(kit) if name.startswith("test")]
        changed = [n for n in tests if inspect.getattr_static(type(self), n) is not inspect.getattr_static(kit, n)]
        assert not changed, f"{type(self).__name__} overrides {', '.join(changed)}"

    @classmethod
    def clauses(cls) -> list[str]:
        """Ids of the clauses the suite's tests cite."""
        return [id for name in dir(cls) if name.startswith("test") and (id := cited(getattr(cls, name)))]
