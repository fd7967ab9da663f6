"""How many rows the next chunk asks for, so that reading one takes about a wanted time."""

from __future__ import annotations


class ChunkSize:
    """Rows for the next chunk of one table.

    A chunk's time bounds its window, so a slow table gets small chunks and a fast one large ones. One measurement grows
    the size at most twofold and shrinks it at most fourfold: a pause of the server must not make a table crawl.

    Args:
        target_seconds: How long reading a chunk should take.
        start: Rows of the first chunk.
        smallest: The fewest rows.
        largest: The most rows, which bounds what a chunk holds in memory.
        fixed: This many rows always, whatever is measured.
    """

    GROW = 2.0
    SHRINK = 0.25

    def __init__(
        self,
        target_seconds: float = 1.0,
        *,
        start: int = 5_000,
        smallest: int = 10,
        largest: int = 200_000,
        fixed: int | None = None,
    ) -> None:
        if target_seconds <= 0 or not 1 <= smallest <= start <= largest or (fixed is not None and fixed < 1):
            raise ValueError("a chunk has a positive target time, at least one row, and starts between its bounds")
        self._target = target_seconds
        self._smallest = smallest
        self._largest = largest
        self._fixed = fixed
        self._rows = start

    @property
    def rows(self) -> int:
        """How many rows the next chunk asks for."""
        return self._rows if self._fixed is None else self._fixed

    def measured(self, rows: int, seconds: float) -> None:
        """A chunk of ``rows`` rows took ``seconds``.

        Only its speed counts, not how many rows it asked for, so a read that was cut short by a timeout is no special
        case. A chunk without rows says nothing.
        """
        if rows < 1:
            return
        wanted = rows * self._target / seconds if seconds > 0 else self._rows * self.GROW
        self._resize(wanted)

    def failed(self) -> None:
        """A chunk gave nothing: it timed out, or the log touched too much meanwhile. The next one is much smaller."""
        self._resize(self._rows * self.SHRINK)

    def _resize(self, wanted: float) -> None:
        bounded = min(max(wanted, self._rows * self.SHRINK), self._rows * self.GROW)
        self._rows = int(min(max(bounded, self._smallest), self._largest))
