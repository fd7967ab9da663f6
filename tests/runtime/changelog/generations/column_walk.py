"""A table whose columns come, go and get other names, and what readers see of its rows, beside the model of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from tests.runtime.changelog.generations.column_model import (
    KEY,
    ColumnModel,
    Happening,
    ShownGeneration,
    ToldColumn,
    Values,
)
from tests.runtime.changelog.generations.sessions import Sessions, selected
from tidemark.protocol.changelog.models import Commit
from tidemark.protocol.changelog.shown import shown as shown_of
from tidemark.protocol.messages import COLUMN_FILL, COLUMN_ID, COMPLETE, KEY_COLUMNS, JsonObject
from tidemark.spark_sink.live.state_partitions import plan_state, read_state
from tidemark.spark_sink.live.table_view import table_view
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.spark_sink.source.inferred_schema import InferredSchema
from tidemark.spark_sink.source.partitions import plan, read_partition

TABLE = "public/a"
NAMES = ("b", "c", "d")
KEYS = (1, 2)
TYPES = ("bigint", "string", "date")
_IN_JSON: dict[str, dict[str, str]] = {
    "bigint": {"type": "integer"},
    "string": {"type": "string"},
    "date": {"type": "string", "format": "date"},
}
_FIRST_DAY = date(2001, 1, 1)

Row = dict[str, Any]
Step = tuple[Any, ...]
"""A method of ``ColumnWalk`` and its arguments."""

STEPS: tuple[Step, ...] = (
    *(("put", key) for key in (*KEYS, *KEYS, *KEYS)),
    *(("touch", key, name) for key in KEYS for name in NAMES),
    ("delete", KEYS[0]),
    ("truncate",),
    *(("add", name, type_) for name in NAMES for type_ in TYPES),
    *(("add_wrong", NAMES[0], later) for later in (True, False)),
    *([("add_late", NAMES[1], "bigint")] * 4),
    *(("drop", name) for name in NAMES),
    *(("again", name, type_) for name in NAMES[:2] for type_ in TYPES[:2]),
    *(("rename", one, other) for one in NAMES for other in NAMES if one != other),
    *(("retype", name, type_) for name in NAMES[:2] for type_ in ("string", "string", "date")),
    *(("rekey",), ("forget",), ("doubt", NAMES[0]), ("tell",), ("tell",)),
    *(("begin",), ("read_again",), ("read_again",), ("complete",)),
    *([("commit",)] * 8),
    *(("hand_over",), ("lose",), ("crash",), ("reopen",)),
)


class ColumnWalk(Sessions[Happening]):
    """One table with a key, and up to three columns.

    Where the next event is of no generation or of a new one, a commit comes first. Of a change that is told in the same
    commit the generation before has nothing, which is right, as its rows are older, and which the model does not say.
    A column is in doubt only when the log has its identity, while nothing else happens to columns, and where no
    constant was ever wrong. Later no column is renamed: with two columns that swap their names twice, the log has a
    schema again that it had, and no longer tells that it came right after the doubt.

    Args:
        root: Where the log is made.
        known: Whether the connector tells which column is which from the beginning.
    """

    def __init__(self, root: Path, *, known: bool) -> None:
        self._model = ColumnModel()
        first = (ToldColumn(KEY, "id", "bigint", known=known), ToldColumn(1, NAMES[0], "bigint", known=known))
        self._columns: tuple[ToldColumn, ...] = first
        self._made = 1
        self._doubted = self._been_wrong = False
        super().__init__(root, [selected(TABLE, _schema(first), ["id"])])

    def run(self, steps: Sequence[Step]) -> None:
        """Takes the steps, then shows that a last session goes on as the model does."""
        try:
            for name, *arguments in [*steps, ("reopen",), *(("put", key) for key in KEYS), ("commit",)]:
                getattr(self, name)(*arguments)
        finally:
            self._writer.close()

    def _announced(self, table: str) -> JsonObject:
        return _schema(self._columns)

    # What happens to rows.

    def put(self, key: int) -> None:
        """A row comes, or changes in all columns."""
        self._put(key, self._columns)

    def touch(self, key: int, name: str) -> None:
        """A row changes, but for one column, which the log does not carry."""
        self._put(key, [column for column in self._columns if column.name != name])

    def delete(self, key: int) -> None:
        self._commit_if_wrong()
        self._say(Happening("delete", self._columns, key))
        self._add(self._bound[TABLE], {"_meta": {"op": "d"}, "id": key})

    def truncate(self) -> None:
        self._say(Happening("truncate", self._columns))
        self._add(self._bound[TABLE], {"_meta": {"op": "t"}})

    def begin(self) -> None:
        """The table is read again."""
        self.commit()
        self._say(Happening("begin", self._columns))
        if self._bound[TABLE].begin(self._batch):
            self.truncate()

    def complete(self) -> None:
        self._say(Happening("complete", self._columns))
        self._bound[TABLE].complete(self._batch)

    def read_again(self) -> None:
        """The table is read again, to its end."""
        self.begin()
        for key in KEYS:
            self.put(key)
        self.complete()

    def _put(self, key: int, carried: Sequence[ToldColumn]) -> None:
        values: Values = {column.number: self._value(column.type) for column in carried if column.name != "id"}
        values |= {column.number: key for column in self._columns if column.name == "id"}
        self._commit_if_wrong()
        self._say(Happening("put", self._columns, key, values))
        names = {column.number: column.name for column in self._columns}
        meta: dict[str, Any] = {"op": "u"}
        if left := [name for number, name in names.items() if number not in values]:
            meta["unchanged"] = left
        self._add(self._bound[TABLE], {"_meta": meta, **{names[number]: value for number, value in values.items()}})

    # What happens to columns. Of a column that is not there, or is there already, nothing does.

    def add(self, name: str, type_: str) -> None:
        """A column is added with a constant."""
        if self._named(name) is None:
            self._change(*self._columns, self._new(name, type_))

    def add_late(self, name: str, type_: str) -> None:
        """A column is added after another one was renamed, and no schema comes before the first event that has it."""
        if self._named(name) is None:
            self.rename(NAMES[0], NAMES[2])
            self._certain()
            self._columns = (*self._columns, self._new(name, type_))
            self._bound[TABLE].learn(_schema(self._columns))

    def add_wrong(self, name: str, later: bool) -> None:
        """A column is added to a table that has events, and the connector says a constant that it cannot hold.

        Args:
            name: Of the column.
            later: The first event that has it comes in another session.
        """
        self.commit()
        if self._named(name) is None and self._model.generations and self._model.generations[-1].events:
            self._certain()
            self._been_wrong = True
            self._columns = (*self._columns, replace(self._new(name, "date"), constant=None, wrong=True))
            self._tell()
            if later:
                self.reopen()
            self.put(KEYS[0])

    def drop(self, name: str) -> None:
        if self._named(name) is not None:
            self._change(*(column for column in self._columns if column.name != name))

    def again(self, name: str, type_: str) -> None:
        """A column is dropped, and another one with its name is added at once."""
        if self._named(name) is not None:
            self._change(*(self._new(name, type_) if column.name == name else column for column in self._columns))

    def rename(self, one: str, other: str) -> None:
        """A column is renamed; if there is one with that name, they swap their names."""
        names = {one: other, other: one}
        if self._named(one) is not None and not self._doubted:
            self._change(*(replace(column, name=names.get(column.name, column.name)) for column in self._columns))

    def retype(self, name: str, type_: str) -> None:
        """A column gets another type. Its constant is no longer told, as its rows were written again."""
        if (column := self._named(name)) is not None and column.type != type_:
            self._certain()
            self.commit()
            changed = replace(column, known=True, type=type_, constant=None, wrong=False)
            self._change(*(changed if one.name == name else one for one in self._columns))

    def rekey(self) -> None:
        """The key is dropped, and another column with its name is one."""
        self.commit()
        self._change(*(self._new("id", "bigint") if one.name == "id" else one for one in self._columns))

    def forget(self) -> None:
        """The source knows other constants from now on: they count for nothing."""
        self._change(
            *(
                one if one.wrong or one.name == "id" else replace(one, constant=self._value(one.type))
                for one in self._columns
            )
        )

    def doubt(self, name: str) -> None:
        """The connector does not know for a while which column one is."""
        if self._been_wrong:
            return
        self._doubted = True
        self.tell()  # What was told before may be lost.
        self.commit()
        self._change(*(replace(one, known=one.known and one.name != name) for one in self._columns))

    def tell(self) -> None:
        """The connector says again how the table is.

        A session remembers what it was told wrong, and the log does not: an event makes both know.
        """
        self._tell()
        if any(column.wrong for column in self._columns):
            self.put(KEYS[0])

    def _commit_if_wrong(self) -> None:
        """The next event may be of no generation."""
        if any(column.wrong for column in self._columns):
            self.commit()

    def _tell(self) -> None:
        self._say(Happening("tell", self._columns))
        bound = self._bound[TABLE]
        bound.learn(_schema(self._columns))
        bound.announce(self._batch)

    def _change(self, *columns: ToldColumn) -> None:
        """The table's columns are others. What a connector does not know it learns before."""
        if {column.number for column in columns} != {column.number for column in self._columns} or any(
            column.name != before.name for column, before in zip(columns, self._columns, strict=True)
        ):
            self._certain()
            columns = tuple(replace(column, known=True) for column in columns)
        self._columns = columns
        self.tell()

    def _certain(self) -> None:
        if not all(column.known for column in self._columns):
            self._columns = tuple(replace(column, known=True) for column in self._columns)
            self.tell()
            self.commit()

    def _named(self, name: str) -> ToldColumn | None:
        return next((column for column in self._columns if column.name == name), None)

    def _new(self, name: str, type_: str) -> ToldColumn:
        self._made += 1
        return ToldColumn(self._made, name, type_, None if name == "id" else self._value(type_))

    def _value(self, type_: str) -> Any:
        """One that no other column and no other row has."""
        self._made += 1
        if type_ == "date":
            return (_FIRST_DAY + timedelta(self._made)).isoformat()
        return f"text {self._made}" if type_ == "string" else self._made

    def _say(self, happening: Happening) -> None:
        self._said.append(happening)

    # What readers see.

    def _compare(self, commit: Commit, said: list[Happening]) -> None:
        self._model.commit(said)
        assert commit.next_offset == self._model.next_offset
        if (shown := self._model.shown) is None or not shown.columns:
            return
        log = FollowedLog(self._root)
        view = shown_of(log.summary(), TABLE)
        if view is not None and view.over:
            shown = self._model.laid_over(view.numbers)
        # With a constant that a column cannot hold, the log takes none from the connector. Rows get it when read again.
        if view is not None and not (view.over and shown.has_been_wrong):
            names = _numbers(shown)
            rows = {key: _named(values, names) for key, values in shown.rows.items()}
            assert _state(log, names) == rows, f"other rows after commit {commit.number}"
        newest = self._model.generations[-1]
        # Of a change that no event follows, readers of changes know nothing.
        if newest.events and newest.columns == newest.seen and not newest.ended:
            names = _numbers(newest)
            events = {offset: values and _named(values, names) for offset, values in newest.events.items()}
            found = {o: row if events[o] else None for o, row in _changes(log, newest.first, names).items()}
            assert found == events, f"other events after commit {commit.number}"


