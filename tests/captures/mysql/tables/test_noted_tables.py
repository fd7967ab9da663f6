"""What identifies columns: never the same text for two of them, and the same for one under all of its names."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidemark.captures.mysql.statements.actions import Alteration
from tidemark.captures.mysql.tables.noted_tables import ColumnIdentities

NAMES = ["a", "b", "c", "a#1", "b#1"]


def test_examples() -> None:
    identities = ColumnIdentities()
    assert identities.identified(["id", "a", "b"]) == {"id": "id", "a": "a", "b": "b"}
    identities.follow(Alteration(renamed=(("a", "b"), ("b", "a"))))
    assert identities.identified(["id", "a", "b"]) == {"id": "id", "a": "b", "b": "a"}
    identities.follow(Alteration(dropped=("a",), added=("a", "c")))
    assert identities.identified(["id", "b", "a", "c"]) == {"id": "id", "b": "a", "a": "a#1", "c": "c"}
    identities.follow(Alteration(renamed=(("b", "a"),), dropped=("a",)))
    assert identities.identified(["id", "a", "c"]) == {"id": "id", "a": "a", "c": "c"}


def test_a_state_of_an_earlier_version() -> None:
    """It has the names that were left: another column under one of these is another one."""
    identities = ColumnIdentities()
    identities.restore({}, ["gone", "a"], ["id", "a"])
    assert identities.identified(["id", "a"]) == {"id": "id", "a": "a"}
    assert identities.identified(["id", "a", "gone"])["gone"] == "gone#1"


@given(st.data())
def test_no_text_stands_for_two_columns(data: st.DataObject) -> None:
    identities = ColumnIdentities()
    columns = {name: number for number, name in enumerate(data.draw(st.permutations(NAMES))[:2])}
    owners = {text: columns[name] for name, text in identities.identified(list(columns)).items()}
    texts = {columns[name]: text for name, text in identities.identified(list(columns)).items()}
    count = len(columns)
    for _ in range(data.draw(st.integers(1, 8))):
        left: list[str] = data.draw(st.lists(st.sampled_from(sorted(columns)), unique=True)) if columns else []
        renamed, stay = [], {name: number for name, number in columns.items() if name not in left}
        free = data.draw(st.permutations([name for name in NAMES if name not in stay]))
        for old in left:
            moves: bool = data.draw(st.booleans())
            if free and moves:
                new = free.pop()
                renamed.append((old, new))
                stay[new] = columns[old]
        added = free[: data.draw(st.integers(0, 2))]
        for name in added:
            stay[name] = count
            count += 1
        dropped = tuple(old for old in left if old not in dict(renamed))
        identities.follow(Alteration(renamed=tuple(renamed), dropped=dropped, added=tuple(added)))
        columns = stay
        for name, text in identities.identified(list(columns)).items():
            number = columns[name]
            assert owners.setdefault(text, number) == number
            assert texts.setdefault(number, text) == text
        killed: bool = data.draw(st.booleans())
        if killed:  # And the state is restored.
            again = ColumnIdentities()
            again.restore(dict(identities.of), sorted(identities.used), list(columns))
            identities = again
