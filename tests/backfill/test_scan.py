from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from backfill.hidden import HiddenSet
from backfill.keys import Key, TouchedKeys
from backfill.scan import ChunkPlan, Emission, TableScan
from protocol.errors import ProtocolError


@dataclass(frozen=True)
class Fence:
    high: int = 0
    hidden: frozenset[int] = frozenset()

    def hides(self, txn: int) -> bool:
        return txn in self.hidden


def keys(*numbers: int) -> list[Key]:
    return [b"%d" % number for number in numbers]


def start(scan: TableScan, hidden: HiddenSet | None = None, fence: Fence | None = None) -> ChunkPlan:
    plan = scan.start(0, hidden or HiddenSet())
    assert scan.fenced(fence or Fence())
    return plan


def finish(scan: TableScan, rows: list[Key], rereads: list[Key] | None = None, *, end: bool = False) -> Emission:
    scan.read(rows, rereads or [], end)
    assert scan.ready(0)
    return scan.emit()


def touched(*numbers: int, partial: bool = False) -> TouchedKeys:
    result = TouchedKeys()
    for key in keys(*numbers):
        result.add(key, partial)
    return result


def test_scan_goes_chunk_by_chunk_to_the_end() -> None:
    scan = TableScan("t")
    assert start(scan) == ChunkPlan(None, (), scan=True)
    assert finish(scan, keys(1, 2)) == Emission(None, (), 0, 0, 0, progressed=True)
    assert start(scan) == ChunkPlan(b"2", (), scan=True)
    assert finish(scan, keys(3), end=True).keep is None
    assert scan.done
    assert scan.to_state() == {"cursor": ["3"], "rows": 3, "rereads": [], "scanned": True, "done": True}


def test_in_flight_from_start_to_emit() -> None:
    scan = TableScan("t")
    stages = [scan.in_flight]
    start(scan)
    stages.append(scan.in_flight)
    finish(scan, [], end=True)
    stages.append(scan.in_flight)
    assert stages == [False, True, False]


def test_empty_table_is_done_after_one_chunk() -> None:
    scan = TableScan("t")
    start(scan)
    assert finish(scan, [], end=True).progressed
    assert scan.done


def test_window_rows_are_dropped_and_the_others_kept_as_slices() -> None:
    scan = TableScan("t")
    start(scan)
    for key in keys(1, 4, 5, 8, 99):
        scan.observe(key, partial=False)
    emission = finish(scan, keys(1, 2, 3, 4, 5, 6, 7, 8))
    assert emission.keep == (slice(1, 3), slice(5, 7))
    assert (emission.dropped, emission.cut, emission.progressed) == (4, 0, True)
    assert scan.rows == 8
    assert scan.to_state()["cursor"] == ["8"]


def test_a_chunk_may_be_dropped_whole_row_by_row() -> None:
    scan = TableScan("t")
    start(scan)
    scan.observe_all(touched(1, 2))
    emission = finish(scan, keys(1, 2), end=True)
    assert (emission.keep, emission.dropped, emission.progressed) == ((), 2, True)
    assert scan.done


def test_events_outside_a_chunk_do_not_count() -> None:
    scan = TableScan("t")
    scan.observe(b"1", partial=False)
    scan.observe_all(touched(1))
    scan.truncate()
    start(scan)
    assert finish(scan, keys(1)).keep is None
    start(scan)
    assert finish(scan, keys(2)).keep is None


def test_ready_needs_fence_rows_and_position() -> None:
    scan = TableScan("t")
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
    scan = TableScan("t")
    start(scan, hidden, Fence(hidden=frozenset({2, 3})))
    assert finish(scan, keys(1, 2, 3)).keep == (slice(0, 1), slice(2, 3))


def test_fence_that_hides_unknown_keys_refuses_the_chunk() -> None:
    hidden = HiddenSet()
    hidden.restore([7])
    scan = TableScan("t")
    scan.start(0, hidden)
    assert not scan.fenced(Fence(hidden=frozenset({7})))
    scan.read(keys(1), [], False)
    assert not scan.ready(1_000)
    scan.abandon()
    start(scan, hidden, Fence())
    assert finish(scan, keys(1)).keep is None


def test_fence_that_hides_a_truncate_refuses_the_chunk() -> None:
    truncated = TouchedKeys()
    truncated.truncate()
    hidden = HiddenSet()
    hidden.add(7, {"t": truncated})
    scan = TableScan("t")
    scan.start(0, hidden)
    assert not scan.fenced(Fence(hidden=frozenset({7})))


