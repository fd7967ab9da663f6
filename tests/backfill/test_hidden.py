from __future__ import annotations

from dataclasses import dataclass

from tidemark.backfill.fence import TransactionId
from tidemark.backfill.hidden import HiddenSet
from tidemark.backfill.keys import TouchedKeys


@dataclass(frozen=True)
class Hiding:
    """A fence that hides these transactions."""

    txns: frozenset[int]
    high: int = 0

    def hides(self, txn: TransactionId) -> bool:
        return txn in self.txns


def hiding(*txns: int) -> Hiding:
    return Hiding(frozenset(txns))


def touching(*keys: bytes) -> TouchedKeys:
    touched = TouchedKeys()
    for key in keys:
        touched.add(key, False)
    return touched


def test_tracked_but_not_touched_is_not_unknown() -> None:
    hidden = HiddenSet()
    hidden.add(7, {"a": touching(b"1")}, frozenset({"a", "b"}))
    (entry,) = hidden.entries()
    keys_of_a, keys_of_b = entry.keys_of("a"), entry.keys_of("b")
    assert keys_of_a is not None and b"1" in keys_of_a
    assert keys_of_b is not None and len(keys_of_b) == 0 and not keys_of_b.everything
    assert entry.keys_of("c") is None


def test_touched_tables_are_known_without_being_listed_as_tracked() -> None:
    hidden = HiddenSet()
    hidden.add(7, {"a": touching(b"1")})
    assert hidden.entries()[0].keys_of("a") is not None
    assert hidden.entries()[0].keys_of("b") is None


def test_none_is_unknown_for_every_table() -> None:
    hidden = HiddenSet()
    hidden.add(7, None, frozenset({"a"}))
    assert hidden.entries()[0].keys_of("a") is None


def test_purge_leaves_what_the_fence_hides_in_log_order() -> None:
    hidden = HiddenSet()
    for txn in (5, 3, 9, 4):
        hidden.add(txn, {})
    hidden.purge(hiding(9, 5, 1))
    assert hidden.ids() == [5, 9]
    assert len(hidden) == 2


def test_entries_outlive_a_purge() -> None:
    hidden = HiddenSet()
    hidden.add(7, {"a": touching(b"1")})
    held = hidden.entries()
    hidden.purge(hiding())
    assert not len(hidden)
    assert [entry.txn for entry in held] == [7]


def test_restored_transactions_have_unknown_keys() -> None:
    hidden = HiddenSet()
    hidden.add(7, {"a": touching(b"1")}, frozenset({"a"}))
    restored = HiddenSet()
    restored.restore(hidden.ids())
    assert restored.ids() == [7]
    assert restored.entries()[0].keys_of("a") is None


def test_a_transaction_added_twice_has_unknown_keys() -> None:
    hidden = HiddenSet()
    hidden.add(7, {"a": touching(b"1")})
    hidden.add(7, {"a": touching(b"2")})
    assert hidden.ids() == [7]
    assert hidden.entries()[0].keys_of("a") is None


def test_keys_over_the_limit_are_unknown_until_others_are_purged() -> None:
    hidden = HiddenSet(limit=3)
    hidden.add(1, {"a": touching(b"1", b"2")})
    hidden.add(2, {"a": touching(b"3"), "b": touching(b"4")})
    hidden.add(3, {"b": touching(b"5")})
    assert [entry.keys_of("b") is None for entry in hidden.entries()] == [True, True, False]
    assert hidden.entries()[1].keys_of("a") is None
    hidden.purge(hiding(2))
    hidden.add(4, {"a": touching(b"1", b"2", b"3")})
    assert hidden.entries()[1].keys_of("a") is not None


def test_later_moves_show_in_earlier_transactions() -> None:
    hidden = HiddenSet()
    hidden.add(7, {"a": touching(b"1", b"2")}, frozenset({"a"}))
    before = hidden.entries()
    moved = TouchedKeys()
    moved.add(b"2", True, True)
    hidden.add(8, {"a": moved}, frozenset({"a"}))
    hidden.purge(hiding(7))
    (entry,) = hidden.entries()
    keys = entry.keys_of("a")
    assert keys is not None and keys.incomplete() == [b"2"] and len(keys) == 2
    known = before[0].keys_of("a")
    assert known is not None and not known.incomplete()


def test_what_an_unknown_transaction_may_have_done_makes_earlier_ones_unknown() -> None:
    forgotten = TouchedKeys(limit=1)
    forgotten.add(b"1", True, True)
    forgotten.add(b"2", False)
    for later in (None, {"b": touching(b"1")}, {"a": forgotten, "b": touching(b"1")}):
        hidden = HiddenSet(limit=10)
        hidden.add(7, {"a": touching(b"1")}, frozenset({"a", "b"}))
        hidden.add(8, later)
        entry, _ = hidden.entries()
        assert entry.keys_of("a") is None
        assert (entry.keys_of("b") is None) is (later is None)
