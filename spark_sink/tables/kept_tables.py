"""Which tables are kept from a log: the ``spark.tables`` of a capture file."""

from __future__ import annotations

import fnmatch
import logging
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tidemark.protocol.capture_file.spark_entry import OnSchemaChange, Show
from tidemark.protocol.changelog import Summary, TableSchema
from tidemark.protocol.changelog.models import QUARANTINE
from tidemark.protocol.changelog.shown import Shown, newest_alone, shown
from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.tables.store_place import StorePlace
from tidemark.spark_sink.tables.table_columns import dotted

logger = logging.getLogger(__name__)

CURRENT = "current"
"""The latest row of every key, with the ``_offset`` and ``_commit_ts`` of its last change."""

_VERSION = "__v"

HISTORY = "history"
"""Every event, with all its meta columns."""

_PLAIN = " $&()+,;=@.-_"
"""What stays in the name of a folder besides letters and digits."""


@dataclass(frozen=True, slots=True)
class KeepOptions:
    """How a table is kept whose columns or key change at the source.

    Attributes:
        on_schema_change: ``evolve`` follows each change. ``version`` begins another table where old rows and new ones
            cannot be in one. ``stop`` sets the table aside at any change but an added column.
        show: ``whole`` keeps the old rows of a table that is read again until all new ones are there, under these
            where they fit. ``at_once`` shows the new rows alone, as they come.
    """

    on_schema_change: OnSchemaChange = "evolve"
    show: Show = "whole"


@dataclass(frozen=True, slots=True)
class Target:
    """One table to keep.

    Attributes:
        collection: Of the source table.
        kind: ``current`` or ``history``.
        options: How it is kept.
        version: From 1. With ``on_schema_change: version`` there is another one for each generation that cannot be in
            the table before.
    """

    collection: str
    kind: str
    options: KeepOptions = field(default=KeepOptions(), compare=False)
    version: int = 1

    @property
    def table(self) -> str:
        """The source table as ``schema.table``."""
        return dotted(self.collection)

    @property
    def name(self) -> str:
        """Unique among the targets of a log."""
        return f"{self.collection} {self._versioned}"

    @property
    def _versioned(self) -> str:
        return self.kind if self.version == 1 else f"{self.kind}{_VERSION}{self.version}"

    def place(self, warehouse: StorePlace) -> StorePlace:
        """``warehouse/<schema>/<table>/<kind>``, each name as ``_folder`` makes it; ``<kind>__v2`` for version 2."""
        return self._folder(warehouse) / self._versioned

    def versions(self, warehouse: StorePlace) -> list[Target]:
        """Those that there are, from the newest to this one, which is the first."""
        prefix = f"{self.kind}{_VERSION}"
        numbers = [name.removeprefix(prefix) for name in self._folder(warehouse).folders(prefix)]
        later = sorted((int(number) for number in numbers if number.isdecimal()), reverse=True)
        return [*(replace(self, version=number) for number in later), self]

    def _folder(self, warehouse: StorePlace) -> StorePlace:
        return warehouse / "/".join(map(_folder, self.collection.split("/")))

    def shown(self, summary: Summary) -> Shown | None:
        """The generations whose rows a table of kind ``current`` is to have; None where it has no event."""
        if self.options.show == "at_once":
            return newest_alone(summary, self.collection)
        return shown(summary, self.collection)


def _folder(name: str) -> str:
    """The name of a folder for a name in the source.

    Letters of every language stay, with their marks, and so do digits. A character that a URL, a pattern or some file
    system reads in its own way is written ``~XX``, byte by byte. Percent signs would not do: delta-rs decodes them once
    too often.
    """
    if name in (".", ".."):
        return _escaped(name)
    return "".join(c if c in _PLAIN or unicodedata.category(c)[0] in "LMN" else _escaped(c) for c in name)


def _escaped(text: str) -> str:
    return "".join(f"~{byte:02X}" for byte in text.encode())


class KeepRules:
    """Patterns of ``schema.table`` and the kinds of table to keep of what they match. The most specific one wins.

    A pattern is a name, or has ``*``, ``?`` and ``[…]`` as in a shell; the more characters it fixes, the more specific.

    Args:
        tables: By pattern: a kind, some kinds, or kinds with their options.
    """

    def __init__(self, tables: Mapping[str, str | Sequence[str] | Mapping[str, KeepOptions]]) -> None:
        self._rules = {pattern: _kinds(kinds) for pattern, kinds in tables.items()}

    @property
    def patterns(self) -> Collection[str]:
        """All patterns."""
        return self._rules.keys()

    def targets(self, schema: TableSchema) -> list[Target]:
        """What is kept of one table.

        A table without a key has no current state: where only a pattern asks for it, its history is kept instead. Where
        its own name asks for it, see ``check_key``.
        """
        table = dotted(schema.collection)
        if schema.collection == QUARANTINE and table not in self._rules:
            return []  # It is no table of the source, and no pattern means it.
        matching = [pattern for pattern in self._rules if matches(pattern, table)]
        if not matching:
            return []
        pattern = max(matching, key=lambda p: (p == table, len(re.sub(r"\[[^]]*\]|[*?]", "", p))))
        kinds = self._rules[pattern]
        if CURRENT in kinds and not schema.key and pattern != table:
            logger.warning(
                ("%s has no key: its %s table is kept, not its %s table (TM-SPK-007)"), table, HISTORY, CURRENT
            )
            kinds = {HISTORY: kinds.get(HISTORY, kinds[CURRENT])}
        return [Target(schema.collection, kind, options) for kind, options in kinds.items()]


def check_key(target: Target, schema: TableSchema) -> None:
    """Makes sure that a table can be kept.

    Raises:
        SparkError: ``TM-SPK-007`` for the current state of a table without a key.
    """
    if target.kind == CURRENT and not schema.key:
        raise SparkError("TM-SPK-007", f"{target.table} has no key, so there is no {CURRENT} table of it")


def matches(pattern: str, table: str) -> bool:
    """Whether a pattern is the name of a table (``schema.table``), or matches it as a shell's patterns do."""
    return pattern == table or fnmatch.fnmatchcase(table, pattern)


def unmatched(patterns: Iterable[str], tables: Collection[str]) -> list[str]:
    """The patterns that match none of these tables."""
    return [pattern for pattern in patterns if not any(matches(pattern, table) for table in tables)]


def _kinds(kinds: str | Sequence[str] | Mapping[str, KeepOptions]) -> Mapping[str, KeepOptions]:
    if isinstance(kinds, Mapping):
        return kinds
    return dict.fromkeys([kinds] if isinstance(kinds, str) else kinds, KeepOptions())
