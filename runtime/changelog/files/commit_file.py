"""What the name of a file among a log's commits says."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Self

from tidemark.protocol.changelog import layout
from tidemark.protocol.store import Store
from tidemark.runtime.changelog.files.failures import writing
from tidemark.runtime.changelog.files.named_segments import named_by

_AT_ONCE = 16
"""Files that are deleted side by side from an object store, which takes some hundredths of a second for each."""


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

    def delete(self, store: Store, live: Collection[str] = ()) -> int:
        """Deletes the segments that it names, but for those that live on, and then the file. Returns how many files.

        In this order: whoever is killed in between finds the rest by the file.

        Raises:
            ChangeLogError: ``TM-LOG-008`` a file cannot be deleted; others as ``named_by``.
        """
        named = () if self.is_summary else named_by(store, self.path)
        segments = [segment for segment in named if segment not in live]
        with writing():
            for path in (*segments, self.path):
                store.delete(path)
        return len(segments) + 1


def delete_all(store: Store, files: Iterable[CommitFile], go_on: Callable[[], None], live: Collection[str] = ()) -> int:
    """Deletes files with what they name, in any order. Returns how many files.

    Args:
        store: That holds the log.
        files: Of the log.
        go_on: Is asked every now and then; raises to end.
        live: Segments that live on.

    Raises:
        ChangeLogError: As ``CommitFile.delete``.
    """
    left, removed = iter(files), 0
    with ThreadPoolExecutor(1 if store.directory is not None else _AT_ONCE, thread_name_prefix="deletions") as requests:
        while some := list(islice(left, _AT_ONCE)):
            go_on()
            removed += sum(requests.map(lambda file: file.delete(store, live), some))
    return removed
