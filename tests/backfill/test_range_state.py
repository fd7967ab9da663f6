from __future__ import annotations

import json
from typing import Any

import pytest

from tests.backfill.events import observe
from tests.backfill.test_range_scan import PAGES, finish, only, start
from tests.backfill.test_ranges import finish_all, long_key, move
from tidemark.backfill.range_scan import RangeScan
from tidemark.backfill.range_state import Pages
from tidemark.backfill.ranges import TableRanges
from tidemark.protocol.errors import ProtocolError, SourceError

STATE_BYTES = 3_600
"""What a table may take of the 4 kB that its state may be; the rest is the engine's."""


def phases(ranges: TableRanges, scan: RangeScan) -> list[tuple[str, Any]]:
    """The state of a table with keys of 40 bytes, at its largest in each phase."""
    states = [("new", ranges.to_state())]
    start(scan)
    ranges.split(scan, [long_key(number) for number in range(1, 100)])
    states.append(("split", ranges.to_state()))
    for number in range(1_000):
        observe(ranges, long_key(number), partial=True)
    last = long_key(900) if not scan.physical else b"900"
    finish(scan, [long_key(number) for number in range(1_000)], cursor=None if not scan.physical else last)
    states.append(("rereads", ranges.to_state()))
    for scan in ranges.idle():
        start(scan)
        finish(scan, [long_key(700)], cursor=b"700" if scan.physical else None)
    states.append(("all ranges begun", ranges.to_state()))
    move(ranges, *(long_key(number) for number in range(2_000)))
    states.append(("too many rereads", ranges.to_state()))
    for number in range(100):
        try:
            ranges.add(long_key(number), long_key(number + 1), "created_at > '2026-01-01' and state <> 'closed'")
        except SourceError:
            break
    states.append(("steered", ranges.to_state()))
    finish_all(ranges)
    states.append(("done", ranges.to_state()))
    return states


@pytest.mark.parametrize("pages", [None, PAGES], ids=["key", "physical"])
def test_the_state_is_small_in_every_phase(pages: Pages | None) -> None:
    ranges = TableRanges("t", pages=pages)
    for phase, state in phases(ranges, only(ranges)):
        assert len(json.dumps(state)) < STATE_BYTES, phase
        assert TableRanges.from_state("t", json.loads(json.dumps(state)), pages=pages).to_state() == state, phase
    assert ranges.done


def test_composite_keys_keep_their_parts() -> None:
    ranges = TableRanges("t")
    scan = only(ranges)
    start(scan)
    finish(scan, [b"7\x00\xc3\xa9"])
    assert ranges.to_state()["ranges"] == [{"cursor": ["7", "é"]}]
    assert start(only(TableRanges.from_state("t", ranges.to_state()))).cursor == b"7\x00\xc3\xa9"


@pytest.mark.parametrize(
    ("single", "state"),
    [
        ({}, {"rows": 0, "ranges": [{}], "rereads": []}),
        ({"done": True}, {"rows": 0, "ranges": [], "rereads": []}),
        ({"cursor": ["5"], "rows": 5}, {"rows": 5, "ranges": [{"cursor": ["5"]}], "rereads": []}),
        (
            {"cursor": ["5"], "rows": 5, "rereads": [["1"]], "scanned": True, "done": False},
            {"rows": 5, "ranges": [], "rereads": [["1"]]},
        ),
        (
            {
                "cursor": ["5"],
                "scanned": False,
                "rows": 7,
                "ranges": [{"cursor": ["7"]}],
                "rereads": [],
                "overflows": 0,
            },
            {"rows": 7, "ranges": [{"cursor": ["7"]}], "rereads": []},
        ),
    ],
    ids=["new", "done", "scanning", "rereading", "merged"],
)
def test_the_state_of_a_single_scan_is_read(single: Any, state: Any) -> None:
    read = TableRanges.from_state("t", single).to_state()
    assert read == {**state, "overflows": 0, "done": single.get("done", False)}


def test_another_file_begins_again() -> None:
    state = {"rows": 5, "ranges": [{"cursor": ["4"], "until": ["9"], "file": "16402"}, {"cursor": ["k"]}]}
    same = TableRanges.from_state("t", state, pages=PAGES)
    assert not same.rewritten and same.rows == 5
    for pages in (Pages("16999", b"2"), None):
        other = TableRanges.from_state("t", state, pages=pages)
        assert other.rewritten
        assert other.to_state() == TableRanges("t", pages=pages).to_state()


@pytest.mark.parametrize(
    "state",
    [
        [],
        None,
        {"cursor": "5"},
        {"cursor": []},
        {"cursor": [5]},
        {"cursor": ["a\x00b"]},
        {"rows": -1},
        {"rows": True},
        {"rows": "1"},
        {"rereads": [[]]},
        {"rereads": "x"},
        {"rereads": [["1"], "2"]},
        {"scanned": 1},
        {"done": None},
        {"Cursor": None},
        {"overflows": -1},
        {"ranges": None},
        {"ranges": {}},
        {"ranges": [[]]},
        {"ranges": [{"after": ["1"]}]},
        {"ranges": [{"cursor": "1"}]},
        {"ranges": [{"until": [1]}]},
        {"ranges": [{"where": 1}]},
        {"ranges": [{"file": 16402}]},
    ],
)
def test_malformed_state_is_refused(state: Any) -> None:
    with pytest.raises(ProtocolError) as caught:
        TableRanges.from_state("public.t", state)
    assert caught.value.code == "TM-BKF-001"
    assert "public.t" in caught.value.message
