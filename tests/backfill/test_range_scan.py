from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.backfill.events import observe
from tidemark.backfill.fence import TransactionId
from tidemark.backfill.hidden import HiddenSet
from tidemark.backfill.keys import Key, TouchedKeys
from tidemark.backfill.limits import Limits
from tidemark.backfill.range_scan import ChunkPlan, Emission, RangeScan
from tidemark.backfill.range_state import Pages
from tidemark.backfill.ranges import TableRanges

PAGES = Pages("16402", b"9")


@dataclass(frozen=True)
class Fence:
    high: int = 0
    hidden: frozenset[TransactionId] = frozenset()

    def hides(self, txn: TransactionId) -> bool:
        return txn in self.hidden


def keys(*numbers: int) -> list[Key]:
    return [b"%d" % number for number in numbers]


def only(ranges: TableRanges) -> RangeScan:
    (scan,) = ranges.idle()
    return scan


def start(scan: RangeScan, hidden: HiddenSet | None = None, fence: Fence | None = None) -> ChunkPlan:
    plan = scan.start(0, hidden or HiddenSet())
    assert scan.fenced(fence or Fence())
    return plan


def finish(
    scan: RangeScan, rows: list[Key], rereads: list[Key] | None = None, *, end: bool = False, cursor: Key | None = None
) -> Emission:
    scan.read(rows, rereads or [], end, cursor)
    assert scan.ready(0)
    return scan.emit()


def touched(*numbers: int, partial: bool = False) -> TouchedKeys:
    result = TouchedKeys()
    for key in keys(*numbers):
        result.add(key, partial)
    return result


def test_scan_goes_chunk_by_chunk_to_the_end() -> None:
    ranges = TableRanges("t")
    scan = only(ranges)
    assert start(scan) == ChunkPlan(None, (), scan=True)
    assert finish(scan, keys(1, 2)) == Emission(None, (), 0, 0, 0, progressed=True)
    assert start(scan) == ChunkPlan(b"2", (), scan=True)
    assert finish(scan, keys(3), end=True).keep is None
    assert (ranges.done, ranges.rows, ranges.idle()) == (True, 3, [])


def test_in_flight_from_start_to_emit() -> None:
    scan = only(TableRanges("t"))
    stages = [scan.in_flight]
    start(scan)
    stages.append(scan.in_flight)
    finish(scan, [], end=True)
    stages.append(scan.in_flight)
    assert stages == [False, True, False]


def test_where_a_scan_goes_on_is_known_when_no_chunk_is_being_read() -> None:
    scan = only(TableRanges("t"))
    known: list[tuple[bool, Key | None]] = [(scan.splittable, scan.ahead)]
    start(scan)
    known.append((scan.splittable, scan.ahead))
    scan.read(keys(1, 2), [], end=False)
    known.append((scan.splittable, scan.ahead))
    scan.emit()
    known.append((scan.splittable, scan.ahead))
    start(scan)
    scan.read(keys(3), [], end=True)
    known.append((scan.splittable, scan.ahead))
    assert known == [(True, None), (False, None), (True, b"2"), (True, b"2"), (False, b"3")]


def test_a_cut_behind_what_was_read_makes_no_row_come_twice() -> None:
    ranges = TableRanges("t")
    scan = only(ranges)
    start(scan)
    scan.read(keys(1, 2), [], end=False)
    assert scan.ahead == b"2"
    (rest,) = ranges.split(scan, keys(4))
    assert scan.emit().keep is None
    assert (scan.range.cursor, scan.range.until, rest.range.cursor) == (b"2", b"4", b"4")


def test_window_rows_are_dropped_and_the_others_kept_as_slices() -> None:
    ranges = TableRanges("t")
    scan = only(ranges)
    start(scan)
    for key in keys(1, 4, 5, 8, 99):
        observe(ranges, key, partial=False)
    emission = finish(scan, keys(1, 2, 3, 4, 5, 6, 7, 8))
    assert emission.keep == (slice(1, 3), slice(5, 7))
    assert (emission.dropped, emission.cut, emission.progressed) == (4, 0, True)
    assert (scan.rows, scan.range.cursor) == (8, b"8")


def test_a_chunk_may_be_dropped_whole_row_by_row() -> None:
    ranges = TableRanges("t")
    scan = only(ranges)
    start(scan)
    ranges.observe_all(touched(1, 2))
    emission = finish(scan, keys(1, 2), end=True)
    assert (emission.keep, emission.dropped, emission.progressed) == ((), 2, True)
    assert ranges.done


def test_events_outside_a_chunk_do_not_count() -> None:
    ranges = TableRanges("t")
    scan = only(ranges)
    observe(ranges, b"1", partial=False)
    ranges.observe_all(touched(1))
    ranges.truncate()
    for row in (1, 2):
        start(scan)
        assert finish(scan, keys(row)).keep is None


