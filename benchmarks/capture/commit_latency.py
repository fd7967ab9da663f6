"""How long a commit of a change log takes, and how many requests it makes, against what nobody can avoid.

    python -m benchmarks.capture.commit_latency [--commits 500] [--store s3://bucket/prefix]

A commit is ``begin``, ``add`` and ``commit`` of a log's writer, from documents on: of one table with one row, of one
with 1,000 rows, and of ten tables with 100 rows each. The log is in a directory of ``TMPDIR``, which should be on a
disk: on tmpfs nothing is synced. Then it is in a bucket, of a server that is started for it, or of ``--store``, which
the usual variables ``AWS_…`` open: see ``benchmarks/buckets.py``.

The peer is what nobody can avoid, after each commit: files of the same sizes, one after the other. In a directory one
is written and synced, gets its name by ``link``, so that it replaces no other, and its folder is synced. In a bucket it
is one conditional ``put`` of obstore. Each hundredth commit writes a summary as well, and its peer does not: p99 may
show it. Requests are counted on the way to the server that is started, by other commits than those that are timed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import obstore

from benchmarks.buckets import Bucket, bucket
from benchmarks.log_rows import SCHEMA, documents
from benchmarks.results import note
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.changelog.layout import COMMITS, SUMMARY_EVERY, commit_name
from tidemark.protocol.store import Store
from tidemark.protocol.store.local import DirectoryStore
from tidemark.protocol.store.objects import ObjectStore
from tidemark.runtime.changelog.documents.bound_collection import BoundCollection
from tidemark.runtime.changelog.writer import LogWriter
from tidemark.testing.http_faults import Fault, http_faults

WARM = 10
"""Commits before those that are timed: threads and connections are made."""

COUNTED = 20
"""Commits whose requests are counted: too few for a summary."""

Files = list[tuple[str, int]]
"""The paths of files, and their bytes."""

Write = Callable[[str, bytes], None]
"""Creates a file of a path with bytes."""


@dataclass(frozen=True)
class Kind:
    """What a commit has: so many tables, with so many rows each."""

    tables: int
    rows: int

    @property
    def name(self) -> str:
        return f"{self.tables}_{self.rows}"

    def __str__(self) -> str:
        tables = "1 table" if self.tables == 1 else f"{self.tables} tables"
        return f"{tables} of {self.rows:,} row{'s' if self.rows > 1 else ''}"


KINDS = (Kind(1, 1), Kind(1, 1000), Kind(10, 100))


@dataclass
class Taken:
    """Milliseconds, of each commit one."""

    ours: list[float] = field(default_factory=list)
    peer: list[float] = field(default_factory=list)


class Commits:
    """Makes commits of one kind.

    Args:
        log: That they are in.
        kind: What each of them has.
    """

    def __init__(self, log: LogWriter, kind: Kind) -> None:
        self._log = log
        self._kind = kind
        self._bound = [log.bind(f"public/table_{table}", SCHEMA, ["id"]) for table in range(kind.tables)]
        self._made = 0

    def commit(self) -> tuple[float, Files]:
        """Makes the next commit. Returns its milliseconds, and the files of it."""
        documents = self._documents()
        began = time.perf_counter()
        batch = self._log.begin()
        for bound, of_table in documents:
            batch.add(bound, of_table)
        commit = self._log.commit(batch, {"place": self._made}, 1)
        taken = (time.perf_counter() - began) * 1000
        path = f"{COMMITS}/{commit_name(commit.number)}"
        size = len(commit.model_dump_json().encode())
        return taken, [*((one.path, one.size) for one in commit.segments), (path, size)]

    def _documents(self) -> list[tuple[BoundCollection, list[bytes]]]:
        first, self._made = self._made * self._kind.rows, self._made + 1
        return [(bound, documents(first, self._kind.rows)) for bound in self._bound]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--commits", type=int, default=500)
    parser.add_argument("--store", metavar="URL", help="a bucket that there is")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        own = stack.enter_context(bucket(None, folder / "server"))
        timed = own if arguments.store is None else stack.enter_context(bucket(arguments.store, folder))
        print(f"the bucket is of {timed.server}; {arguments.commits:,} commits of each kind, milliseconds")
        print(f"{'':10} {'a commit of':22} {'p50':>8} {'p99':>8}  {'peer p50':>8} {'p99':>8}  {'ratio':>5}  requests")
        for kind in KINDS:
            log, peer = DirectoryStore(folder / f"log_{kind.name}"), Linked(folder / f"peer_{kind.name}")
            _report("a folder", kind, _timed(log, kind, peer.write, arguments.commits))
        for kind in KINDS:
            write = partial(_put, timed.store(f"peer_{kind.name}"))
            taken = _timed(timed.store(f"log_{kind.name}"), kind, write, arguments.commits)
            _report("a bucket", kind, taken, _requests(own, kind))


def _timed(store: Store, kind: Kind, write: Write, count: int) -> Taken:
    """Makes commits, and writes files of the sizes of each of them after it."""
    taken = Taken()
    with LogWriter.open(store, "latency") as log:
        commits = Commits(log, kind)
        for number in range(WARM + count):
            ours, files = commits.commit()
            contents = [(path, os.urandom(size)) for path, size in files]
            began = time.perf_counter()
            for path, data in contents:
                write(path, data)
            peer = (time.perf_counter() - began) * 1000
            if number >= WARM:
                taken.ours.append(ours)
                taken.peer.append(peer)
    rows = (WARM + count) * kind.tables * kind.rows
    assert ChangeLog(store).end() == rows, "each event is in the log once"
    return taken


class Linked:
    """Durable files beneath a folder. Each is there as a whole or not at all, and none replaces another one."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._folders: set[str] = set()

    def write(self, path: str, data: bytes) -> None:
        folder = f"{self._root}/{path.rpartition('/')[0]}"
        if folder not in self._folders:
            Path(folder).mkdir(parents=True)
            self._folders.add(folder)
        temporary = f"{folder}/.temporary"
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        os.write(file, data)
        os.fsync(file)
        os.close(file)
        os.link(temporary, f"{self._root}/{path}")
        os.unlink(temporary)  # noqa: PTH108 - a Path costs more
        names = os.open(folder, os.O_RDONLY)
        os.fsync(names)
        os.close(names)


