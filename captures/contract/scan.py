"""How the rows that a table has already are read."""

from __future__ import annotations

from enum import StrEnum


class ScanMethod(StrEnum):
    """What a configuration says, or what follows for a table from its key."""

    KEY = "key"
    """In key order."""
    PAGES = "physical"
    """By the pages of its file, also where rows have no key."""
    SNAPSHOT = "snapshot"
    """All in one transaction, for rows without a key."""
    NONE = "none"
    """Not at all: the table follows its log only."""

    @property
    def reads(self) -> bool:
        """Whether there are chunks at all."""
        return self is not ScanMethod.NONE

    @property
    def by_places(self) -> bool:
        """Whether a scan goes by places that only the database understands, and not by keys."""
        return self in (ScanMethod.PAGES, ScanMethod.SNAPSHOT)