@pytest.mark.parametrize("overflow", [False, True])
def test_everything_drops_the_chunk_and_leaves_the_state(overflow: bool) -> None:
    scan = TableScan("t", window_limit=2)
    start(scan)
    scan.observe(b"1", partial=True)
    finish(scan, keys(1, 2))
    before = scan.to_state()
    start(scan)
    if overflow:
        scan.observe_all(touched(11, 12, 13))
    else:
        scan.truncate()
    emission = finish(scan, keys(3, 4), keys(1), end=True)
    assert emission == Emission((), (), 2, 1, 0, progressed=False)
    assert scan.to_state() == before


def test_partially_touched_row_is_reread_until_it_comes_through() -> None:
    scan = TableScan("t")
    start(scan)
    scan.observe(b"1", partial=True)
    assert finish(scan, keys(1, 2), end=True).keep == (slice(1, 2),)
    assert not scan.done
    for _ in range(2):
        assert start(scan) == ChunkPlan(b"2", (b"1",), scan=False)
        scan.observe(b"1", partial=True)
        emission = finish(scan, [], keys(1))
        assert (emission.keep_rereads, emission.dropped_rereads, emission.progressed) == ((), 1, False)
        assert not scan.done
    start(scan)
    assert finish(scan, [], keys(1)) == Emission(None, (0,), 0, 0, 0, progressed=True)
    assert scan.done


@pytest.mark.parametrize("found", [[], [b"1"]], ids=["deleted", "given by the log"])
def test_reread_ends_without_a_row(found: list[Key]) -> None:
    scan = TableScan.from_state("t", {"rereads": [["1"]], "scanned": True})
    start(scan)
    if found:
        scan.observe(b"1", partial=False)
    emission = finish(scan, [], found)
    assert (emission.keep_rereads, emission.progressed) == ((), True)
    assert scan.done


def test_full_hidden_event_drops_a_reread_row_and_keeps_it_on_the_list() -> None:
    hidden = HiddenSet()
    hidden.add(7, {"t": touched(1)})
    scan = TableScan.from_state("t", {"rereads": [["1"]], "scanned": True})
    start(scan, hidden, Fence(hidden=frozenset({7})))
    assert finish(scan, [], keys(1)).dropped_rereads == 1
    assert not scan.done


def test_chunk_is_cut_where_the_reread_list_is_full() -> None:
    scan = TableScan("t", reread_limit=2)
    start(scan)
    for key in keys(2, 4, 6):
        scan.observe(key, partial=True)
    emission = finish(scan, keys(1, 2, 3, 4, 5, 6, 7), end=True)
    assert emission.keep == (slice(0, 1), slice(2, 3), slice(4, 5))
    assert (emission.dropped, emission.cut) == (2, 2)
    assert scan.to_state() == {"cursor": ["5"], "rows": 5, "rereads": [["2"], ["4"]], "scanned": False, "done": False}
    assert start(scan) == ChunkPlan(b"5", (b"2", b"4"), scan=False)
    finish(scan, [], keys(2, 4))
    assert start(scan) == ChunkPlan(b"5", (), scan=True)
    finish(scan, keys(6, 7), end=True)
    assert scan.done


def test_a_chunk_reads_a_few_rereads_and_what_did_not_come_through_waits_for_the_others() -> None:
    scan = TableScan.from_state("t", {"rereads": [["1"], ["2"], ["3"], ["4"]], "scanned": True}, reread_limit=2)
    assert start(scan).rereads == (b"1", b"2")
    scan.observe(b"1", partial=True)
    finish(scan, [], keys(1, 2))
    assert start(scan).rereads == (b"3", b"4")
    finish(scan, [], keys(3, 4))
    assert start(scan).rereads == (b"1",)
    finish(scan, [], keys(1))
    assert scan.done


def test_rows_that_were_moved_are_requested_with_and_without_a_chunk() -> None:
    scan = TableScan("t")
    scan.observe(b"1", partial=True, inserted=True)
    assert start(scan).rereads == (b"1",)
    scan.observe(b"1", partial=True, inserted=True)
    scan.observe(b"1", partial=False)
    moved = TouchedKeys()
    moved.add(b"2", True, True)
    scan.observe_all(moved)
    finish(scan, [], keys(1), end=True)
    assert scan.to_state()["rereads"] == [["2"], ["1"]]
    assert start(scan).rereads == (b"2", b"1")


