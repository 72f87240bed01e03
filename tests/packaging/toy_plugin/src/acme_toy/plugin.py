"""Descriptors only."""

from zephon.plugins import OperatorDescriptor, ShardFormatDescriptor

shout = OperatorDescriptor(name="shout", summary="upper-cases a text field", impl="acme_toy.shout:Shout")

lines = ShardFormatDescriptor(
    name="lines", summary="one text per line", impl="acme_toy.lines:LinesFormat", suffixes=(".lines",)
)
