"""What the name of a file among a log's commits says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from tidemark.protocol.changelog import layout


@dataclass(frozen=True, slots=True)
class CommitFile:
    """A commit, compacted ones, or a summary, by its name.

    Attributes:
        path: Relative to the log.
        first: The number of its first commit; of a summary the last that it covers.
        last: The number of its last commit.
        is_summary: Whether it is a summary.
    """

    path: str
    first: int
    last: int
    is_summary: bool = False

    @classmethod
    def of(cls, path: str) -> Self | None:
        """The file at a path; None for any other file."""
        name = path.rpartition("/")[2]
        if (number := layout.commit_number(name)) is not None:
            return cls(path, number, number)
        if (number := layout.summary_number(name)) is not None:
            return cls(path, number, number, is_summary=True)
        compacted = layout.compacted_range(name)
        return None if compacted is None else cls(path, compacted[0], compacted[1])
