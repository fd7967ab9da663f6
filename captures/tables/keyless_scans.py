"""The scans of tables without a key that a source has, by table: how both databases end them."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar


class KeylessScan(Protocol):
    """The scan of one table."""

    def release(self) -> None:
        """Ends the snapshot that the scan holds, if it holds one."""


ScanT = TypeVar("ScanT", bound=KeylessScan)


class KeylessScans(Generic[ScanT]):
    """The scans of one source; see ``tidemark.captures.contract.capabilities.ReadsInSnapshots``."""

    def __init__(self) -> None:
        self._scans: dict[int, ScanT] = {}

    def end(self, binding: int) -> None:
        """See ``ReadsInSnapshots.end_snapshot``. Does nothing for a table that is not scanned."""
        if (scan := self._scans.pop(binding, None)) is not None:
            scan.release()

    def close(self) -> None:
        """Ends all scans, also while other threads read chunks: their chunks are not used."""
        for binding in list(self._scans):
            self.end(binding)
