"""Copies a change log to another place, also while it is written: the copy is the log as of one of its commits.

Segments are copied before the commit that names them, and commits in their order. So what is there at any moment is a
whole log of earlier commits, and a copy that was interrupted is resumed by making it again.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tidemark.protocol.changelog import ChangeLog, layout
from tidemark.protocol.changelog.compacted_commit import CompactedCommit
from tidemark.protocol.changelog.known_tables import FILE as KNOWN_TABLES
from tidemark.protocol.changelog.models import Commit, Segment
from tidemark.protocol.changelog.unreadable import unreadable
from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.store import Store
from tidemark.runtime.changelog.files.failures import writing

AT_ONCE = 8
"""Segments that are copied side by side."""

PIECE = 8 * 1024 * 1024
"""Bytes in memory of each."""


def copy_log(log: ChangeLog, to: Store, tell: Callable[[Commit, int], None]) -> int:
    """Copies what the place lacks of a log, up to the commit that is the newest now.

    Args:
        log: The log.
        to: An empty place, or an earlier copy.
        tell: Is called after each commit that was copied, with the bytes of the segments that were.

    Returns:
        The number of the newest commit of the copy; -1 for a log without one.

    Raises:
        ChangeLogError: ``TM-LOG-016`` the place has something else; ``TM-LOG-008`` it cannot be written; others as
            ``ChangeLog``: a log that is damaged is copied up to there.
    """
    newest = log.latest()
    log.find_replacements()
    copied = _copied(log, to)
    if copied > newest:
        raise ChangeLogError("TM-LOG-016", f"{to.place} has later commits than {log.store.place}: {copied}")
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="copy") as workers:
        for one in log.replacements:
            if one.first <= copied:  # They were compacted since, and perhaps again.
                _copy_commit(log, to, log.commit(one.first), workers)
        seen = log.replacements, log.log_start
        first = max(copied + 1, log.log_start.number)
        if first > copied + 1:
            _copy(log, to, layout.summary_path(first - 1))
        if (log.replacements or first > copied + 1) and newest > copied:
            # It says which commits the copy need not have, also while it has only some of the others.
            path = layout.summary_path(newest)
            with writing(to.where(path)):
                to.replace(path, log.summary(newest).model_dump_json().encode())
        try:
            for commit in log.commits(first, newest):
                if seen != (log.replacements, log.log_start):
                    break  # The commit says so.
                tell(commit, _copy_commit(log, to, commit, workers))
        except ChangeLogError as error:
            if error.code not in ("TM-LOG-009", "TM-LOG-018"):
                raise
            log.find_replacements()  # Its segments may be gone: others stand for them, or they are not kept any more.
            if seen == (log.replacements, log.log_start):
                raise
    if seen != (log.replacements, log.log_start):
        return copy_log(log, to, tell)  # It goes on from here, with the log as it is by now.
    if log.store.exists(KNOWN_TABLES):
        with writing(to.where(KNOWN_TABLES)):
            to.replace(KNOWN_TABLES, log.store.read(KNOWN_TABLES))
    return newest


def _copy_commit(log: ChangeLog, to: Store, commit: Commit, workers: ThreadPoolExecutor) -> int:
    """Copies a commit after its segments, and its summary. Returns the bytes of the segments that were copied."""
    sizes = list(workers.map(partial(_copy_segment, log.store, to), commit.segments))
    with writing():
        to.sync([segment.path for segment in commit.segments])
    one = log.replacement_of(commit.number) if isinstance(commit, CompactedCommit) else None
    if one is None:
        _copy(log, to, layout.commit_path(commit.number))
    if one is not None or commit.number % layout.SUMMARY_EVERY == 0:
        _copy(log, to, layout.summary_path(commit.number))
    if one is not None:
        _copy(log, to, one.path)
    return sum(sizes)


def _copied(log: ChangeLog, to: Store) -> int:
    """The number of the newest commit that the place has of the log; -1 if it has none, and is made one of it."""
    try:
        copy = ChangeLog(to)
    except ChangeLogError as error:
        if error.code != "TM-LOG-001":
            raise
        if next(to.list(""), None) is not None:
            raise ChangeLogError("TM-LOG-016", f"{to.place} is not empty, and is no change log") from None
        _copy(log, to, layout.HEADER)
        return -1
    if copy.header.log_id != log.header.log_id:
        raise ChangeLogError("TM-LOG-016", f"{to.place} is another change log: {copy.header.log_id}")
    if copy.header != log.header:  # A later version has made it one of its own.
        with writing(to.where(layout.HEADER)):
            to.replace(layout.HEADER, log.store.read(layout.HEADER))
    newest = copy.latest()
    if newest < log.log_start.number - 1:
        return newest  # The log has nothing to compare it with any more, and nothing of it counts.
    end = copy.commit(newest).next_offset if newest >= 0 else 0
    is_compacted = newest >= 0 and log.replacement_of(newest) is not None
    ours, theirs = (
        (copy.edge_digest(end), log.edge_digest(end)) if is_compacted else (copy.digest(newest), log.digest(newest))
    )
    if newest >= 0 and ours != theirs:
        raise ChangeLogError("TM-LOG-016", f"{to.place} has another commit {newest} than {log.store.place}")
    return newest


def _copy(log: ChangeLog, to: Store, path: str) -> None:
    """A small file; a summary may be missing, and one of them may be left of a copy that was interrupted."""
    try:
        data = log.store.read(path)
    except FileNotFoundError:
        return
    with writing(to.where(path)):
        try:
            to.create(path, data)
        except FileExistsError:
            if to.read(path) != data:
                raise ChangeLogError("TM-LOG-016", f"{to.where(path)} has another content") from None


def _copy_segment(store: Store, to: Store, segment: Segment) -> int:
    """Copies one, and returns its bytes; 0 where it is there."""
    with writing(to.where(segment.path)):
        if to.exists(segment.path):
            if to.size(segment.path) == segment.size:
                return 0
            to.delete(segment.path)  # Of a copy that was interrupted.
        upload = to.upload(segment.path)
        try:
            for start in range(0, segment.size, PIECE):
                upload.write(_piece(store, segment, start))
            upload.finish()
        except BaseException:
            upload.discard()
            raise
    return segment.size


def _piece(store: Store, segment: Segment, start: int) -> bytes:
    where = store.where(segment.path)
    try:
        data = store.read(segment.path, start, PIECE)
    except FileNotFoundError:
        raise ChangeLogError("TM-LOG-009", f"{where} is missing") from None
    except OSError as error:
        raise unreadable(where, error) from None
    if len(data) != min(PIECE, segment.size - start):
        raise ChangeLogError("TM-LOG-009", f"{where} is damaged: it has less than the {segment.size} bytes of the log")
    return data