def test_ready_needs_fence_rows_and_position() -> None:
    scan = only(TableRanges("t"))
    assert not scan.ready(100)
    scan.start(5, HiddenSet())
    assert not scan.ready(100)
    scan.read(keys(1), [], False)
    assert not scan.ready(100)
    assert scan.fenced(Fence(high=20))
    assert not scan.ready(19)
    assert scan.ready(20)


def test_only_hidden_transactions_that_the_fence_hides_count() -> None:
    hidden = HiddenSet()
    hidden.add(1, {"t": touched(1)}, frozenset({"t"}))
    hidden.add(2, {"t": touched(2)}, frozenset({"t"}))
    hidden.add(3, {"other": touched(3)}, frozenset({"t", "other"}))
    scan = only(TableRanges("t"))
    start(scan, hidden, Fence(hidden=frozenset({2, 3})))
    assert finish(scan, keys(1, 2, 3)).keep == (slice(0, 1), slice(2, 3))


def test_fence_that_hides_unknown_keys_refuses_the_chunk() -> None:
    hidden = HiddenSet()
    hidden.restore([7])
    scan = only(TableRanges("t"))
    scan.start(0, hidden)
    assert not scan.fenced(Fence(hidden=frozenset({7})))
    scan.read(keys(1), [], False)
    assert not scan.ready(1_000)
    scan.abandon()
    start(scan, hidden, Fence())
    assert finish(scan, keys(1)).keep is None


@pytest.mark.parametrize("keyless", [False, True])
def test_fence_that_hides_a_truncate_refuses_the_chunk(keyless: bool) -> None:
    truncated = TouchedKeys()
    truncated.truncate()
    hidden = HiddenSet()
    hidden.add(7, {"t": truncated})
    scan = only(TableRanges("t", pages=PAGES, keyless=keyless))
    scan.start(0, hidden)
    assert not scan.fenced(Fence(hidden=frozenset({7})))


@pytest.mark.parametrize("overflow", [False, True])
def test_everything_drops_the_chunk_and_leaves_the_state(overflow: bool) -> None:
    ranges = TableRanges("t", limits=Limits(window=2))
    scan = only(ranges)
    start(scan)
    observe(ranges, b"1", partial=True)
    finish(scan, keys(1, 2))
    before = ranges.to_state()
    start(scan)
    if overflow:
        ranges.observe_all(touched(11, 12, 13))
    else:
        ranges.truncate()
    emission = finish(scan, keys(3, 4), keys(1), end=True)
    assert emission == Emission((), (), 2, 1, 0, progressed=False)
    assert ranges.to_state() == before
    assert start(scan).rereads == (b"1",)


def test_too_many_keys_of_hidden_and_later_transactions_together_drop_the_chunk() -> None:
    hidden = HiddenSet()
    hidden.add(7, {"t": touched(1, 2)})
    ranges = TableRanges("t", limits=Limits(window=2))
    scan = only(ranges)
    start(scan, hidden, Fence(hidden=frozenset({7})))
    observe(ranges, b"3", partial=False)
    assert not finish(scan, keys(4), end=True).progressed


def test_partially_touched_row_is_reread_until_it_comes_through() -> None:
    ranges = TableRanges("t")
    scan = only(ranges)
    start(scan)
    observe(ranges, b"1", partial=True)
    assert finish(scan, keys(1, 2), end=True).keep == (slice(1, 2),)
    for _ in range(2):
        scan = only(ranges)
        assert start(scan) == ChunkPlan(None, (b"1",), scan=False)
        observe(ranges, b"1", partial=True)
        emission = finish(scan, [], keys(1))
        assert (emission.keep_rereads, emission.dropped_rereads, emission.progressed) == ((), 1, False)
        assert not ranges.done
    scan = only(ranges)
    start(scan)
    assert finish(scan, [], keys(1)) == Emission(None, (0,), 0, 0, 0, progressed=True)
    assert ranges.done


@pytest.mark.parametrize("found", [[], [b"1"]], ids=["deleted", "given by the log"])
def test_reread_ends_without_a_row(found: list[Key]) -> None:
    ranges = TableRanges.from_state("t", {"rereads": [["1"]], "scanned": True})
    scan = only(ranges)
    start(scan)
    if found:
        observe(ranges, b"1", partial=False)
    emission = finish(scan, [], found)
    assert (emission.keep_rereads, emission.progressed) == ((), True)
    assert ranges.done


