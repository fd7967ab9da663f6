"""A database as the conformance suite sees it: SQL on the one side, its connector on the other.

The suite speaks one SQL, with ``"`` around identifiers and ``||`` between strings; what cannot be said alike in every
dialect is a name of ``types`` or ``statements``, or a method here.
"""

from __future__ import annotations

import base64
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import IntEnum
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network
from itertools import islice
from math import inf, isfinite
from typing import Any, ClassVar
from uuid import UUID

from tests.captures import session as connector
from tests.captures.column_identities import Replayed
from tests.captures.session import ConnectorEnded, Json, Message, Rows, Session
from tests.workload.tables import Database

Run = Callable[[str], None]

Literals = Mapping[str, Sequence[tuple[str, Any]]]
"""By type: SQL of values, and the JSON that documents have for them."""


class Code(IntEnum):
    """Errors that every database has."""

    UNREACHABLE = 1
    LOGIN = 2
    NO_TABLE = 7
    NO_KEY = 9
    PREREQUISITES = 10
    LOST_POSITION = 15
    OTHER_SERVER = 16
    RESERVED_COLUMN = 17
    CONFIG = 23


class Engine(ABC):
    """One kind of database, with a fresh database of it for the test.

    Attributes:
        module: The connector's.
        types: SQL types by what the suite calls them: ``text`` (short enough for a key), ``bytes``, ``uuid``,
            ``datetime`` and ``instant`` (both to the microsecond), ``json``, and ``ci``, a text that can be a key and
            whose collation is not that of its bytes.
        statements: Statements by what they do to the table users: ``retype extra to text``, ``drop key``, and
            ``log old rows``, where the log does not have the whole of a row before its change anyway.
        errors: What its driver raises.
        retyped: The cause of the reread after ``retype extra to text``.
        prefix: Of its error codes; their numbers mean the same in every database, see ``code``.
        text_for_bad_values: A pattern of types; values of theirs among ``literals`` are bad unless they may be text.
        own_values: A pattern of types whose values its driver gives as documents have them, see ``as_json``.
        loosely: Statements after which a session may store all of ``literals``.
    """

    module: ClassVar[str]
    types: Mapping[str, str]
    statements: ClassVar[Mapping[str, str]]
    retyped: ClassVar[str]
    prefix: ClassVar[str]
    errors: ClassVar[type[Exception]]
    text_for_bad_values: ClassVar[str]
    own_values: ClassVar[str]
    loosely: ClassVar[Sequence[str]] = ()

    # The source's side.

    @abstractmethod
    def literals(self) -> Literals:
        """Values of each type that the server has; what has to be made for them is made."""

    @property
    @abstractmethod
    def database(self) -> Database:
        """The test's own."""

    @property
    @abstractmethod
    def schema(self) -> str:
        """Of the test's tables."""

    @abstractmethod
    def connect(self, *, autocommit: bool) -> Any:
        """A DB-API connection of an account that may do anything, whose SQL is the suite's."""

    @abstractmethod
    def lose_log(self) -> None:
        """Makes the server let go of the log that a capture of this test would go on with."""

    @abstractmethod
    def other_server(self, state: Json) -> Json:
        """The state as a capture of another server would have left it."""

    @abstractmethod
    def end_log_connections(self) -> int:
        """Ends the connectors' log connections from the server's side, and says how many there were."""

    @abstractmethod
    def restart_server(self) -> None:
        """Restarts the server, or skips the test where it is not ours."""

    @abstractmethod
    def place(self, document: Json) -> Any:
        """Where in the log a document stands, in a form that grows with the log."""

    def execute(self, *statements: str) -> None:
        """Runs statements, each in a transaction of its own."""
        with closing(self.connect(autocommit=True)) as connection, closing(connection.cursor()) as cursor:
            for statement in statements:
                cursor.execute(statement)

    @contextmanager
    def transaction(self) -> Iterator[Run]:
        """One transaction, committed at the end; it may be ended with COMMIT or ROLLBACK in between."""
        with closing(self.connect(autocommit=False)) as connection, closing(connection.cursor()) as cursor:
            yield cursor.execute
            connection.commit()

    def insert(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        """Inserts rows in one transaction."""
        values = ", ".join(["%s"] * len(rows[0]))
        with closing(self.connect(autocommit=False)) as connection, closing(connection.cursor()) as cursor:
            cursor.executemany(f'INSERT INTO "{table}" VALUES ({values})', [list(row) for row in rows])
            connection.commit()

    def users(self, rows: int = 1000) -> None:
        """Makes the suite's usual table: ``users (id, name)``, ids from 1 on."""
        self.execute(f"CREATE TABLE users (id int PRIMARY KEY, name {self.types['text']})")
        if rows:
            self.insert("users", [(n, f"name {n}") for n in range(1, rows + 1)])

    def rows(self, table: str, key: Sequence[str] = ("id",)) -> Rows:
        """What a table holds, as ``Session.rows`` gives a replayed one."""
        with closing(self.connect(autocommit=True)) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(self.query(table))
            names = [column[0] for column in cursor.description]
            found = [dict(zip(names, map(as_json, row), strict=True)) for row in cursor.fetchall()]
        return {tuple(row[name] for name in key): row for row in found}

    def query(self, table: str) -> str:
        """What selects all columns of a table's rows, as values that Python has too."""
        return f'SELECT * FROM "{table}"'

    # The connector's side.

    @abstractmethod
    def config(self, **more: Any) -> Json:
        """The endpoint configuration; whatever the connector makes at the source has names of this test's own."""

    def bindings(self, *tables: str, **resource: Any) -> list[Json]:
        return connector.bindings(*(f"{self.schema}.{table}" for table in tables), **resource)

    def code(self, error: Code) -> str:
        return f"{self.prefix}-{error:03}"

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-m", self.module]

    def unary(
        self, request: Json | str | bytes, env: dict[str, str] | None = None
    ) -> tuple[int, list[Message], list[Message]]:
        """One request: exit status, messages, log lines."""
        return connector.unary(request, env, command=self.command)

    def apply(self, bound: list[Json], **config: Any) -> None:
        """Makes at the source what the capture needs, as its first session does."""
        connector.apply(self.config(**config), bound, command=self.command)

    def capture(
        self,
        bound: list[Json],
        state: Json | None = None,
        *,
        stop: bool = False,
        env: dict[str, str] | None = None,
        **config: Any,
    ) -> AbstractContextManager[Session]:
        """A capture session, applied first unless it goes on from a state."""
        if not state:
            self.apply(bound, **config)
        return connector.session(self.config(**config), bound, state, stop=stop, command=self.command, env=env)

    @abstractmethod
    def publish(self, bound: list[Json]) -> None:
        """Where tables are captured by more than their name: says so of those that took the name of a bound one."""

    def until_equal(
        self,
        capture: Session,
        table: str,
        *,
        binding: int = 0,
        key: Sequence[str] = ("id",),
        acknowledge: bool = True,
        seconds: float = 60,
    ) -> None:
        """Takes messages until the backfills are over and the replayed table equals the source's, for so long.

        A column that an old document does not have counts as null: so reads whoever added it to a table later.
        """
        source = self.rows(table, key)
        names = next(iter(source.values()), {}).keys()

        rows = Replayed(key)
        replayed = 0

        def target() -> Rows:
            nonlocal replayed
            more = islice(capture.documents, replayed, None)
            for index, doc in more:
                if index == binding:
                    rows.take(doc)
            replayed = len(capture.documents)
            return {at: {name: row.get(name) for name in names} for at, row in rows.rows().items()}

        looked_at = -1

        def equal(capture: Session) -> bool:
            nonlocal looked_at
            if looked_at == capture.checkpoints or not capture.done():
                return False
            looked_at = capture.checkpoints
            return target() == source

        try:
            capture.until(equal, seconds, acknowledge=acknowledge)
        except ConnectorEnded:
            raise
        except AssertionError as late:
            found = target()
            keys = [at for at in source.keys() | found.keys() if source.get(at) != found.get(at)]
            examples = [f"{at}: {source.get(at)} is {found.get(at)}" for at in keys[:3]]
            raise AssertionError(f"{late}; {len(keys)} keys of {table} differ: {examples}") from late

    def until_equal_at_last(self, capture: Session, bound: list[Json], table: str) -> None:
        """As ``until_equal``, also where the table's change ends the session: it is opened again, as a runtime does."""
        try:
            self.until_equal(capture, table)
        except ConnectorEnded:
            assert capture.logs[-1]["fields"]["policy"] == "retry", capture.logs[-1]
            with self.capture(bound, capture.state) as again:
                again.documents[:0] = capture.documents
                self.until_equal(again, table)
            capture.documents = again.documents


def as_json(value: Any) -> Any:
    """A driver's value as documents have it."""
    match value:
        case datetime() if value.tzinfo is not None:
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case Decimal():
            return format(value, "f")
        case bytes():
            return base64.b64encode(value).decode()
        case list():
            return [as_json(element) for element in value]
        case UUID() | IPv4Interface() | IPv6Interface() | IPv4Address() | IPv6Address() | IPv4Network() | IPv6Network():
            return str(value)
        case float() if not isfinite(value):
            return {inf: "Infinity", -inf: "-Infinity"}.get(value, "NaN")
    return value
