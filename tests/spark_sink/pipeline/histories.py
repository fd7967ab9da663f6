"""Random histories of tables, as a capture brings them: changes of the source's log, and chunks of backfills."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from tests.spark_sink.log_builder import Event, schema
from tidemark.protocol.changelog import TableSchema
from tidemark.spark_sink.changes.key_order import place

_EPOCH = datetime(2026, 1, 1, 12, 30, 15, 123_456)

VALUES: Mapping[str, Sequence[Any]] = {
    "bigint": [-(2**63), -(2**40), *range(-20, 200), 2**40, 2**63 - 1],
    "string": [
        "", " ", "'", "''", '"', "\\", "\\'", "a", "a'b", "a\\b", "a`b", "ab", "B", "b%", "ß", "ü", "\ue000",
        "\U0001f600", "\x00", "\n", *(f"row {number:02}" for number in range(80)),
    ],
    "decimal(12,2)": [Decimal(number) / 100 for number in (-(10**11), *range(-150, 1500, 13), 10**11)],
    "date": [date(1, 1, 1), *(date(2026, 1, 1) + timedelta(days) for days in range(90)), date(9999, 12, 31)],
    "timestamp": [(_EPOCH + timedelta(microseconds=step * 331)).replace(tzinfo=UTC) for step in range(-60, 60)],
    "timestamp_ntz": [_EPOCH + timedelta(microseconds=step * 331) for step in range(-60, 60)],
    "binary": [b"", b"\x00", b"'", b"\\", *(bytes([number, 255 - number]) for number in range(0, 256, 3)), b"\xff\xff"],
    "boolean": [False, True],
    "double": [-1e300, -0.5, *(number / 8 for number in range(1, 120)), 1e300],
}  # fmt: skip
"""Of each Spark type that a key's column has."""


def random_keys(
    chance: random.Random, types: Sequence[str], count: int, *, nulls: bool = False
) -> list[tuple[Any, ...]]:
    """Different keys in their order, as many as there are up to ``count``."""
    pools = [[*VALUES[type_], *([None] if nulls else [])] for type_ in types]
    drawn = {tuple(map(chance.choice, pools)) for _ in range(count)}
    return sorted(drawn, key=place)


