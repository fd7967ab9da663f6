"""Names of files in a change log.

::

    LOG/tidemark.json                                        what this log is; written once
    LOG/commits/00000000000000000042.json                    commit 42; created exclusively, never changed
    LOG/commits/checkpoint-00000000000000000100.json         a summary of all up to commit 100
    LOG/commits/compacted-…0100-…1099-3.json                    commits 100 to 1099 as one, by the writer of epoch 3
    LOG/data/public/orders/00000000000000000042-3-0.parquet  commit 42, writer epoch 3, first segment of it
    LOG/data/public/orders/…1400-3-j0.parquet                joined from others, when commit 1400 was the next
    LOG/consumers/nightly.json                               how far a registered reader is
    LOG/writer.lock                                          held by the process that writes
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from urllib.parse import quote

HEADER = "tidemark.json"
COMMITS = "commits"
DATA = "data"
CONSUMERS = "consumers"
"""The folder of readers that register, so that what they need is kept."""

LOCK = "writer.lock"

SUMMARY_EVERY = 100
"""A summary follows every commit whose number is a multiple of this."""

RECENT = 300
"""So many of the newest commits stay as they are: they are what who follows a log still reads."""

_COMMIT = re.compile(r"(\d{20})\.json")
_SUMMARY = re.compile(r"checkpoint-(\d{20})\.json")
_COMPACTED = re.compile(r"compacted-(\d{20})-(\d{20})-(\d+)\.json")
_SEGMENT = re.compile(r"(\d{20})-(\d+)-\d+\.parquet")
_JOINED_SEGMENT = re.compile(r"(\d{20})-(\d+)-j\d+\.parquet")
_LONGEST = 200
"""The most bytes of a folder's name; the limit of most file systems is 255."""


def commit_name(number: int) -> str:
    """The file name of a commit."""
    return f"{number:020d}.json"


def summary_name(number: int) -> str:
    """The file name of the summary of all commits up to ``number``."""
    return f"checkpoint-{number:020d}.json"


def commit_path(number: int) -> str:
    """The path of a commit, relative to the log."""
    return f"{COMMITS}/{commit_name(number)}"


def summary_path(number: int) -> str:
    """The path of a summary, relative to the log."""
    return f"{COMMITS}/{summary_name(number)}"


def compacted_name(first: int, last: int, epoch: int) -> str:
    """The file name of a range of commits that the writer of an epoch has compacted."""
    return f"compacted-{first:020d}-{last:020d}-{epoch}.json"


def compacted_range(name: str) -> tuple[int, int, int] | None:
    """First and last commit, and the epoch, in the file name of compacted commits; None for any other file."""
    match = _COMPACTED.fullmatch(name)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def consumer_name(name: str) -> str:
    """The file name of a consumer; different consumers have different ones."""
    return f"{_folder(name)}.json"


def commit_number(name: str) -> int | None:
    """The number in a commit's file name; None for any other file."""
    match = _COMMIT.fullmatch(name)
    return int(match[1]) if match else None


def summary_number(name: str) -> int | None:
    """The number in a summary's file name; None for any other file."""
    match = _SUMMARY.fullmatch(name)
    return int(match[1]) if match else None


def commit_names(names: Iterable[str]) -> list[str]:
    """The names of commits among names of files. Their order as text is that of their numbers."""
    return list(filter(_COMMIT.fullmatch, names))


def collection_folder(collection: str) -> str:
    """A collection's folder, relative to one that has the folders of all. Different collections have different ones."""
    return "/".join(map(_folder, collection.split("/")))


def segment_path(collection: str, commit: int, epoch: int, index: int, joined: str = "") -> str:
    """Where a segment lies, relative to the log. The epoch keeps two writers of one commit number apart.

    ``joined`` is ``j`` for a segment that was joined from others; the commit is the next one at that time.

    Different collections have different folders on a file system that tells case apart, whatever characters their
    names hold, and no folder lies outside ``data``.
    """
    return f"{DATA}/{collection_folder(collection)}/{commit:020d}-{epoch}-{joined}{index}.parquet"


def segment_origin(name: str) -> tuple[int, int] | None:
    """The commit number and the writer epoch in a segment's file name; None for any other file."""
    match = _SEGMENT.fullmatch(name)
    return (int(match[1]), int(match[2])) if match else None


def joined_segment_origin(name: str) -> tuple[int, int] | None:
    """The same of a segment that was joined from others."""
    match = _JOINED_SEGMENT.fullmatch(name)
    return (int(match[1]), int(match[2])) if match else None


def _folder(part: str) -> str:
    """A part of a collection's name as a folder's name, or a consumer's as a file's.

    It is percent-encoded, also dots (no ``..``, no hidden folder, none that looks like a file) and ``=[]{},*?``, which
    readers interpret as partitions and patterns. A percent sign without two digits marks an empty part, or one that is
    too long for a file system and ends in its hash.
    """
    encoded = quote(part, safe=" !$&'()+;@~").replace(".", "%2E")
    if len(encoded) > _LONGEST:
        return f"{encoded[: _LONGEST - 34]}%-{hashlib.sha256(part.encode()).hexdigest()[:32]}"
    return encoded or "%"
