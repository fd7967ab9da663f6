from __future__ import annotations

from itertools import count

import pytest

from tests.backfill.events import observe
from tests.backfill.test_range_scan import PAGES, finish, keys, only, start
from tidemark.backfill.hidden import HiddenSet
from tidemark.backfill.keys import Key, TouchedKeys
from tidemark.backfill.limits import Limits
from tidemark.backfill.range_scan import ChunkPlan, Range
from tidemark.backfill.range_state import Pages
from tidemark.backfill.ranges import TableRanges
from tidemark.protocol.errors import SourceError


def whole(ranges: TableRanges) -> list[Range]:
    return [scan.range for scan in ranges.scans]


def move(ranges: TableRanges, *moved: Key) -> None:
    for key in moved:
        observe(ranges, key, partial=True, inserted=True)


def finish_all(ranges: TableRanges) -> None:
    while scans := ranges.idle():
        for scan in scans:
            plan = start(scan)
            finish(scan, [], list(plan.rereads), end=plan.scan)


def failing(ranges: TableRanges) -> bool:
    return ranges.failure is not None and ranges.failure.code == "TM-BKF-003"


def long_key(number: int) -> Key:
    return b"%040d" % number


# Several ranges.


def test_split_cuts_the_rest_at_the_bounds() -> None:
    ranges = TableRanges("t")
    scan = only(ranges)
    start(scan)
    finish(scan, keys(1, 2))
    assert len(ranges.split(scan, keys(5, 8))) == 2
    assert [each.range for each in ranges.idle()] == [Range(b"2", b"5"), Range(b"5", b"8"), Range(b"8", None)]
    second = ranges.idle()[1]
    assert start(second) == ChunkPlan(b"5", (), scan=True, until=b"8")
    assert second not in ranges.idle()


def test_a_split_chunk_may_reach_beyond_its_bound() -> None:
    ranges = TableRanges("t")
    scan = only(ranges)
    start(scan)
    (rest,) = ranges.split(scan, keys(2))
    assert finish(scan, keys(1, 2, 3)).keep is None
    assert scan.range == Range(b"3", b"2")
    assert start(scan) == ChunkPlan(b"3", (), scan=True, until=b"2")
    finish(scan, [], end=True)
    start(rest)
    finish(rest, keys(3, 4), end=True)
    assert ranges.done


def test_a_split_chunk_that_reached_the_end_ends_its_part_only() -> None:
    ranges = TableRanges("t")
    scan = only(ranges)
    start(scan)
    (rest,) = ranges.split(scan, keys(2))
    finish(scan, keys(1, 2, 3), end=True)
    assert ranges.idle() == [rest]


def test_parts_keep_the_condition_and_the_file() -> None:
    ranges = TableRanges.from_state("t", {"ranges": []})
    scan = ranges.add(where="total > 5")
    ranges.split(scan, keys(3))
    assert whole(ranges) == [Range(None, b"3", "total > 5", asked=True), Range(b"3", None, "total > 5", asked=True)]
    physical = TableRanges("t", pages=PAGES)
    physical.split(only(physical), keys(3))
    assert whole(physical) == [Range(None, b"3", None, "16402"), Range(b"3", b"9", None, "16402")]


def test_finished_ranges_leave_no_trace() -> None:
    ranges = TableRanges("t")
    ranges.split(only(ranges), keys(2, 4, 6))
    for scan in ranges.idle()[1:3]:
        start(scan)
        finish(scan, keys(1, 1), end=True)
    assert ranges.to_state()["ranges"] == [{"until": ["2"]}, {"cursor": ["6"]}]
    assert ranges.rows == 4


def test_a_scan_that_is_no_longer_is_not_split() -> None:
    ranges = TableRanges("t")
    scan = only(ranges)
    assert ranges.split(scan, []) == []
    start(scan)
    finish(scan, [], end=True)
    assert ranges.split(scan, keys(1)) == []
    assert ranges.done


def test_rows_without_keys_are_not_split_under_a_chunk() -> None:
    ranges = TableRanges("t", pages=PAGES, keyless=True)
    scan = only(ranges)
    start(scan)
    assert ranges.split(scan, keys(3)) == []
    finish(scan, [b""], cursor=b"1")
    assert len(ranges.split(scan, keys(3))) == 1


def test_log_is_told_to_every_chunk() -> None:
    ranges = TableRanges("t")
    ranges.split(only(ranges), keys(4))
    low, high = ranges.idle()
    for scan in (low, high):
        start(scan)
    observe(ranges, b"1", partial=False)
    both = TouchedKeys()
    both.add(b"5", False)
    ranges.observe_all(both)
    assert finish(low, keys(1, 2)).keep == (slice(1, 2),)
    assert finish(high, keys(5, 6)).keep == (slice(1, 2),)


