"""What chunks of one table select, as SQL. Plain data: a reader's process gets it with each chunk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from psycopg import sql

from tidemark.backfill.keys import Key, key_texts
from tidemark.captures.postgres.catalog.columns import Column, Table
from tidemark.captures.postgres.catalog.table_record import FIRST_NORMAL_OID, OF_PARTITION, TableRecord
from tidemark.captures.postgres.tables.snapshots import OWN, ImportedSnapshot


@dataclass(frozen=True, slots=True)
class ScanTarget:
    """A bound table as a chunk reads it.

    Attributes:
        columns: Those that documents have.
        key: The key columns; empty where the table has no key.
        where: The configuration's condition.
        files: Those that hold the rows of a table without a key; see ``TableRecord.files``.
        snapshot: What a table without a key is read in.
    """

    table: Table
    columns: tuple[Column, ...]
    key: tuple[Column, ...]
    where: str | None
    files: Mapping[str, int]
    snapshot: ImportedSnapshot = OWN

    @property
    def name(self) -> str:
        return self.table.qualified_name

    @property
    def key_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.key)

    @property
    def of_types_that_change(self) -> bool:
        """Whether types of its columns can be altered without the table."""
        return any(column.type.oid >= FIRST_NORMAL_OID for column in self.columns)

    def fits(self, record: TableRecord | None) -> bool:
        """Whether the table is what its decoder is made for, and its rows are where the scan takes them to be."""
        if record is None or record.oid != self.table.oid:
            return False
        definitions = {column.name: column.definition for column in record.columns}
        if any(definitions.get(column.name) != column.definition for column in self.columns):
            return False
        # Once rows are rewritten, those that existed at the base cannot be told from later ones.
        return bool(self.key) or not record.rewritten(self.files)

    def lock(self) -> sql.Composable:
        return sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(self._relation())

    def operators(self) -> sql.Composable | None:
        """Lets the transaction find the operators by which keys of types that extensions brought are ordered.

        Without those of citext, say, keys would be compared as text, and sorted as citext: rows would be left out.
        """
        oids = [oid for column in self.key if (oid := column.type.beneath.oid) >= FIRST_NORMAL_OID]
        if not oids:
            return None
        return sql.SQL(
            "SELECT set_config('search_path', "
            "'pg_catalog, ' || string_agg(DISTINCT quote_ident(n.nspname), ', '), true)"
            " FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE t.oid IN ({})"
        ).format(sql.SQL(", ").join(map(sql.Literal, oids)))

    # By key.

    def scan(
        self,
        cursor: Key | None,
        until: Key | None,
        where: str | None,
        limit: int | None,
        selected: sql.Composable | None = None,
    ) -> sql.Composable:
        """The keyset query: rows after ``cursor`` and not after ``until`` in key order; see ``ChunkPlan``."""
        rows = sql.SQL("SELECT {} FROM {}{} ORDER BY {}").format(
            self._columns() if selected is None else selected,
            self._relation(),
            _where([*self._between(cursor, until), *self._conditions(where)]),
            self._order(),
        )
        return rows if limit is None else sql.SQL("{} LIMIT {}").format(rows, sql.Literal(limit))

    def bound(self, cursor: Key | None, until: Key | None, where: str | None, limit: int) -> sql.Composable:
        """The key of the scan's ``limit``-th row, whatever conditions rows meet; no row when there are fewer.

        Of a partition that is read on its own, the rows of others do not count.
        """
        of_partition = [sql.SQL("({})").format(sql.SQL(where))] if where and where.startswith(OF_PARTITION) else []
        return sql.SQL("SELECT {} FROM {}{} ORDER BY {} OFFSET {} LIMIT 1").format(
            self._order(),
            self._relation(),
            _where([*self._between(cursor, until), *of_partition]),
            self._order(),
            sql.Literal(limit - 1),
        )

    def ends(self, cursor: Key | None, until: Key | None) -> tuple[sql.Composable, sql.Composable]:
        """What follows a select list to have the scan's first row, and its last one."""
        rows = sql.SQL("FROM {}{}").format(self._relation(), _where(self._between(cursor, until)))
        backwards = sql.SQL(", ").join(sql.SQL("{} DESC").format(sql.Identifier(column.name)) for column in self.key)
        return (
            sql.SQL("{} ORDER BY {} LIMIT 1").format(rows, self._order()),
            sql.SQL("{} ORDER BY {} LIMIT 1").format(rows, backwards),
        )

    def rows(self, keys: Sequence[Key]) -> sql.Composable:
        """The query for rows by key, whether or not they meet the conditions that limit scans."""
        listed = sql.SQL(", ").join(map(self._literal, keys))
        return sql.SQL("{} WHERE {} IN ({})").format(self._select(), self._row(len(self.key)), listed)

    def conditioned(self, where: str) -> tuple[sql.Composable, ...]:
        """Queries that the server takes if ``where`` is a condition by itself, as scans put it between others.

        What closes a parenthesis that it has not opened, such as ``a) OR (b``, does not fit into the second one.
        """
        alone = sql.SQL("SELECT FROM {} WHERE (ARRAY[{}\n])[1]").format(self._relation(), sql.SQL(where))
        return self.scan(None, None, where, 1), alone

    # By page.

    def pages(
        self,
        relation: str,
        after: tuple[int, int],
        before: int,
        where: str | None,
        limit: int,
    ) -> sql.Composable:
        """The rows of some pages, each with its ctid as a first column, in the pages' order.

        Args:
            relation: What holds the pages, as SQL: the table itself, or a partition.
            after: Page and line of the last row that is not wanted any more.
            before: The first page that is not wanted.
        """
        conditions = [
            sql.SQL("ctid > {}::tid").format(sql.Literal(f"({after[0]},{after[1]})")),
            sql.SQL("ctid < {}::tid").format(sql.Literal(f"({before},0)")),
            *self._conditions(where),
            *self.snapshot.conditions(),
        ]
        # The pages themselves come in order; a condition may have the planner go another way, by an index or a join.
        order = sql.SQL(" ORDER BY ctid" if self.where or where else "")
        return sql.SQL("SELECT ctid, {} FROM ONLY {}{}{} LIMIT {}").format(
            self._columns(), sql.SQL(relation), _where(conditions), order, sql.Literal(limit)
        )

    # Parts.

    def _relation(self) -> sql.Composable:
        # The log has the rows of tables that inherit from this one under their own names.
        return sql.SQL("{}" if self.table.partitioned else "ONLY {}").format(sql.Identifier(*self.table.path))

    def _columns(self) -> sql.Composable:
        return sql.SQL(", ").join(sql.Identifier(column.name) for column in self.columns)

    def _select(self) -> sql.Composable:
        return sql.SQL("SELECT {} FROM {}").format(self._columns(), self._relation())

    def _order(self) -> sql.Composable:
        return sql.SQL(", ").join(sql.Identifier(column.name) for column in self.key)

    def _between(self, cursor: Key | None, until: Key | None) -> list[sql.Composable]:
        return [
            sql.SQL("{} {} {}").format(self._row(len(key_texts(bound))), sql.SQL(operator), self._literal(bound))
            for operator, bound in ((">", cursor), ("<=", until))
            if bound is not None
        ]

    def _conditions(self, where: str | None) -> list[sql.Composable]:
        # The operator's own SQL, as the configuration promises. A comment at its end must not take the rest with it.
        return [sql.SQL("({}\n)").format(sql.SQL(condition)) for condition in (self.where, where) if condition]

    def _row(self, count: int) -> sql.Composable:
        return _row([operand(sql.Identifier(column.name), column) for column in self.key[:count]])

    def _literal(self, key: Key) -> sql.Composable:
        # The server wrote these texts and reads them back by the column's own type: no collation of ours is involved.
        texts = key_texts(key)
        return _row(
            [
                operand(sql.SQL("{}::{}").format(sql.Literal(text), sql.SQL(column.type.name)), column)
                for text, column in zip(texts, self.key[: len(texts)], strict=True)
            ]
        )


def operand(value: sql.Composable, column: Column) -> sql.Composable:
    """A key column's value as it is compared: the server finds no operators for a domain over an enum."""
    base = column.type.beneath
    if base is column.type or base.kind != "enum":
        return value
    return sql.SQL("{}::{}").format(value, sql.SQL(base.name))


def _row(parts: Sequence[sql.Composable]) -> sql.Composable:
    return sql.SQL("({})").format(sql.SQL(", ").join(parts))


def _where(conditions: Sequence[sql.Composable]) -> sql.Composable:
    return sql.SQL(" WHERE {}").format(sql.SQL(" AND ").join(conditions)) if conditions else sql.SQL("")
