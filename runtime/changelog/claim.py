"""Takes over a change log: what a process must do before it writes one, and without what writing itself needs.

A writer takes over a log by an empty commit with the next epoch. Importing this imports no Arrow, which takes long to
load: a capture claims its log before it asks its connector anything.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from tidemark.protocol.changelog import layout
from tidemark.protocol.changelog.models import FORMAT_VERSION, Commit, LogHeader, Summary
from tidemark.protocol.changelog.reader import ChangeLog, digest_of
from tidemark.protocol.changelog.summaries import advance
from tidemark.protocol.errors import ChangeLogError
from tidemark.runtime.changelog.files import storage
from tidemark.runtime.changelog.files.sweep import sweep

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Claim:
    """A log that belongs to this process.

    Attributes:
        lock: Keeps other processes of this machine from it.
        summary: The log after the commit that claims it.
        previous: The hash of that commit.
        writer: An id of whoever claims it, which each of its commits has.
    """

    root: Path
    lock: storage.WriterLock
    summary: Summary
    previous: str
    log_id: str
    writer: str


def claimed(root: Path, capture: str, log_id: str = "", lock: storage.WriterLock | None = None) -> Claim:
    """Creates a log, or takes it over from an earlier writer and deletes the unfinished files of that writer.

    Args:
        root: Its directory, which is created if it does not exist.
        capture: The name of the capture to which the log belongs.
        log_id: The id of a log that must exist; then none is created.
        lock: The log's, if this process holds it. It is released with an error, and by whoever gets the claim.

    Raises:
        ChangeLogError: ``TM-LOG-005`` another capture's log, ``TM-LOG-006`` another process of this machine writes
            it, ``TM-LOG-008`` it cannot be written, ``TM-LOG-002`` to ``TM-LOG-004``, ``TM-LOG-011`` and
            ``TM-LOG-012`` as ``ChangeLog``, ``TM-LOG-013`` it is not there.
    """
    found = _existing(root, capture)  # before the lock: another capture's log is the better explanation
    if log_id and (found is None or found.header.log_id != log_id):
        raise ChangeLogError("TM-LOG-013", f"the change log {log_id} of capture {capture} is no longer at {root}")
    storage.make_folder(root)
    lock = storage.WriterLock(root / layout.LOCK) if lock is None else lock
    try:
        log = _existing(root, capture) or _created(root, capture)
        _upgrade(log)
        writer = uuid4().hex
        summary, previous = _claim(log, writer)
        sweep(root, summary)
    except BaseException:
        lock.release()
        raise
    return Claim(root, lock, summary, previous, log.header.log_id, writer)


def _existing(root: Path, capture: str) -> ChangeLog | None:
    """The log at ``root`` if there is one, which must be this capture's."""
    try:
        log = ChangeLog(root)
    except ChangeLogError as error:
        if error.code != "TM-LOG-001":
            raise
        return None
    if log.header.capture != capture:
        raise ChangeLogError(
            "TM-LOG-005", f"{root} is the change log of the capture {log.header.capture!r}, not of {capture!r}"
        )
    return log


def _created(root: Path, capture: str) -> ChangeLog:
    """Creates a log, or opens the one that another machine, without our lock, created first."""
    if any((root / layout.COMMITS).glob("*.json")):
        raise ChangeLogError("TM-LOG-004", f"{root / layout.HEADER} is missing, but {root} holds commits")
    header = LogHeader(log_id=str(uuid4()), capture=capture, created=datetime.now(UTC))
    with suppress(FileExistsError):
        storage.publish(root / layout.HEADER, header.model_dump_json(indent=2).encode(), epoch=0)
        logger.info("created the change log %s", root)
    log = _existing(root, capture)
    if log is None:
        raise ChangeLogError("TM-LOG-001", f"{root / layout.HEADER} disappeared while the log was being opened")
    return log


def _upgrade(log: ChangeLog) -> None:
    """Makes a log of an earlier version one of this version. Its commits and segments stay as they are."""
    if log.header.format_version == FORMAT_VERSION:
        return
    header = log.header.model_copy(update={"format_version": FORMAT_VERSION})
    storage.replace(log.root / layout.HEADER, header.model_dump_json(indent=2).encode())
    logger.info("%s has format version %d from now on; earlier versions cannot read it", log.root, FORMAT_VERSION)


def _claim(log: ChangeLog, writer: str) -> tuple[Summary, str]:
    """Takes the next epoch by an empty commit of it. Returns the log after it, and the hash of that commit."""
    storage.make_folder(log.root / layout.COMMITS)
    while True:
        summary = log.summary()
        if summary.number < 0 and any(storage.files(log.root / layout.DATA)):
            raise ChangeLogError("TM-LOG-004", f"the commits in {log.root / layout.COMMITS} are missing")
        claim = Commit(
            number=summary.number + 1,
            epoch=summary.epoch + 1,
            time=datetime.now(UTC),
            first_offset=summary.next_offset,
            next_offset=summary.next_offset,
            previous=log.digest(summary.number) if summary.number >= 0 else "",
            writer=writer,
        )
        try:
            return write_commit(log.root, claim, summary)
        except FileExistsError:
            logger.info("another writer made commit %d of %s meanwhile: reading the log again", claim.number, log.root)


def write_commit(root: Path, commit: Commit, summary: Summary) -> tuple[Summary, str]:
    """Writes a commit, and a summary if one is due. Raises ``FileExistsError`` if its number is taken.

    Returns:
        The log after it, and the hash of its file.
    """
    folder = root / layout.COMMITS
    data = commit.model_dump_json().encode()
    storage.publish(folder / layout.commit_name(commit.number), data, commit.epoch)
    summary = advance(summary, commit)
    if commit.number % layout.SUMMARY_EVERY == 0:
        storage.publish(folder / layout.summary_name(commit.number), summary.model_dump_json().encode(), commit.epoch)
    return summary, digest_of(data)