def test_two_chunks_do_not_read_the_same_row_again() -> None:
    ranges = TableRanges.from_state("t", {"ranges": [{"until": ["5"]}, {"cursor": ["5"]}], "rereads": [["1"], ["2"]]})
    low, high = ranges.idle()
    assert start(low).rereads == (b"1", b"2")
    move(ranges, b"3")
    assert start(high).rereads == (b"3",)
    low.abandon()
    finish(high, [], end=True)
    assert start(low).rereads == (b"1", b"2")
    finish(low, [], keys(1, 2), end=True)
    assert ranges.done


# What is read again.


def test_moved_rows_are_read_again_once_a_scan_may_have_missed_them() -> None:
    ranges = TableRanges("t")
    move(ranges, b"1")
    assert not ranges.to_state()["rereads"]
    scan = only(ranges)
    start(scan)
    move(ranges, b"1")
    moved = TouchedKeys()
    moved.add(b"2", True, True)
    ranges.observe_all(moved)
    finish(scan, [], end=True)
    assert ranges.to_state()["rereads"] == [["1"], ["2"]]


def test_a_done_table_is_read_again_where_a_row_was_moved() -> None:
    ranges = TableRanges.from_state("t", {"done": True})
    ranges.request_reread(b"1")
    assert not ranges.done
    scan = only(ranges)
    assert start(scan) == ChunkPlan(None, (b"1",), scan=False)
    finish(scan, [], keys(1))
    assert ranges.done


def test_partial_events_count_during_a_physical_scan_only() -> None:
    ranges = TableRanges("t", pages=PAGES)
    observe(ranges, b"1", partial=True)
    partial = TouchedKeys()
    partial.add(b"2", True)
    ranges.observe_all(partial)
    assert ranges.to_state()["rereads"] == [["1"], ["2"]]
    finish_all(ranges)
    observe(ranges, b"3", partial=True)
    ranges.observe_all(partial)
    assert ranges.done


def test_partial_events_before_the_first_chunk_count_where_the_last_page_is_fixed() -> None:
    for pages, rereads in ((PAGES, [["1"]]), (Pages("16402", None), [])):
        ranges = TableRanges("t", pages=pages)
        observe(ranges, b"1", partial=True)
        assert ranges.to_state()["rereads"] == rereads
        start(only(ranges))
        observe(ranges, b"1", partial=True)
        assert ranges.to_state()["rereads"] == [["1"]]


def test_too_many_rereads_begin_a_scan_by_key_and_spoil_what_is_in_flight() -> None:
    ranges = TableRanges("t", pages=PAGES, limits=Limits(reread_keys=2))
    scan = only(ranges)
    start(scan)
    finish(scan, keys(1, 2), cursor=b"4")
    start(scan)
    for key in keys(11, 12, 13):
        observe(ranges, key, partial=True)
    assert whole(ranges) == [Range(b"4", b"9", None, "16402"), Range()]
    assert finish(scan, keys(3), end=True).keep == ()
    assert whole(ranges) == [Range()]
    assert ranges.to_state() == {"rows": 0, "ranges": [{}], "rereads": [], "overflows": 1, "done": False}
    assert not start(only(TableRanges.from_state("t", ranges.to_state(), pages=PAGES))).physical


def test_a_list_too_long_for_the_state_is_read_all_the_same_while_the_session_lasts() -> None:
    ranges = TableRanges("t", limits=Limits(reread_bytes=16, reread_least=1))
    scan = only(ranges)
    start(scan)
    finish(scan, keys(1, 2), end=True)
    move(ranges, *keys(11, 12, 13))
    again = ranges.to_state()
    assert again == {"rows": 0, "ranges": [{}], "rereads": [], "overflows": 1, "done": False}
    finish_all(ranges)
    assert ranges.done
    assert ranges.to_state() == {"rows": 2, "ranges": [], "rereads": [], "overflows": 0, "done": True}


@pytest.mark.parametrize("kill", [False, True])
@pytest.mark.parametrize("pages", [None, PAGES], ids=["key", "physical"])
def test_a_table_that_is_never_quiet_fails_in_the_end(kill: bool, pages: Pages | None) -> None:
    """Between any two steps the log moves more rows than can be remembered; or than the state holds, and a crash."""
    limits = Limits(reread_bytes=16, reread_least=1, reread_keys=100 if kill else 2, overflows=3)
    ranges = TableRanges("t", pages=pages, limits=limits)
    numbers = count(100)
    passes = 0
    while scans := ranges.idle():
        (scan,) = scans
        passes += 1
        start(scan)
        move(ranges, *keys(*(next(numbers) for _ in range(3))))
        finish(scan, keys(1, 2), cursor=b"1" if pages else None)
        if kill:
            ranges = TableRanges.from_state("t", ranges.to_state(), pages=pages, limits=limits)
    assert passes == 4
    assert failing(ranges) and not ranges.done
    again = TableRanges.from_state("t", ranges.to_state(), limits=limits)
    assert failing(again)
    again.retry()
    assert not failing(again) and again.idle()
    again = TableRanges.from_state("t", ranges.to_state(), limits=limits)
    again.restart()
    assert not failing(again)
    finish_all(again)
    assert again.done


