"""What the log asks about tables: the part of a source that the log reader works with."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from captures.mysql.tables.bindings import BoundTable
from captures.mysql.tables.columns import Column
from captures.mysql.values.charsets import Recode
from protocol.errors import SourceError
from protocol.messages import JsonObject


class Tables(Protocol):
    """Knows the captured tables. Used by the log's thread only."""

    def bound(self, schema: str, table: str) -> BoundTable | None:
        """The captured table of this name, without asking the server; None when no binding captures it.

        Names are compared as the server compares them (``lower_case_table_names``).
        """

    def left_out(self, schema: str, table: str) -> int | None:
        """The binding of this name that is left out; None where there is none, or it is captured."""

    def in_schema(self, schema: str) -> list[str]:
        """The names of all tables of a schema that are bound."""

    def leave_out(self, binding: int) -> None:
        """Captures nothing more of this binding: it is ``left_out`` from here on."""

    def refresh(self, binding: int) -> BoundTable | SourceError:
        """Reads the catalog again. An error when the table cannot be captured. Raises SourceError otherwise."""

    def left_columns(self, binding: int) -> set[str]:
        """Names that columns had before, which rows downstream may still have. Kept with the state: to be changed."""

    def __getitem__(self, binding: int) -> BoundTable:
        """The table of a binding, as it is known."""

    def columns_now(self, binding: int) -> tuple[Column, ...] | None:
        """The columns as the catalog has them; None where the table is gone, or left out. Raises SourceError."""

    def doubted(self) -> list[BoundTable]:
        """Those in which chunks found other columns since this was asked last."""

    def end_of_log(self) -> int:
        """Where the server's log ends now. Raises SourceError."""

    def without_prepared(self) -> set[int]:
        """The bindings that may lack the rows of an XA transaction that was prepared before the capture began.

        None do where the user may see such transactions: tables are not read before they are over. Raises SourceError.
        """

    def adopt(self, binding: int, columns: tuple[Column, ...]) -> tuple[BoundTable, JsonObject | None]:
        """The log's rows have these columns from here on.

        Returns:
            The table with them, and the document schema when it is not the one that was announced last.
        """

    def still_prepared(self) -> Collection[str]:
        """The xids of XA transactions that are prepared, or whose commit is not over. Raises SourceError."""

    def leaves_out(self, binding: int, gtid: str, position: int, xid: str) -> bool | None:
        """See ``captures.mysql.chunks.snapshot_scans.SnapshotScans``."""

    def recode(self, charset: str) -> Recode | None:
        """Recodes texts as this server does. Raises SourceError; see ``captures.mysql.values.charsets.RecodeOf``."""

    def charset_of(self, collation: int) -> str:
        """See ``captures.mysql.values.charsets.Charsets.of_collation``. Raises SourceError."""