def _put(store: ObjectStore, path: str, data: bytes) -> None:
    obstore.put(store.client, path, data, mode="create", use_multipart=False)


def _requests(own: Bucket, kind: Kind) -> str:
    """The requests of a commit."""
    assert own.settings is not None
    assert own.settings.endpoint is not None
    assert COUNTED < SUMMARY_EVERY
    asked: list[str] = []

    def note(method: str, path: str) -> Fault:
        asked.append(method)
        return Fault.NONE

    with http_faults(own.settings.endpoint, note) as proxy:
        seen = replace(own, settings=replace(own.settings, endpoint=proxy.address))
        with LogWriter.open(seen.store(f"counted_{kind.name}"), "latency") as log:
            commits = Commits(log, kind)
            found: list[Counter[str]] = []
            for _ in range(COUNTED):
                asked.clear()
                commits.commit()
                found.append(Counter(asked))
    most, times = Counter(frozenset(one.items()) for one in found).most_common(1)[0]
    shown = f"{sum(count for _, count in most)}: " + ", ".join(f"{count} {name}" for name, count in sorted(most))
    return shown if times == COUNTED else f"{shown} (of {times} of {COUNTED} commits)"


def _report(where: str, kind: Kind, taken: Taken, requests: str = "") -> None:
    ours, peer = _percentiles(taken.ours), _percentiles(taken.peer)
    print(
        f"{where:10} {kind!s:22} {ours[0]:8.2f} {ours[1]:8.2f}  {peer[0]:8.2f} {peer[1]:8.2f}  "
        f"{ours[0] / peer[0]:5.2f}  {requests}".rstrip(),
        flush=True,
    )

    sides = {"a script that writes the same files": peer, "tidemark": ours}
    measures = {side: {"p50 milliseconds": p50, "p99 milliseconds": p99} for side, (p50, p99) in sides.items()}
    note(f"a commit of {kind} in {where}", measures, rounds=len(taken.ours))


def _percentiles(taken: Sequence[float]) -> tuple[float, float]:
    """The median, and what 99 of 100 take at most."""
    return statistics.median(taken), statistics.quantiles(taken, n=100, method="inclusive")[98]


if __name__ == "__main__":
    main()