def test_a_done_table_is_read_again_where_a_row_was_moved() -> None:
    scan = TableScan.from_state("t", {"done": True})
    scan.request_reread(b"1")
    assert not scan.done
    assert start(scan) == ChunkPlan(None, (b"1",), scan=False)
    finish(scan, [], keys(1))
    assert scan.done


def test_too_many_requests_begin_the_scan_again_and_spoil_the_chunk() -> None:
    scan = TableScan("t", reread_limit=1, request_limit=2)
    start(scan)
    finish(scan, keys(1, 2))
    start(scan)
    for key in keys(11, 12, 13):
        scan.request_reread(key)
    assert finish(scan, keys(3), end=True).keep == ()
    assert scan.to_state() == TableScan("t").to_state()


def test_abandoned_chunk_leaves_the_state_as_it_was() -> None:
    scan = TableScan("t")
    start(scan)
    finish(scan, keys(1))
    before = scan.to_state()
    start(scan)
    scan.observe(b"2", partial=True)
    scan.read(keys(2), [], True)
    scan.abandon()
    scan.abandon()
    assert not scan.in_flight
    assert scan.to_state() == before
    start(scan)
    assert finish(scan, keys(2)).keep is None


def test_restart_begins_again() -> None:
    scan = TableScan.from_state("t", {"cursor": ["5"], "rows": 5, "rereads": [["1"]], "scanned": True})
    start(scan)
    scan.restart()
    assert not scan.in_flight
    assert scan.to_state() == TableScan("t").to_state()


def test_full_state_survives_json_and_is_small() -> None:
    scan = TableScan("t")
    start(scan)
    uuids = [b"6f1c2a3e-9d4b-4c58-8a77-%012d" % number for number in range(60)]
    for key in uuids:
        scan.observe(key, partial=True)
    assert finish(scan, uuids).cut == 10
    text = json.dumps(scan.to_state())
    assert len(text) < 4_000
    assert TableScan.from_state("t", json.loads(text)).to_state() == scan.to_state()


def test_composite_keys_keep_their_parts() -> None:
    scan = TableScan("t")
    start(scan)
    finish(scan, [b"7\x00\xc3\xa9"])
    assert scan.to_state()["cursor"] == ["7", "é"]
    assert start(TableScan.from_state("t", scan.to_state())).cursor == b"7\x00\xc3\xa9"


@pytest.mark.parametrize(
    "state",
    [
        [],
        None,
        {"cursor": "5"},
        {"cursor": []},
        {"cursor": [5]},
        {"rows": -1},
        {"rows": True},
        {"rows": "1"},
        {"rereads": [[]]},
        {"rereads": "x"},
        {"rereads": [["1"], "2"]},
        {"scanned": 1},
        {"done": None},
        {"Cursor": None},
    ],
)
def test_malformed_state_is_refused(state: Any) -> None:
    with pytest.raises(ProtocolError) as caught:
        TableScan.from_state("public.t", state)
    assert caught.value.code == "TM-BKF-001"
    assert "public.t" in caught.value.message


def test_steps_out_of_order_are_refused() -> None:
    scan = TableScan("t")
    for step in (scan.emit, lambda: scan.read([], [], True), lambda: scan.fenced(Fence())):
        with pytest.raises(RuntimeError, match="no chunk is in flight"):
            step()
    scan.start(0, HiddenSet())
    with pytest.raises(RuntimeError, match="not ready"):
        scan.emit()
    with pytest.raises(RuntimeError, match="in flight"):
        scan.start(0, HiddenSet())
    rereading = TableScan.from_state("t", {"rereads": [["1"]], "scanned": True})
    start(rereading)
    with pytest.raises(RuntimeError, match="scan nothing"):
        rereading.read(keys(1), [], False)
    with pytest.raises(RuntimeError, match="nothing to read"):
        TableScan.from_state("t", {"done": True}).start(0, HiddenSet())


def test_limits_that_leave_no_room_are_refused() -> None:
    with pytest.raises(ValueError, match="must hold a row"):
        TableScan("t", reread_limit=0)
    with pytest.raises(ValueError, match="must hold a row"):
        TableScan("t", reread_limit=10, request_limit=5)
