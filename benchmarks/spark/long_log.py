"""A log of many small commits, before and after it is compacted and its first half removed, against one of ten commits.

    python -m benchmarks.spark.long_log [--commits 100000] [--rows 3]

What readers do: open the log, find a moment of it, list all segments of a table, look for what is new, and read every
row. Each is a new reader; the log is in a directory of ``TMPDIR``. Rows that are read are compared by their number and
the sum of their offsets.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import orjson
import pyarrow.compute as pc

from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.changelog.segment_files import SegmentFile
from tidemark.runtime.changelog.compaction.runs import RunLimits
from tidemark.runtime.changelog.retention.next_start import Retain
from tidemark.runtime.changelog.upkeep import Upkeep, UpkeepRules
from tidemark.runtime.changelog.writer import LogWriter

TABLE = "public/orders"
SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["id"],
    "properties": {"_meta": {}, "id": {"type": "integer"}, "note": {"type": ["string", "null"]}},
}
FEW = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--commits", type=int, default=100_000)
    parser.add_argument("--rows", type=int, default=3, help="of each commit")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        few, many = Path(name) / "few.log", Path(name) / "many.log"
        _write(few, FEW, arguments.rows)
        began = time.monotonic()
        _write(many, arguments.commits, arguments.rows)
        print(f"{arguments.commits:,} commits written in {time.monotonic() - began:.0f} s")
        _report(f"{FEW} commits", few)
        before = _report(f"{arguments.commits:,} commits", many)
        half = Path(shutil.copytree(many, Path(name) / "half.log"))
        _trim(half, arguments.commits // 2)
        _report("its second half", half)
        shutil.rmtree(half)
        _compact(many)
        after = _report("all of it, compacted", many)
        assert after == before, "the rows are not the same"
        _trim(many, arguments.commits // 2)
        _report("the second half of that", many)


def _write(root: Path, commits: int, rows: int) -> None:
    with LogWriter.open(root, "long") as log:
        bound = log.bind(TABLE, SCHEMA, ["id"])
        for number in range(commits):
            batch = log.begin()
            batch.add(
                bound,
                [
                    orjson.dumps({"_meta": {"op": "u", "source": {}}, "id": number * rows + row, "note": f"{number}"})
                    for row in range(rows)
                ],
            )
            log.commit(batch, {"place": number}, 1)


def _compact(root: Path) -> None:
    size = _files(root)[1]
    with LogWriter.open(root, "long") as log:
        upkeep = _upkeep(log, None)
        began, cpu = time.monotonic(), time.process_time()
        compacted = upkeep.compact(RunLimits())
        seconds, cpu = time.monotonic() - began, time.process_time() - cpu
    print(
        f"{compacted:,} commits compacted in {seconds:.1f} s, {cpu:.1f} CPU-s, "
        f"{size / 1e6 / seconds:.1f} MB/s of what there was"
    )


def _trim(root: Path, recent: int) -> None:
    """Removes all but so many commits: nobody needs them."""
    files = _files(root)[0]
    with LogWriter.open(root, "long") as log:
        upkeep = _upkeep(log, Retain(recent=recent))
        began, cpu = time.monotonic(), time.process_time()
        upkeep.retain()
        seconds, cpu = time.monotonic() - began, time.process_time() - cpu
    print(f"{files - _files(root)[0]:,} files removed in {seconds:.1f} s, {cpu:.1f} CPU-s")


def _upkeep(log: LogWriter, retain: Retain | None) -> Upkeep:
    rules = UpkeepRules(RunLimits(), timedelta(), retain)
    return Upkeep(log, rules, lambda: log.commit(log.begin(), log.state, 0), lambda error: print(error))


def _files(root: Path) -> tuple[int, int]:
    sizes = [path.stat().st_size for path in root.rglob("*") if path.is_file()]
    return len(sizes), sum(sizes)


def _report(what: str, root: Path) -> tuple[int, int]:
    files, size = _files(root)
    newest = ChangeLog(root)
    start, end = newest.start(), newest.end()
    middle = newest.time_of((start + end) // 2)
    follower = ChangeLog(root)
    follower.latest()
    said = {
        "open": _seconds(lambda: ChangeLog(root).summary()),
        "a moment": _seconds(lambda: ChangeLog(root).offset_at(middle)),
        "list": _seconds(lambda: list(ChangeLog(root).segments(TABLE, start, end))),
        "look": _seconds(follower.latest),
    }
    began = time.process_time()
    rows = total = 0
    for segment in ChangeLog(root).segments(TABLE, start, end):
        with SegmentFile.of(segment).opened(root) as file:
            offsets = file.read(columns=["_offset"]).column(0)
            rows, total = rows + len(offsets), total + pc.sum(offsets).as_py()
    said["read"] = time.process_time() - began
    assert rows == end - start, "each event is there once"
    print(
        f"{what:24} {files:9,} files {size / 1e6:8.1f} MB  "
        + "  ".join(f"{name} {seconds * 1000:,.1f} ms" for name, seconds in said.items())
    )
    return rows, total


def _seconds(work: Callable[[], object]) -> float:
    """Of a processor, the least of three."""
    found = []
    for _ in range(3):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


if __name__ == "__main__":
    main()
