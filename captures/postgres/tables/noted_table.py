"""The fingerprint: what the state keeps of a table's record.

As JSON::

    {"oid": 16402, "key": ["id"],          the table and its key
     "entry": "table 16410",               the entry of the publication
     "options": "8f3e…",                   of the publication
     "files": {"16402": 16420},            see TableRecord.files
     "since": "745",                       every transaction below it had ended
     "readable": true,
     "partitions": {"16424": ["740", "public.t_1"]},  see TableRecord.partitions
     "attributes": 3,                      see TableRecord.attributes
     "identified": true,                   schemas have always had the columns' identities
     "unique": [16405],                    what keeps the key unique: see Unique.number
     "full": true,                         rows may be logged under REPLICA IDENTITY FULL; absent if not
     "columns": {"1": ["id", 23, -1, "", "740", []]},     by number, see NotedColumn
     "shown": {…}}                         see Shown
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from tidemark.captures.postgres.catalog.table_record import Partition
from tidemark.protocol.messages import JsonObject

Pair = tuple[str, int]
"""A column's name, or how its values are handled, and the oid of its type."""


class NotedColumn(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """A column.

    Attributes:
        mark: What documents have of it: ``generated``, ``excluded``, ``hashed``, or all if empty.
        written: See ``ColumnRecord.written``.
        types: Of each type with parts its oid and ``shown_changes.token``.
        collation: Of a column of the key; 0 for any other, without one, and if an earlier version noted it.
    """

    name: str
    type: int
    typmod: int
    mark: str
    written: str
    types: tuple[tuple[int, str], ...]
    collation: int = 0


class Filled(NamedTuple):
    """Rows of a partition in the log.

    The log shows a partition before its first row, and again before the next one if anything was done to it, such as a
    TRUNCATE that the log lacks.

    Attributes:
        transaction: The first one with rows.
        times: How often the log has shown the partition in it.
        later: The log has shown it in later ones.
    """

    transaction: str
    times: int = 0
    later: bool = False


class Shown(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the log has shown since then: see ``tidemark.captures.postgres.tables_that_change.shown_changes``.

    Attributes:
        labels: By type.
        columns: Of each Relation message, by name and type.
        told: New columns, by number: how handled, and the type.
        unsure: It is not known which columns rows of the log have.
        truncated: The last transaction that has a TRUNCATE; empty without one.
        partitions: New ones with rows: the first transaction, and the name.
        filled: Partitions that are new, or that have rows of ``truncated`` from after its last TRUNCATE.
        rewritten: Why an ALTER TABLE rewrote the table, as messages in the log tell: bits of ``Reason``.
        elsewhere: The log has rows of the table as those of another one, whose partition it was.
    """

    labels: tuple[tuple[int, str], ...] = ()
    columns: tuple[tuple[Pair, ...], ...] = ()
    told: dict[str, Pair] = {}
    unsure: bool = False
    truncated: str = ""
    partitions: dict[str, Partition] = {}
    filled: dict[str, Filled] = {}
    rewritten: int = 0
    elsewhere: bool = False


NOTHING_SHOWN = Shown()


class NotedTable(msgspec.Struct, frozen=True, omit_defaults=True):
    """A table; the default stands for none.

    Attributes:
        attributes: None if an earlier version noted it.
        unique: Empty where nothing does, and if an earlier version noted it.
        full: The table or a partition had REPLICA IDENTITY FULL then, or the log has shown it since.
    """

    oid: int = 0
    key: tuple[str, ...] = ()
    files: dict[str, int] = {}
    since: str = "0"
    readable: bool = False
    attributes: int | None = None
    columns: dict[str, NotedColumn] = {}
    partitions: dict[str, Partition] | None = None
    identified: bool = False
    entry: str | None = None
    options: str | None = None
    unique: tuple[int, ...] = ()
    full: bool = False
    shown: Shown = NOTHING_SHOWN

    @classmethod
    def of(cls, state: JsonObject) -> NotedTable:
        """The fingerprint from a state, also from one of an earlier version.

        Raises:
            msgspec.ValidationError: It is none.
        """
        if partitions := state.get("partitions"):
            # Earlier versions kept no names.
            with_names = {oid: [each, ""] if isinstance(each, str) else each for oid, each in partitions.items()}
            state = {**state, "partitions": with_names}
        if primary := state.get("primary"):
            state = {**state, "unique": [primary]}  # Earlier versions kept no others.
        return msgspec.convert(state, cls)

    def to_state(self) -> JsonObject:
        # An Unsayable is a text, too. With lists, as a state that was read.
        state: JsonObject = msgspec.json.decode(msgspec.json.encode(self, enc_hook=str))
        return state


NOTHING_NOTED = NotedTable()
