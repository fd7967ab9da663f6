"""What a session finds in the state of a table that an earlier one left out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidemark.captures.contract.source import OpenedTable, ScanMethod
from tidemark.captures.scheduling.table_states import (
    GRACE_SECONDS,
    Captured,
    LeftOut,
    OnCommand,
    WithAnotherPolicy,
    opened_state,
)
from tidemark.protocol.errors import SourceError
from tidemark.protocol.messages import JsonObject

TABLE = OpenedTable(0, "shop.orders", "shop%2Forders", {}, "7 id", ("id",), ScanMethod.KEY, 0, None)
ASIDE: JsonObject = {"code": "TM-MY-007", "text": "shop.orders was dropped", "since": "binlog.000001:4"}
KEPT: JsonObject = {"identity": "7 id", "scan": {"scanned": True}}


def left_out(aside: JsonObject, *, table: OpenedTable = TABLE, asks: bool = False) -> LeftOut:
    found = opened_state(table, {**KEPT, "aside": aside}, 100.0, asks=asks)
    assert isinstance(found, LeftOut)
    return found


@pytest.mark.parametrize(
    "aside",
    [
        {**ASIDE, "passed": True},
        {**ASIDE, "passed": True, "wanted": True},
        {**ASIDE, "code": "TM-CAP-020", "policy": "stop"},
        {**ASIDE, "code": "TM-CAP-008", "passed": True, "put_off": True, "remedy": "Have it read."},
    ],
)
def test_a_state_that_was_written_before_is_written_again(aside: JsonObject) -> None:
    assert left_out(aside).to_state() == {**KEPT, "aside": aside}


def test_a_table_that_missed_nothing_is_captured_again() -> None:
    assert opened_state(TABLE, {**KEPT, "aside": ASIDE}, 100.0, asks=True) == Captured()


def test_a_table_that_is_gone_has_its_grace_period() -> None:
    gone = replace(TABLE, unfit=SourceError("TM-MY-007", "it is gone"))
    found = opened_state(gone, KEPT, 100.0, asks=False)
    assert isinstance(found, LeftOut) and (found.settles_at, found.asked) == (100.0 + GRACE_SECONDS, True)


def test_bad_values_wait_for_another_policy_or_a_command() -> None:
    state = left_out({**ASIDE, "policy": "stop"})
    assert state.returns == WithAnotherPolicy("stop") and not state.asked
    assert state.waits("stop", asks=False) and not state.waits("clamp", asks=False)
    state.ask()
    assert not state.waits("stop", asks=False) and state.to_state()["aside"]["policy"] == "stop"


def test_a_reread_that_is_put_off_waits_for_a_command_as_long_as_that_is_configured() -> None:
    state = left_out({**ASIDE, "passed": True, "put_off": True}, asks=True)
    assert isinstance(state.returns, OnCommand) and state.waits("", asks=True) and not state.waits("", asks=False)
    state.ask()
    assert not state.waits("", asks=True) and state.wanted and "put_off" not in state.to_state()["aside"]


def test_another_table_of_the_name_waits_where_rereads_do() -> None:
    replaced = replace(TABLE, identity="8 id")
    found = opened_state(replaced, KEPT, 100.0, asks=True)
    assert isinstance(found, LeftOut) and found.returns == OnCommand() and found.passed
    assert opened_state(replaced, KEPT, 100.0, asks=False) == Captured()
