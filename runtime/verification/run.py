"""A verification of several tables: asks the running capture for their rows, and compares each table that is read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime

from tidemark.protocol.actions import Action
from tidemark.protocol.changelog import ChangeLog, Summary
from tidemark.protocol.messages import Control
from tidemark.protocol.store import Store
from tidemark.protocol.verification.files import (
    Begun,
    Ended,
    Verified,
    begin_path,
    end_path,
    read_said,
    run_folder,
    verified_path,
)
from tidemark.runtime.changelog.files.failures import writing
from tidemark.runtime.verification.comparison import Kept, compare
from tidemark.runtime.verification.findings import Comparison, Found
from tidemark.runtime.verification.subjects import Subject

LOOK_SECONDS = 0.2
"""How often it is looked whether a table has been read."""

REQUEST_SECONDS = 2.0
"""The same where that costs requests of an object store."""


def under_way(store: Store, subjects: Iterable[Subject]) -> int | None:
    """The run that read these tables last, and whose result is not known: it is continued."""
    wanted = {subject.collection for subject in subjects}
    runs = set()
    for collection in wanted:
        verified = read_said(store, verified_path(collection), Verified)
        folder = run_folder(collection, 0).rpartition("/")[0]
        numbers = [int(name) for name in store.folders(folder) if name.isdecimal()]
        newest = max(numbers, default=0)
        begun = newest and read_said(store, begin_path(collection, newest), Begun) is not None
        runs.add(newest if begun and (verified is None or verified.run < newest) else 0)
    return runs.pop() if len(runs) == 1 and 0 not in runs else None


def command(subjects: Iterable[Subject], share: float) -> Control:
    """The command to the capture."""
    return Control(sequence=1, action=Action.VERIFY, tables=[subject.name for subject in subjects], share=share)


def results(
    log: ChangeLog,
    run: int,
    subjects: Iterable[Subject],
    look: Callable[[], Callable[[str], bool]],
    kept: Callable[[Subject], Kept | None],
) -> Iterator[tuple[Subject, Found]]:
    """Each table with what was found, as soon as it was read and compared.

    Args:
        log: The log.
        run: The verification.
        subjects: The tables.
        look: Is called while tables are being read, and tells which are captured no more. It may raise to end the wait.
        kept: Gives what reads the rows that Spark has of a table.

    Raises:
        ChangeLogError: The log or files of the verification cannot be read.
    """
    store = log.store
    waiting: dict[str, Subject] = {subject.collection: subject for subject in subjects}
    pause = LOOK_SECONDS if store.directory is not None else REQUEST_SECONDS
    while waiting:
        ended = {name: said for name in waiting if (said := _ended(log, name, run)) is not None}
        for name in ended:
            subject = waiting[name]
            found = compare(log, name, run, all_rows=subject.all_rows, kept=kept(subject))
            if not found.in_log.why:
                _note(store, name, run, found)
            _forget(store, name, run)
            yield subject, found
        waiting = {name: subject for name, subject in waiting.items() if name not in ended}
        if waiting and not ended:
            is_gone = look()
            for name, subject in list(waiting.items()):
                if is_gone(subject.name):
                    del waiting[name]
                    yield subject, Found(Comparison(why="it is captured no more", covered=False), None)
            time.sleep(pause)


def _ended(log: ChangeLog, collection: str, run: int) -> Ended | None:
    """How the verification of a table has ended, once the log has all events up to there."""
    said = read_said(log.store, end_path(collection, run), Ended)
    return said if said is not None and _is_committed(log.summary(), said) else None


def _is_committed(summary: Summary, ended: Ended) -> bool:
    """Whether the commit is there for which it was written: it was written before it."""
    claimed = [number for epoch, number in summary.claims.items() if epoch == ended.epoch]
    later = [number for epoch, number in summary.claims.items() if epoch > ended.epoch]
    if not claimed or ended.commit > summary.number:
        return False
    return claimed[0] <= ended.commit and all(ended.commit < number for number in later)


def _note(store: Store, collection: str, run: int, found: Found) -> None:
    said = Verified(
        collection=collection,
        run=run,
        offset=found.in_log.offset,
        time=datetime.now(UTC),
        rows=found.in_log.rows,
        compared=found.in_log.compared,
        different=found.in_log.different,
        different_in_spark=None if found.in_spark is None or found.in_spark.why else found.in_spark.different,
    )
    path = verified_path(collection)
    with writing(store.where(path)):
        store.replace(path, said.model_dump_json().encode())


def note_repaired(store: Store, collection: str) -> None:
    """Notes that the rows were read again that the last verification of a table has found to differ."""
    path = verified_path(collection)
    if (said := read_said(store, path, Verified)) is not None:
        with writing(store.where(path)):
            store.replace(path, said.model_copy(update={"repaired": True}).model_dump_json().encode())


def _forget(store: Store, collection: str, run: int) -> None:
    """Removes the files of a verification, and of those before it. The beginning goes last: see ``under_way``."""
    parent = run_folder(collection, 0).rpartition("/")[0]
    for number in sorted(int(name) for name in store.folders(parent) if name.isdecimal() and int(name) <= run):
        paths = [entry.path for entry in store.list(run_folder(collection, number))]
        begin = begin_path(collection, number)
        for path in sorted(paths, key=lambda path: path == begin):
            with writing(store.where(path)):
                store.delete(path)
        if store.directory is not None:
            with suppress(OSError):  # It is empty, unless a capture writes into it just now.
                (store.directory / run_folder(collection, number)).rmdir()
