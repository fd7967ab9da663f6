"""What is said of bad values, and which policy is suggested for them."""

from __future__ import annotations

import pickle

from captures.tables.bad_values import TOO_LARGE, UNDECODABLE, BadValue, BadValues, Repairs, unfit_for


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