def test_long_keys_alone_make_no_table_fail_however_often_the_session_is_killed() -> None:
    """A server's index takes keys of up to 3 kB. Two of them must not be more than the state has room for."""
    long = [bytes(str(number), "ascii") * 1300 for number in range(5)]
    ranges = TableRanges("t")
    scan = only(ranges)
    start(scan)
    finish(scan, keys(1, 2), cursor=b"2")
    for _ in range(10):
        move(ranges, *long)
        assert not failing(ranges)
        state = ranges.to_state()
        assert state["rows"] == 2 and len(state["rereads"]) == len(long)
        ranges = TableRanges.from_state("t", state)
    finish_all(ranges)
    assert ranges.done


def test_overflows_are_forgotten_when_the_table_is_done() -> None:
    ranges = TableRanges.from_state("t", {"ranges": [{}], "overflows": 2})
    finish_all(ranges)
    assert ranges.to_state()["overflows"] == 0


# Steering.


def test_restart_begins_again() -> None:
    ranges = TableRanges.from_state("t", {"cursor": ["5"], "rows": 5, "rereads": [["1"]]})
    scan = only(ranges)
    start(scan)
    ranges.restart()
    assert not scan.in_flight
    assert ranges.to_state() == TableRanges("t").to_state()
    ranges.restart(PAGES)
    assert ranges.to_state() == TableRanges("t", pages=PAGES).to_state()


def test_a_range_is_read_again_without_the_rest() -> None:
    ranges = TableRanges.from_state("t", {"cursor": ["5"], "rows": 5})
    ranges.add(b"1", b"3", "total > 5")
    again, rest = ranges.idle()
    assert start(again) == ChunkPlan(b"1", (b"1",), scan=True, until=b"3", where="total > 5")
    finish(again, keys(2), end=True)
    assert ranges.idle() == [rest]
    finish_all(ranges)
    ranges.add(where="total > 5")
    assert not ranges.done and ranges.rows == 6
    move(ranges, b"9")
    assert ranges.to_state()["rereads"] == [["9"]]


def test_the_first_row_that_was_asked_for_is_read_once_and_by_no_other_scan() -> None:
    ranges = TableRanges.from_state("t", {"cursor": ["5"], "rows": 5})
    ranges.add(b"2")
    ranges = TableRanges.from_state("t", ranges.to_state())
    again, rest = ranges.idle()
    assert start(rest).rereads == ()
    assert start(again).rereads == (b"2",)
    (part,) = ranges.split(again, keys(4))
    finish(again, [], end=False)
    assert start(again).rereads == start(part).rereads == ()
    finish(again, [], end=True)
    finish(part, [], end=True)
    finish(rest, [], end=True)
    assert ranges.done


def test_what_was_asked_for_and_cannot_be_read_leaves_nothing_behind() -> None:
    ranges = TableRanges.from_state("t", {"ranges": []})
    again = ranges.add(b"no key")
    start(again)
    again.abandon()
    again.cancel()
    assert ranges.done and ranges.idle() == []


def test_what_the_state_has_no_room_for_is_refused() -> None:
    ranges = TableRanges("t")
    with pytest.raises(SourceError) as caught:
        for number in range(100):
            ranges.add(long_key(number), where="total > 5")
    assert caught.value.code == "TM-BKF-004"
    finish_all(ranges)
    with pytest.raises(SourceError):
        ranges.add(where="x" * 2_000)
    with pytest.raises(ValueError, match="without a key"):
        TableRanges("t", pages=PAGES, keyless=True).add(b"1")


def test_split_uses_the_bounds_that_there_is_room_for() -> None:
    ranges = TableRanges("t")
    parts = ranges.split(only(ranges), [long_key(number) for number in range(1, 101)])
    assert 10 < len(parts) < 20
    bounds = [scan.range.until for scan in ranges.scans[:-1]]
    assert bounds == sorted(bounds, key=str)
    assert ranges.split(parts[-1], [long_key(200)]) == []


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="hold a row"):
        Limits(rereads_per_chunk=0)
    with pytest.raises(ValueError, match="only be scanned by pages"):
        TableRanges("t", keyless=True)


def test_hidden_moves_are_asked_for_by_the_chunk_that_does_not_see_them() -> None:
    moved = TouchedKeys()
    moved.add(b"2", True, True)
    hidden = HiddenSet()
    hidden.add(7, {"t": moved})

    class Hides:
        high = 0

        def hides(self, txn: int | str) -> bool:
            return True

    ranges = TableRanges("t")
    scan = only(ranges)
    scan.start(0, hidden)
    assert scan.fenced(Hides())
    assert ranges.to_state()["rereads"] == [["2"]]
