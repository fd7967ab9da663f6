"""The number of rows of the next chunk, so that reading a chunk takes about the target time."""

from __future__ import annotations

CHUNK_BYTES = 16 * 1024 * 1024
"""A chunk ends at this many bytes: memory must not depend on the width of rows."""


class ChunkSize:
    """Rows for the next chunk of one table.

    A chunk's time limits its window, so a slow table gets small chunks and a fast one large ones. One measurement grows
    the size at most twofold and shrinks it at most fourfold, so that a pause of the server has little effect.

    Args:
        target_seconds: The time that reading a chunk should take.
        start: Rows of the first chunk.
        smallest: The fewest rows.
        largest: The most rows.
        largest_bytes: The most bytes, in rows of the size seen last: a chunk that ends early wastes a query.
        fixed: This many rows in every chunk, instead of measuring.
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
        largest_bytes: int = CHUNK_BYTES * 7 // 8,
        fixed: int | None = None,
    ) -> None:
        if target_seconds <= 0 or not 1 <= smallest <= start <= largest or (fixed is not None and fixed < 1):
            raise ValueError("a chunk has a positive target time, at least one row, and starts between its bounds")
        self._target = target_seconds
        self._smallest = smallest
        self._largest = largest
        self._largest_bytes = largest_bytes
        self._fixed = fixed
        self._rows = start
        self._fitting = largest

    @property
    def rows(self) -> int:
        """The rows of the next chunk."""
        return min(self._rows, self._fitting) if self._fixed is None else self._fixed

    def measured(self, rows: int, seconds: float, *, found: int | None = None, size: int = 0) -> None:
        """Takes the measurement of a chunk that examined ``rows`` rows in ``seconds``.

        Only the speed counts, and not the number of rows asked for, so a read that a timeout ended is no special case.
        A chunk without rows is no measurement.

        Args:
            found: The rows that it returned, if a condition filtered them.
            size: Bytes in the returned rows.
        """
        if rows < 1:
            return
        brought = rows if found is None else found
        if size > 0 and brought > 0:
            # If all rows of the next chunk met the condition, it would still fit.
            self._fitting = max(1, self._largest_bytes * brought // size)
        self._resize(rows * self._target / seconds if seconds > 0 else self._rows * self.GROW)

    def failed(self) -> None:
        """A chunk failed: it timed out, or the log touched too many keys meanwhile. The next one is much smaller."""
        self._resize(self._rows * self.SHRINK)

    def _resize(self, wanted: float) -> None:
        bounded = min(max(wanted, self._rows * self.SHRINK), self._rows * self.GROW)
        self._rows = int(min(max(bounded, self._smallest), self._largest))
