"""The snapshot that a chunk of a table without a key is read in.

See ``tidemark.captures.postgres.chunks.counted_scans``.
"""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import sql


@dataclass(frozen=True, slots=True)
class ImportedSnapshot:
    """What a chunk of a counted scan reads in. Plain data: a reader's process gets it with the table.

    Attributes:
        exported: The name of a snapshot to import; empty for the chunk's own.
        before: Only rows of transactions below this one; None for all that the snapshot shows.
        running: And of none of these.
    """

    exported: str = ""
    before: int | None = None
    running: tuple[int, ...] = ()

    def imported(self) -> sql.Composable:
        """The statement that imports it, as a transaction's first; nothing for a chunk's own."""
        if not self.exported:
            return sql.SQL("")
        return sql.SQL("SET TRANSACTION SNAPSHOT {};").format(sql.Literal(self.exported))

    def conditions(self) -> list[sql.Composable]:
        """For the rows of a chunk."""
        if self.before is None:
            return []
        writer = sql.SQL("xmin::text::bigint")
        conditions: list[sql.Composable] = [sql.SQL("{} < {}").format(writer, sql.Literal(self.before))]
        if self.running:
            running = sql.SQL(", ").join(map(sql.Literal, self.running))
            conditions.append(sql.SQL("{} NOT IN ({})").format(writer, running))
        return conditions


OWN = ImportedSnapshot()
"""A chunk's own, of which it reads every row."""
