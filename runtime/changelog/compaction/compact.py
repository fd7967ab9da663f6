"""Makes one file of a run of commits. It counts once a commit names it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import reduce
from itertools import count

from tidemark.protocol.changelog import ChangeLog, Segment, layout
from tidemark.protocol.changelog.commit_files import digest_of
from tidemark.protocol.changelog.compacted_commit import EDGE_DIGITS, CompactedCommit, Edge
from tidemark.protocol.changelog.models import Replacement, StateChange
from tidemark.protocol.changelog.summaries import with_replacements
from tidemark.protocol.state import difference
from tidemark.runtime.changelog.compaction.joined_segments import JoinedSegments
from tidemark.runtime.changelog.compaction.runs import Run
from tidemark.runtime.changelog.files.failures import writing


def compact(
    log: ChangeLog, run: Run, number: int, epoch: int, numbers: count[int], go_on: Callable[[], None]
) -> Replacement:
    """Compacts a run, durably: its segments, the summary after it, and the file that names them.

    Args:
        log: The log.
        run: Of the log.
        number: Of the next commit.
        epoch: Of this writer.
        numbers: Count the files that this writer has made.
        go_on: Is asked every now and then; raises to end. Then nothing of it stays.

    Raises:
        ChangeLogError: ``TM-LOG-009`` a segment is missing or damaged; ``TM-LOG-008``; others as ``ChangeLog``.
    """
    writing_segments = JoinedSegments(log.store, number, epoch, numbers, go_on)
    try:
        compacted = _compacted(log, run, epoch, writing_segments)
        with writing():
            log.store.sync(writing_segments.made)
        go_on()
        summary = layout.summary_path(compacted.number)
        with suppress(FileExistsError), writing(log.store.where(summary)):
            log.store.create(summary, run.after.model_dump_json().encode())
        data = compacted.model_dump_json().encode()
        path = f"{layout.COMMITS}/{layout.compacted_name(compacted.first, compacted.number, epoch)}"
        with writing(log.store.where(path)):
            log.store.replace(path, data)  # An attempt before may have left one that no commit names.
    except BaseException:
        for made in writing_segments.made:
            with writing():
                log.store.delete(made)
        raise
    return Replacement(
        first=compacted.first,
        last=compacted.number,
        first_offset=compacted.first_offset,
        next_offset=compacted.next_offset,
        path=path,
        digest=digest_of(data),
        time=datetime.now(UTC),
    )


def _compacted(log: ChangeLog, run: Run, epoch: int, segments: JoinedSegments) -> CompactedCommit:
    by_collection: dict[str, list[Segment]] = {}
    for commit in run.commits:
        for segment in commit.segments:
            by_collection.setdefault(segment.collection, []).append(segment)
    of_all = [segments.joined(found, run.after.schemas) for found in by_collection.values()]
    change = difference(run.before.state, run.after.state)
    first, last = run.commits[0], run.commits[-1]
    names = list(by_collection)
    return CompactedCommit(
        number=last.number,
        first=run.first,
        epoch=run.after.epoch,
        time=last.time,
        first_offset=first.first_offset,
        next_offset=last.next_offset,
        previous=first.previous,
        writer=last.writer,
        checkpoints=sum(commit.checkpoints for commit in run.commits),
        state=StateChange(updated=change)
        if change is not None
        else StateChange(updated=run.after.state, merge_patch=False),
        replacements=reduce(with_replacements, (commit.replacements for commit in run.commits), []),
        log_start=next((one.log_start for one in reversed(run.commits) if one.log_start is not None), None),
        segments=sorted((one for found in of_all for one in found), key=lambda one: one.first_offset),
        last_digest=log.digest(last.number),
        claims={epoch: at for epoch, at in run.after.claims.items() if at > run.before.number},
        collections=names,
        written=[_written(run, name) for name in names],
        edges=list(_edges(log, run, {name: place for place, name in enumerate(names)})),
    )


def _written(run: Run, collection: str) -> int:
    """The bytes of a collection's segments as they were committed first."""
    before, after = run.before.totals.get(collection), run.after.totals[collection]
    return after.bytes - (0 if before is None else before.bytes)


def _edges(log: ChangeLog, run: Run, places: dict[str, int]) -> Iterator[Edge]:
    """Where commits with events ended."""
    for place, commit in enumerate(run.commits):
        if isinstance(commit, CompactedCommit):
            own = [places[name] for name in commit.collections]
            for edge in commit.edges:
                yield edge._replace(rows={own[place]: rows for place, rows in edge.rows.items()})
        elif commit.next_offset > commit.first_offset:
            following = run.commits[place + 1] if place + 1 < len(run.commits) else None
            digest = "" if following is None else following.previous
            rows: dict[int, int] = {}
            for segment in commit.segments:
                at = places[segment.collection]
                rows[at] = rows.get(at, 0) + segment.rows
            yield Edge(commit.next_offset, commit.time, (digest or log.digest(commit.number))[:EDGE_DIGITS], rows)
