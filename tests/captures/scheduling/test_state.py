"""The patches of checkpoints, reduced one after another, give the state."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.captures.scheduling.state import CaptureState
from tidemark.protocol.errors import ProtocolError
from tidemark.protocol.state import merge_patch

SCANS = st.fixed_dictionaries(
    {"identity": st.sampled_from(["1", "2"]), "scan": st.dictionaries(st.sampled_from("abc"), st.integers(0, 2))},
    optional={"barrier": st.integers(0, 3)},
)
STEPS = st.tuples(
    st.sampled_from(["0/1", "0/2"]),
    st.lists(st.one_of(st.integers(1, 3), st.sampled_from(["0-1-2"])), max_size=2),
    st.dictionaries(st.sampled_from(["s%2Fa", "s%2Fb", "s%2Fc"]), SCANS, max_size=3),
    st.sampled_from([None, 751, "0-1-2"]),
)


@given(st.lists(STEPS, max_size=6))
def test_reduced_patches_give_what_was_meant(
    steps: list[tuple[str, list[int | str], dict[str, Any], int | str | None]],
) -> None:
    state = CaptureState({})
    reduced: dict[str, Any] = {}
    for cursor, hidden, bindings, until in steps:
        change = state.advance(cursor, {"system": "1"}, hidden, bindings, hidden_until=until)
        if change is not None:
            assert change.merge_patch
            reduced = merge_patch(reduced, change.updated)
        assert reduced["cursor"] == cursor
        assert reduced.get("hidden", []) == hidden
        found = {key: value for key, value in reduced.get("bindings", {}).items()}
        assert {key: value["identity"] for key, value in found.items()} == {
            key: value["identity"] for key, value in bindings.items()
        }
        assert {key: value.get("barrier") for key, value in found.items()} == {
            key: value.get("barrier") for key, value in bindings.items()
        }
        again = CaptureState(reduced)
        assert (again.cursor, again.hidden, again.hidden_until) == (cursor, hidden, until)


def test_nothing_changed_is_no_patch() -> None:
    state = CaptureState({})
    assert state.advance("0/1", {"system": "1"}, [], {"a": {"identity": "1", "scan": {}}}) is not None
    assert state.advance("0/1", {"system": "1"}, [], {"a": {"identity": "1", "scan": {}}}) is None


def test_a_table_that_is_bound_no_more_is_forgotten() -> None:
    state = CaptureState({"cursor": "0/1", "bindings": {"a": {"identity": "1", "scan": {"done": True}}}})
    change = state.advance("0/1", {"system": "1"}, [], {})
    assert change is not None
    assert change.updated["bindings"] == {"a": None}


@pytest.mark.parametrize(
    ("state", "member"),
    [
        ({"cursor": 5}, "cursor"),
        ({"source": "x"}, "source"),
        ({"hidden": [1.5]}, "hidden.0.int"),
        ({"hidden": 5}, "hidden"),
        ({"hidden_until": []}, "hidden_until.int"),
        ({"bindings": []}, "bindings"),
        ({"bindings": {"a": 5}}, "bindings.a"),
        ({"bindings": {"a": {"identity": 1}}}, "bindings.a.identity"),
        ({"bindings": {"a": {"barrier": []}}}, "bindings.a.barrier.int"),
        ({"bindings": {"a": {"priority": [1]}}}, "bindings.a.priority"),
        ({"control": "x"}, "control"),
        ({"bindings": {"a": {"scan": 7}}}, "bindings.a.scan"),
    ],
)
def test_a_state_that_something_else_wrote_is_refused(state: dict[str, Any], member: str) -> None:
    with pytest.raises(ProtocolError, match=rf"open\.state: {member}: ") as refused:
        CaptureState(state)
    assert refused.value.code == "TM-PRO-003"
