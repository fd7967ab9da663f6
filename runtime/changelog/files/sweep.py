"""Deletes files of dead writers that no commit names, or ever will."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import PurePosixPath

from tidemark.protocol.changelog import layout
from tidemark.protocol.changelog.models import Summary
from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.store import Store
from tidemark.protocol.store.local import DirectoryStore
from tidemark.runtime.changelog.files.failures import writing
from tidemark.runtime.changelog.files.named_segments import unnamed_segments

logger = logging.getLogger(__name__)


def sweep(store: Store, summary: Summary) -> None:
    """Deletes leftovers of writers older than ``summary.epoch``, which has just claimed the log.

    It reads no commit. A dead writer committed the numbers from its first commit to the next writer's first. Any other
    segment of it was never committed. Files of this and of newer writers stay, and so do files with other names.

    Raises:
        ChangeLogError: ``TM-LOG-008`` a file cannot be listed or deleted.
    """
    with writing():
        leftovers, joined = [], []
        for path in _segments(store, summary):
            name = path.rpartition("/")[2]
            if _is_orphan(name, summary):
                leftovers.append(path)
            elif _was_joined_before(name, summary):
                joined.append(path)
        if joined:
            leftovers += _unnamed(store, joined)
        for path in leftovers:
            store.delete(path)
        removed = len(leftovers)
        if isinstance(store, DirectoryStore):
            removed += sum(store.remove_unfinished(folder) for folder in ("", layout.COMMITS))
    if removed:
        logger.info("removed %d files that no commit names from %s", removed, store.place)


def _unnamed(store: Store, joined: list[str]) -> list[str]:
    """The joined segments that no compacted commits name; none where one of their files cannot tell."""
    try:
        return list(unnamed_segments(store, joined))
    except ChangeLogError as error:
        if error.code != "TM-LOG-002":
            raise
        logger.warning("%s; what compaction has left of earlier writers stays", error)
        return []


def _segments(store: Store, summary: Summary) -> Iterator[str]:
    """The paths of segments among which leftovers are.

    An object store lists a thousand files at a request: so it is asked, table by table, for those that the writer
    before this one may have left, and for all of the tables that no commit names.
    """
    if store.directory is not None:
        yield from (entry.path for entry in store.list(layout.DATA))
        return
    first = max((number for epoch, number in summary.claims.items() if epoch < summary.epoch), default=None)
    if first is None:
        return
    known = {schema.collection for schema in summary.schemas.values()}
    begins = [layout.segment_path(collection, first, 0, 0) for collection in sorted(known)]
    tables = {begin.rpartition("/")[0]: begin for begin in begins} | _of_no_commit(store, begins)
    for folder, begin in tables.items():
        yield from (entry.path for entry in store.list(folder, after=begin))


def _of_no_commit(store: Store, named: list[str]) -> dict[str, str]:
    """Folders of tables that no commit names: writers died that had not committed them yet.

    They are found by a request for the schemas of a database, and one for the tables of each.
    """
    tables = {path.rpartition("/")[0] for path in named}
    parents = {str(parent) for table in tables for parent in PurePosixPath(table).parents}
    found = {}
    above = [layout.DATA]
    while above:
        parent = above.pop()
        for name in store.folders(parent):
            folder = f"{parent}/{name}"
            if folder in parents:
                above.append(folder)
            elif folder not in tables:
                found[folder] = ""
    return found


def _was_joined_before(name: str, summary: Summary) -> bool:
    origin = layout.joined_segment_origin(name)
    return origin is not None and origin[1] < summary.epoch


def _is_orphan(name: str, summary: Summary) -> bool:
    origin = layout.segment_origin(name)
    if origin is None:
        return False
    number, epoch = origin
    first = summary.claims.get(epoch)
    if first is None or epoch >= summary.epoch:
        return False
    next_epoch = min(other for other in summary.claims if other > epoch)
    return not first <= number < summary.claims[next_epoch]
