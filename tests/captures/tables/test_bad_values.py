"""What is said of bad values, and which policy is suggested for them."""

from __future__ import annotations

import pickle

import pytest

from tidemark.captures.server.endpoint_config import Endpoint
from tidemark.captures.tables.bad_values import (
    TOO_LARGE,
    UNDECODABLE,
    BadValue,
    BadValues,
    Repairs,
    quarantine_failures,
    unfit_for,
)
from tidemark.captures.tables.truncation import Truncation
from tidemark.protocol.environment import RUNTIME


def test_a_reason_has_the_policy_that_fits_it() -> None:
    repairs = Repairs("shop.t")
    bad = {
        "a": BadValue(TOO_LARGE),
        "b": BadValue("infinity"),
        "c": BadValue(UNDECODABLE),
        "d": BadValue(unfit_for("int")),
        "e": BadValue("a value is not written as type"),
    }
    for name, value in bad.items():
        assert repairs.settle(name, "stop", value, "raw") is None
    error = BadValues(repairs.table, repairs.stopped, b"7")
    assert "on_bad_value: {a: quarantine, b: text, c: quarantine, d: quarantine, e: text}" in error.remedy
    assert "column b: infinity; " in error.message and "key 7" in error.message
    again = pickle.loads(pickle.dumps(error))  # Chunks are read by other processes.
    assert (again.message, again.remedy, again.columns) == (error.message, error.remedy, error.columns)


@pytest.mark.parametrize(("value", "ours"), [("1", True), ("test", True), ("0", False), ("", False)])
def test_only_our_runtime_is_given_marked_events_and_truncations(
    value: str, ours: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(RUNTIME, value)
    assert bool(quarantine_failures("TM-PG-023", "quarantine", [("shop.t", None)])) is not ours
    assert (Endpoint().truncation is Truncation.EMIT) is ours
