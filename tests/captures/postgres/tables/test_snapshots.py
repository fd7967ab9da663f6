"""Whether a snapshot hides a transaction that the log names by the low 32 bits of its id."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.captures.postgres.server.positions import format_lsn, parse_lsn
from tidemark.captures.postgres.tables.snapshots import Snapshot
from tidemark.protocol.errors import SourceError


@given(st.data())
def test_across_epochs(data: st.DataObject) -> None:
    xmax = data.draw(st.integers(3, 2**40))
    xmin = data.draw(st.integers(max(0, xmax - 1000), xmax))
    running = (
        data.draw(st.frozensets(st.integers(xmin, max(xmin, xmax - 1)), max_size=5)) if xmin < xmax else frozenset()
    )
    snapshot = Snapshot(xmin, xmax, running)
    full = data.draw(st.integers(max(0, xmax - 2**31 + 1), xmax + 2**31 - 1))
    expected = full >= xmax or full in running
    assert snapshot.hides(full % 2**32) == expected
    assert snapshot.hides(full) == expected


def test_the_servers_text() -> None:
    assert Snapshot.parse("10:20:10,14,15") == Snapshot(10, 20, frozenset({10, 14, 15}))
    assert Snapshot.parse("10:10:") == Snapshot(10, 10, frozenset())


@given(st.integers(0, 2**64 - 1))
def test_positions_round_trip(position: int) -> None:
    assert parse_lsn(format_lsn(position)) == position


@pytest.mark.parametrize("text", ["", "1", "x/1", "1/", "/1", "1/2/3"])
def test_a_position_that_is_none(text: str) -> None:
    with pytest.raises(SourceError, match="TM-PG-024"):
        parse_lsn(text)


def test_a_snapshot_of_a_standby_hides_whatever_may_run() -> None:
    snapshot = Snapshot.parse("100:120:", recovery=True)
    assert not snapshot.hides(99)
    assert all(snapshot.hides(xid) for xid in (100, 110, 119, 120, 500))
    wrapped = Snapshot.parse(f"{(1 << 32) + 5}:{(1 << 32) + 9}:", recovery=True)
    assert wrapped.hides(5)
    assert not wrapped.hides(4)
    assert not wrapped.hides((1 << 32) - 1)
