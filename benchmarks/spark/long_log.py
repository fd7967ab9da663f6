"""A log of many small commits, before and after it is compacted and its first half removed, against one of ten commits.

    python -m benchmarks.spark.long_log [--commits 100000] [--rows 3] [--server | --store s3://bucket/prefix]

What readers do: open the log, find a moment of it, list all segments of a table, look for what is new, and read every
row. Each is a new reader; the log is in a directory of ``TMPDIR``. Rows that are read are compared by their number and
the sum of their offsets. ``--commits 86400`` is a day of one-second commits: its files and bytes are printed, before
and after compaction, which begins at some 1,300 commits.

``--server`` has the log in a bucket of a server that is started for it, ``--store`` in one that there is, and whose
address and keys are in the usual variables ``AWS_…``: see ``benchmarks/buckets.py``. There seconds of the clock come
before those of a processor: requests wait. The log is first written in a directory, and its files are copied into the
bucket side by side, because so many commits one after the other take long: ``benchmarks/capture/commit_latency.py`` has
the time of one. Segments of a bucket are read side by side, too, as Spark's tasks read them.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pyarrow.compute as pc

from benchmarks.buckets import Bucket, bucket, emptied
from benchmarks.log_rows import SCHEMA, documents
from tidemark.protocol.changelog import ChangeLog, Segment
from tidemark.protocol.changelog.segment_files import SegmentFile
from tidemark.protocol.store import Store
from tidemark.protocol.store.local import DirectoryStore
from tidemark.runtime.changelog.compaction.runs import RunLimits
from tidemark.runtime.changelog.retention.next_start import Retain
from tidemark.runtime.changelog.upkeep import Upkeep, UpkeepRules
from tidemark.runtime.changelog.writer import LogWriter

TABLE = "public/orders"
FEW = 10

LONG_SECONDS = 10.0
"""What takes longer is not measured again."""

READERS = 16
"""Segments of a bucket that are read at once."""


@dataclass
class Took:
    """Seconds of the clock, and of this process's processor time."""

    seconds: float = 0.0
    cpu: float = 0.0


class Logs:
    """Where logs are: beneath a folder, or in a bucket.

    Args:
        folder: Where they are written.
        bucket: Where they are then; None where they stay.
    """

    def __init__(self, folder: Path, bucket: Bucket | None) -> None:
        self._folder = folder
        self._bucket = bucket

    def written(self, name: str, commits: int, rows: int) -> Store:
        """A new log of so many commits."""
        root = self._folder / name
        with _took() as writing:
            _write(root, commits, rows)
        print(f"{commits:,} commits written in {writing.seconds:.0f} s")
        if self._bucket is None:
            return DirectoryStore(root)
        with _took() as copying:
            store = self._bucket.filled(name, DirectoryStore(root))
        shutil.rmtree(root)
        print(f"and their files copied into the bucket in {copying.seconds:.0f} s")
        return store

    def copied(self, name: str, source: str) -> Store:
        """A copy of a log."""
        if self._bucket is not None:
            return self._bucket.copied(name, source)
        return DirectoryStore(shutil.copytree(self._folder / source, self._folder / name))

    def remove(self, name: str) -> None:
        if self._bucket is not None:
            emptied(self._bucket.store(name))
        else:
            shutil.rmtree(self._folder / name)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--commits", type=int, default=100_000)
    parser.add_argument("--rows", type=int, default=3, help="of each commit")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--server", action="store_true", help="in a bucket of a server that is started")
    where.add_argument("--store", metavar="URL", help="in a bucket that there is")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if not arguments.server and arguments.store is None:
            _measure(Logs(folder, None), arguments.commits, arguments.rows)
            return
        with bucket(arguments.store, folder / "server") as place:
            print(f"in a bucket of {place.server}; seconds of the clock, and of a processor")
            _measure(Logs(folder, place), arguments.commits, arguments.rows)


