"""Trouble of the set-up: no finding about the plugin, and never counted as one."""

from __future__ import annotations


class Incomplete(Exception):
    """A clause could not be checked: a sample, a dependency or a facility of the machine is missing.

    The verdict becomes *incomplete*. The message says what is missing and which member of the suite provides it.
    """