def test_chunk_is_cut_where_the_reread_list_is_full() -> None:
    ranges = TableRanges("t", limits=Limits(reread_bytes=16, reread_least=1))
    scan = only(ranges)
    start(scan)
    for key in keys(2, 4, 6):
        observe(ranges, key, partial=True)
    emission = finish(scan, keys(1, 2, 3, 4, 5, 6, 7), end=True)
    assert emission.keep == (slice(0, 1), slice(2, 3), slice(4, 5))
    assert (emission.dropped, emission.cut) == (2, 2)
    assert ranges.to_state() == {
        "rows": 5,
        "ranges": [{"cursor": ["5"]}],
        "rereads": [["2"], ["4"]],
        "overflows": 0,
        "done": False,
    }
    assert start(scan) == ChunkPlan(b"5", (b"2", b"4"), scan=True)
    finish(scan, keys(6, 7), keys(2, 4), end=True)
    assert ranges.done


def test_a_chunk_reads_a_few_rereads_and_what_did_not_come_through_waits_for_the_others() -> None:
    state = {"rereads": [["1"], ["2"], ["3"], ["4"]], "scanned": True}
    ranges = TableRanges.from_state("t", state, limits=Limits(rereads_per_chunk=2))
    scan = only(ranges)
    assert start(scan).rereads == (b"1", b"2")
    observe(ranges, b"1", partial=True)
    finish(scan, [], keys(1, 2))
    assert start(scan).rereads == (b"3", b"4")
    finish(scan, [], keys(3, 4))
    assert start(scan).rereads == (b"1",)
    finish(scan, [], keys(1))
    assert ranges.done


def test_abandoned_chunk_leaves_the_state_as_it_was() -> None:
    ranges = TableRanges.from_state("t", {"cursor": ["1"], "rows": 1, "rereads": [["7"]]})
    before = ranges.to_state()
    scan = only(ranges)
    assert start(scan).rereads == (b"7",)
    observe(ranges, b"2", partial=True)
    scan.read(keys(2), [], True)
    scan.abandon()
    scan.abandon()
    assert not scan.in_flight
    assert ranges.to_state() == before
    assert start(scan).rereads == (b"7",)
    assert finish(scan, keys(2)).keep is None


def test_physical_scan_goes_on_at_the_page_that_it_is_told() -> None:
    ranges = TableRanges("t", pages=PAGES)
    scan = only(ranges)
    assert start(scan) == ChunkPlan(None, (), scan=True, until=b"9", physical=True)
    assert finish(scan, keys(70, 3), cursor=b"4").keep is None
    assert ranges.to_state()["ranges"] == [{"cursor": ["4"], "until": ["9"], "file": "16402"}]
    start(scan)
    assert finish(scan, [], cursor=b"8").progressed
    start(scan)
    with pytest.raises(RuntimeError, match="must give the page"):
        scan.read(keys(1), [], False)
    finish(scan, keys(1), end=True)
    assert ranges.done and ranges.rows == 3


def test_physical_chunk_is_never_cut() -> None:
    ranges = TableRanges("t", pages=PAGES, limits=Limits(reread_bytes=8, reread_least=1))
    scan = only(ranges)
    start(scan)
    for key in keys(1, 2, 3):
        observe(ranges, key, partial=True)
    emission = finish(scan, keys(1, 2, 3, 4), cursor=b"4")
    assert (emission.keep, emission.cut) == ((slice(3, 4),), 0)
    assert start(scan) == ChunkPlan(b"4", (b"1", b"2", b"3"), scan=True, until=b"9", physical=True)


def test_rows_without_keys_are_emitted_whatever_the_log_touched() -> None:
    ranges = TableRanges("t", pages=PAGES, keyless=True, limits=Limits(window=2))
    scan = only(ranges)
    start(scan)
    for key in keys(1, 2, 3):
        observe(ranges, key, partial=True, inserted=True)
    ranges.observe_all(touched(1, 2, 3, partial=True))
    ranges.request_reread(b"1")
    assert finish(scan, [b"", b""], cursor=b"4") == Emission(None, (), 0, 0, 0, progressed=True)
    start(scan)
    ranges.truncate()
    assert finish(scan, [b""], end=True) == Emission((), (), 1, 0, 0, progressed=False)
    assert ranges.to_state()["rereads"] == []


def test_steps_out_of_order_are_refused() -> None:
    scan = only(TableRanges("t"))
    for step in (scan.emit, lambda: scan.read([], [], True), lambda: scan.fenced(Fence())):
        with pytest.raises(RuntimeError, match="no chunk is in flight"):
            step()
    scan.start(0, HiddenSet())
    with pytest.raises(RuntimeError, match="not ready"):
        scan.emit()
    with pytest.raises(RuntimeError, match="in flight"):
        scan.start(0, HiddenSet())
    ranges = TableRanges.from_state("t", {"rereads": [["1"]], "scanned": True})
    rereading = only(ranges)
    start(rereading)
    with pytest.raises(RuntimeError, match="no rows to scan"):
        rereading.read(keys(1), [], False)
    finish(rereading, [], keys(1))
    with pytest.raises(RuntimeError, match="nothing to read"):
        rereading.start(0, HiddenSet())