def _measure(logs: Logs, commits: int, rows: int) -> None:
    few, many = logs.written("few.log", FEW, rows), logs.written("many.log", commits, rows)
    _report(f"{FEW} commits", few)
    before = _report(f"{commits:,} commits", many)
    half = logs.copied("half.log", "many.log")
    _trim(half, commits // 2)
    _report("its second half", half)
    logs.remove("half.log")
    _compact(many)
    after = _report("all of it, compacted", many)
    assert after == before, "the rows are not the same"
    _trim(many, commits // 2)
    _report("the second half of that", many)


def _write(root: Path, commits: int, rows: int) -> None:
    with LogWriter.open(root, "long") as log:
        bound = log.bind(TABLE, SCHEMA, ["id"])
        for number in range(commits):
            batch = log.begin()
            batch.add(bound, documents(number * rows, rows))
            log.commit(batch, {"place": number}, 1)


def _compact(store: Store) -> None:
    files, size = _files(store)
    with LogWriter.open(store, "long") as log:
        upkeep = _upkeep(log, None)
        with _took() as took:
            compacted = upkeep.compact(RunLimits())
    rate = f", {size / 1e6 / took.seconds:.1f} MB/s of what there was" if compacted else ""
    print(f"{compacted:,} commits compacted in {took.seconds:.1f} s, {took.cpu:.1f} CPU-s{rate}")
    less_files, less = _files(store)
    print(f"before it {files:,} files, {size / 1e6:.1f} MB; after it {less_files:,} files, {less / 1e6:.1f} MB")


def _trim(store: Store, recent: int) -> None:
    """Removes all but so many commits: nobody needs them."""
    files = _files(store)[0]
    with LogWriter.open(store, "long") as log:
        upkeep = _upkeep(log, Retain(recent=recent))
        with _took() as took:
            upkeep.retain()
    print(f"{files - _files(store)[0]:,} files removed in {took.seconds:.1f} s, {took.cpu:.1f} CPU-s")


def _upkeep(log: LogWriter, retain: Retain | None) -> Upkeep:
    rules = UpkeepRules(RunLimits(), timedelta(), retain)
    return Upkeep(log, rules, lambda: log.commit(log.begin(), log.state, 0), lambda error: print(error))


def _files(store: Store) -> tuple[int, int]:
    """How many files there are, and their bytes."""
    sizes = [entry.size for entry in store.list("")]
    return len(sizes), sum(sizes)


def _report(what: str, store: Store) -> tuple[int, int]:
    """Prints what readers of a log take. Returns its rows, and the sum of their offsets."""
    files, size = _files(store)
    newest = ChangeLog(store)
    start, end = newest.start(), newest.end()
    middle = newest.time_of((start + end) // 2)
    follower = ChangeLog(store)
    follower.latest()
    said = {
        "open": _least(lambda: ChangeLog(store).summary()),
        "a moment": _least(lambda: ChangeLog(store).offset_at(middle)),
        "list": _least(lambda: list(ChangeLog(store).segments(TABLE, start, end))),
        "look": _least(follower.latest),
    }
    with _took() as said["read"]:
        rows, total = _read(store, ChangeLog(store).segments(TABLE, start, end))
    assert rows == end - start, "each event is there once"
    shown = (f"{name} {_shown(took, store)}" for name, took in said.items())
    print(f"{what:24} {files:9,} files {size / 1e6:8.1f} MB  " + "  ".join(shown), flush=True)
    return rows, total


def _read(store: Store, segments: Iterator[Segment]) -> tuple[int, int]:
    """Reads segments. Returns their rows, and the sum of the rows' offsets."""

    def read(segment: Segment) -> tuple[int, int]:
        with SegmentFile.of(segment).opened(store) as file:
            offsets = file.read(columns=["_offset"]).column(0)
            return len(offsets), pc.sum(offsets).as_py()

    rows = total = 0
    with ThreadPoolExecutor(READERS) as readers:
        for some, sum_of_some in map(read, segments) if store.directory is not None else readers.map(read, segments):
            rows, total = rows + some, total + sum_of_some
    return rows, total


def _shown(took: Took, store: Store) -> str:
    """Of a directory, where nothing waits, the processor's time alone."""
    cpu = f"{took.cpu * 1000:,.1f}"
    return f"{cpu} ms" if store.directory is not None else f"{took.seconds * 1000:,.1f} ({cpu}) ms"


def _least(work: Callable[[], object]) -> Took:
    """The least of three, or of as many as begin within some seconds."""
    found: list[Took] = []
    while len(found) < 3 and sum(one.seconds for one in found) < LONG_SECONDS:
        with _took() as took:
            work()
        found.append(took)
    return Took(min(one.seconds for one in found), min(one.cpu for one in found))


@contextmanager
def _took() -> Iterator[Took]:
    """What is spent inside; known at the end."""
    took = Took()
    began, cpu = time.monotonic(), time.process_time()
    yield took
    took.seconds, took.cpu = time.monotonic() - began, time.process_time() - cpu


if __name__ == "__main__":
    main()