def _numbers(generation: ShownGeneration) -> dict[str, int]:
    return {column.name: column.number for column in generation.columns}


def _named(values: Values, numbers: dict[str, int]) -> Row:
    return {name: values.get(number) for name, number in numbers.items()}


def _schema(columns: Sequence[ToldColumn]) -> JsonObject:
    """As a connector says it."""
    properties: dict[str, Any] = {}
    for column in columns:
        told: dict[str, Any] = dict(_IN_JSON[column.type])
        if column.known:
            told[COLUMN_ID] = str(column.number)
            if column.wrong or column.constant is not None:
                told[COLUMN_FILL] = "soon" if column.wrong else column.constant
        properties[column.name] = told
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {"_meta": {}, **properties},
        COMPLETE: True,
        KEY_COLUMNS: ["id"],
    }


def _state(log: FollowedLog, names: Iterable[str]) -> dict[int, Row]:
    """The rows of the live view, by key."""
    view = table_view(log, TABLE.replace("/", "."), log.end(), None)
    batches = (batch for partition in plan_state(view, list(names)) for batch in read_state(partition))
    return {row["id"]: _plain(row, names) for batch in batches for row in batch.to_pylist()}


def _changes(log: FollowedLog, start: int, names: Iterable[str]) -> dict[int, Row]:
    """The events of the newest generation, by offset."""
    inferred = InferredSchema.of(log, TABLE.replace("/", "."), start, log.end())
    partitions = plan(log, TABLE, inferred.columns, start, log.end(), lineage=inferred.lineage)
    batches = (batch for one in partitions for batch in read_partition(log.at, inferred.columns, one))
    return {row["_offset"]: _plain(row, names) for batch in batches for row in batch.to_pylist()}


def _plain(row: dict[str, Any], names: Iterable[str]) -> Row:
    values = {name: row[name] for name in names}
    return {name: value.isoformat() if isinstance(value, date) else value for name, value in values.items()}
