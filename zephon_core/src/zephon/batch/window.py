"""Which rows of a microbatch are seen."""

from __future__ import annotations

import attrs


@attrs.frozen(slots=True)
class Window:
    """Rows ``start:stop`` of a microbatch whose first ``held`` rows are real and whose others are fill.

    Attributes:
        held: real rows of the whole microbatch.
        start: first row seen.
        stop: one past the last row seen.
    """

    held: int
    start: int
    stop: int

    @property
    def rows(self) -> int:
        """Rows seen, fill rows included."""
        return self.stop - self.start

    @property
    def last(self) -> int:
        """One past the last real row seen (``start`` if there is none)."""
        return max(self.start, min(self.stop, self.held))

    @property
    def real(self) -> int:
        """Real rows seen. They come first."""
        return self.last - self.start