class History:
    """What happens to one table.

    Args:
        chance: Decides.
        collection: Name of the table.
        key: Names and types of the key's columns.
        count: Of different keys, about.
        nulls: Whether there may be nulls in the key.
        told: Whether the log tells which column is which.
    """

    def __init__(
        self,
        chance: random.Random,
        collection: str,
        key: Mapping[str, str],
        count: int,
        *,
        nulls: bool = False,
        told: bool = False,
    ) -> None:
        self.collection = collection
        self.key = dict(key)
        self.columns = {"name": "string", "note": "string"}
        self.keys = random_keys(chance, list(key.values()), count, nulls=nulls)
        self._chance = chance
        self._chunks: list[Sequence[tuple[Any, ...]]] = []
        self._added = 0
        self._ids = {name: name for name in [*self.key, *self.columns]} if told else {}
        self._fills: dict[str, Any] = {}
        self._types = dict(self.columns)
        """Of all names that there ever were."""
        self.is_complete = False
        """Whether the log does not say yet that all rows of a table were read again."""
        self._to_read: list[tuple[Any, ...]] | None = None
        self._read: set[tuple[Any, ...]] | None = None
        self.schema = self._schema()

    def transactions(self, count: int) -> list[list[Event]]:
        """What is committed together at the source, or is one chunk of a backfill."""
        return [event for _ in range(count) for event in self._next()]

    def first_load(self) -> list[Event]:
        """A backfill of all keys in their order, with changes of the log between."""
        return [event for transaction in self._rows(self.keys) for event in transaction]

    def take_turn(self, turn: str) -> list[list[Event]]:
        """What happens in a commit.

        Args:
            turn: ``begin``: the table is read again from the start. ``go on``, ``end``: of one that is read again, some
                rows follow, or all that are left. Else, and for other tables, anything but that.
        """
        begin = self.read_again() if turn == "begin" else []
        transactions = begin + self.transactions(self._chance.randrange(5, 60))
        if self._to_read is None or turn not in ("go on", "end"):
            return transactions
        return transactions + self.chunks(None if turn == "end" else self._chance.randrange(20, 100))

    def read_again(self) -> list[list[Event]]:
        """The table is read again from now on, as another generation: its first event. Some keys have gone unseen."""
        self.is_complete = False
        self._to_read = sorted(self._chance.sample(self.keys, len(self.keys) * 4 // 5), key=place)
        self._read = set()
        return [[Event("t", table=self.collection)]]

    def chunks(self, count: int | None = None) -> list[list[Event]]:
        """The next rows of a table that is read again, with changes of the log between; all that are left for None."""
        assert self._to_read is not None
        chunk, rest = (self._to_read, []) if count is None else (self._to_read[:count], self._to_read[count:])
        self._to_read = rest or None
        self.is_complete = not rest
        return self._rows(chunk)

    def evolve(self) -> None:
        """A column comes or goes; ``schema`` says it. Where the log tells which is which, it may get another name."""
        droppable = [name for name in self.columns if name != "name"]
        match self._chance.choice(["drop", "add", "rename", "swap"] if self._ids else ["drop", "add"]):
            case "drop" if droppable:
                self._drop(self._chance.choice(droppable))
            case "rename" if droppable:
                self._rename(self._chance.choice(droppable))
            case "swap" if len(texts := [name for name, type_ in self.columns.items() if type_ == "string"]) > 1:
                one, other = self._chance.sample(texts, 2)
                self._ids[one], self._ids[other] = self._ids[other], self._ids[one]
            case _:
                self._added += 1
                self._add(f"added {self._added}", self._chance.choice(["string", "bigint"]))
        self.schema = self._schema()

    def _add(self, name: str, type_: str) -> None:
        self.columns[name] = self._types[name] = type_
        if self._ids:
            self._ids[name] = f"column {self._added}"
            self._fills[self._ids[name]] = self._value(type_) if self._chance.random() < 0.5 else None

    def _drop(self, name: str) -> None:
        del self.columns[name]
        self._ids.pop(name, None)

    def _rename(self, name: str) -> None:
        """A column gets a name that there never was, or one that a column of its type had that is gone."""
        type_ = self.columns[name]
        known = [other for other, of in self._types.items() if of == type_ and other not in self.columns]
        self._added += 1
        new = self._chance.choice([*known, f"renamed {self._added}"])
        self.columns = {new if other == name else other: of for other, of in self.columns.items()}
        self._types[new] = type_
        self._ids[new] = self._ids.pop(name)

    def _schema(self) -> TableSchema:
        found = schema(self.collection, tuple(self.key), **self.key, **self.columns)
        if not self._ids:
            return found
        ids = [self._ids[column.name] for column in found.columns]
        columns = [
            column.model_copy(update={"id": id, "fill": self._fills.get(id)})
            for column, id in zip(found.columns, ids, strict=True)
        ]
        return found.model_copy(update={"columns": columns})

    def _next(self) -> list[list[Event]]:
        one, other = self._chance.choice(self.keys), self._chance.choice(self.keys)
        match self._chance.choices("cupdmsrtbx", [4, 5, 5, 4, 2, 2, 2, 0.1, 1.5, 0.7])[0]:
            case "c":
                return [[self._whole("c", one)]]
            case "u":
                return [[self._whole("u", one)]]
            case "p":
                return [[self._partial(one)]]
            case "d":
                return [[self._delete(one)]]
            case "m":  # the key changes
                return [[self._delete(one), self._whole("c", other)]]
            case "s":  # two keys are swapped
                return [[self._delete(one), self._delete(other), self._whole("c", one), self._whole("c", other)]]
            case "r":
                return [[self._delete(one), self._whole("c", one), self._partial(one)]]
            case "t":
                return [[Event("t", table=self.collection)]]
            case "b":
                return self._chunk()
            case _:
                return self._rows(self._chance.choice(self._chunks)) if self._chunks else []

    def _chunk(self) -> list[list[Event]]:
        """Rows of a backfill, mostly in order, with changes of the log between them."""
        start = self._chance.randrange(len(self.keys))
        chunk = self.keys[start : start + self._chance.randrange(1, 80)]
        if self._chance.random() < 0.25:
            chunk = self._chance.sample(chunk, len(chunk))
        self._chunks.append(chunk)
        return self._rows(chunk)

    def _rows(self, chunk: Sequence[tuple[Any, ...]]) -> list[list[Event]]:
        between = 0.1 if self._chance.random() < 0.5 else 0.0
        rows = []
        for key in chunk:
            rows.append([self._whole("c", key, snapshot=True)])
            if self._chance.random() < between:
                rows.append([self._chance.choice([self._partial, self._delete])(self._chance.choice(self.keys))])
        return rows

    def _whole(self, op: str, key: tuple[Any, ...], *, snapshot: bool = False) -> Event:
        if self._read is not None:
            self._read.add(key)
        return Event(op, {**self._named(key), **self._values()}, snapshot=snapshot, table=self.collection)

    def _partial(self, key: tuple[Any, ...]) -> Event:
        if self._read is not None and key not in self._read:
            # A row that is there is read before its generation is whole, so a change of it takes nothing from before.
            return self._whole("u", key)
        names = sorted(self.columns)
        lacking = tuple(self._chance.sample(names, self._chance.randrange(1, len(names) + 1)))
        carried = {name: value for name, value in self._values().items() if name not in lacking}
        return Event("u", {**self._named(key), **carried}, lacking, table=self.collection)

    def _delete(self, key: tuple[Any, ...]) -> Event:
        return Event("d", self._named(key), table=self.collection)

    def _named(self, key: tuple[Any, ...]) -> dict[str, Any]:
        return dict(zip(self.key, key, strict=True))

    def _values(self) -> dict[str, Any]:
        return {name: self._value(type_) for name, type_ in self.columns.items() if self._chance.random() < 0.9}

    def _value(self, type_: str) -> Any:
        return self._chance.randrange(10**9) if type_ == "bigint" else self._chance.randbytes(12).hex()
