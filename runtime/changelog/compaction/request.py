"""A request that a running capture compacts its log now: a file beside the commands, until it is done."""

from __future__ import annotations

from tidemark.protocol.changelog.unreadable import unreadable
from tidemark.protocol.store import Store
from tidemark.runtime.changelog.files.failures import writing

_PATH = "control/compact"


class CompactionRequest:
    """The request to one capture.

    Args:
        place: What has the commands to it.
    """

    def __init__(self, place: Store) -> None:
        self._place = place

    @property
    def is_near(self) -> bool:
        """Whether a look costs no request to an object store."""
        return self._place.directory is not None

    def give(self) -> None:
        """Asks. Raises ``TM-LOG-008``."""
        with writing(self._place.where(_PATH)):
            self._place.replace(_PATH, b"")

    def waits(self) -> bool:
        """Whether it is not done yet. Raises as ``unreadable``."""
        try:
            return self._place.exists(_PATH)
        except OSError as error:
            raise unreadable(self._place.where(_PATH), error) from None

    def done(self) -> None:
        """Says that it is done. Raises ``TM-LOG-008``."""
        with writing(self._place.where(_PATH)):
            self._place.delete(_PATH)
