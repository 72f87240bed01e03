"""The runner that options name, with the arguments they give it."""

from __future__ import annotations

import difflib
import inspect

from zephon.abc import Runner
from zephon.engine.options import Options
from zephon.errors import ConfigError
from zephon.plugins import registry


def check_runner(options: Options) -> None:
    """Find a wrong name or argument before anything runs. A runner holds nothing until it is started.

    Raises:
        PluginError: there is no such runner.
        ConfigError: ``option-invalid``, or what the runner says of an argument.
    """
    name, settings = options.runner_name, options.runner_settings
    if name != "auto":
        registry("runner").describe(name)
    if settings:
        _check_names(name, settings)
        registry("runner").load(name)(parallelism=options.parallelism, **settings)


def new_runner(name: str, options: Options, parallelism: int | None) -> Runner:
    """A runner that has not been started.

    Args:
        name: its registered name.
        options: have arguments for it, unless it is another one than they name.
        parallelism: how many workers it shall have.
    """
    settings = options.runner_settings if name == options.runner_name else {}
    runner = registry("runner").load(name)(parallelism=parallelism, **settings)
    assert isinstance(runner, Runner)
    return runner


def _check_names(name: str, settings: dict[str, object]) -> None:
    if name == "auto":
        raise _invalid(name, settings, "a runner chosen for you is given no arguments", "name the runner they are for")
    parameters = inspect.signature(registry("runner").load(name)).parameters.values()
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        return
    if "parallelism" in settings:
        raise _invalid(name, settings, "parallelism is an option of its own", ".options(parallelism=...)")
    takes = [p.name for p in parameters if p.name != "parallelism" and p.kind is not inspect.Parameter.POSITIONAL_ONLY]
    for wrong in sorted(set(settings) - set(takes)):
        near = difflib.get_close_matches(wrong, takes, n=1)
        known = f"its arguments are: {', '.join(takes)}" if takes else "it takes none"
        raise _invalid(
            name,
            settings,
            f"{wrong!r} is no argument of {name!r}; {known}",
            f"did you mean {near[0]!r}?" if near else "remove it",
        )


def _invalid(name: str, settings: dict[str, object], found: str, fix: str) -> ConfigError:
    return ConfigError(
        f"the runner {name!r} cannot be given {', '.join(sorted(settings))}",
        found=found,
        fix=fix,
        code="option-invalid",
    )
