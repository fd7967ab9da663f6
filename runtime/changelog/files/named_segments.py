"""The segments that the files of commits name, whichever files there are."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tidemark.protocol.changelog import layout
from tidemark.protocol.changelog.unreadable import unreadable
from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.store import Store


class _Path(msgspec.Struct):
    path: str


class _Named(msgspec.Struct):
    """The segments that a file of commits names: all that is needed of thousands of such files."""

    segments: list[_Path] = []


def unnamed_segments(store: Store, paths: list[str]) -> Iterator[str]:
    """The joined segments among these that no file names: their writer was killed before it made one."""
    live: set[str] = set()
    for path in listed_commits(store, after=f"{layout.COMMITS}/compacted-"):
        if layout.compacted_range(path.rpartition("/")[2]) is not None:
            live.update(named_by(store, path))
    return (path for path in paths if path not in live)


def named_by(store: Store, path: str) -> list[str]:
    """The segments that a commit or compacted ones name; none where the file is gone by now."""
    where = store.where(path)
    try:
        found = msgspec.json.decode(store.read(path), type=_Named)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise unreadable(where, error) from None
    except msgspec.DecodeError:
        raise ChangeLogError("TM-LOG-002", f"{where} is damaged: it is not a commit") from None
    return [segment.path for segment in found.segments]


def listed_commits(store: Store, after: str = "") -> Iterator[str]:
    """The paths of all files of commits, or of those after one. Raises as ``unreadable``."""
    try:
        yield from (entry.path for entry in store.list(layout.COMMITS, after=after))
    except OSError as error:
        raise unreadable(store.where(layout.COMMITS), error) from None
