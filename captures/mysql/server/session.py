"""Connections, with settings that give every value one text form, and errors with our codes."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pymysql
from pymysql.connections import Connection

from tidemark.captures.contract.errors import TableAltered, TableAway
from tidemark.captures.mysql.server.authentication import PLUGINS, expired, quoted_account, refusal
from tidemark.captures.mysql.server.wire import WireConnection, break_off, socket_of, unverified
from tidemark.captures.mysql.terms.config import EndpointConfig
from tidemark.protocol.errors import SourceError

CONNECT_TIMEOUT_SECONDS = 15
PROGRAM_NAME = "tidemark"

OLDEST_MYSQL = (5, 7, 0)
OLDEST_MARIADB = (10, 5, 0)

LOCK_SECONDS = 10
"""How long a statement waits for a locked table."""

TOGETHER_LOCK_SECONDS = 1
"""How long one does that holds the locks of others."""

# They override the defaults of the server and the account. A chunk must print every value as the log's decoder does,
# and must not be cut short.
_SETTINGS = (
    "time_zone = '+00:00'",
    # No padding of char, the usual backslashes and quotes, and comparisons with any stored date.
    "sql_mode = 'ALLOW_INVALID_DATES'",
    "sql_select_limit = 18446744073709551615",
    "sql_big_selects = 1",
    # A reader that waits for a lock blocks the queue behind it: it gives up and tries again.
    f"lock_wait_timeout = {LOCK_SECONDS}",
    "innodb_lock_wait_timeout = 10",
    # A slow reader of our stdout may block us for a long time.
    "net_write_timeout = 600",
    "wait_timeout = 28800",
    # The names in a table's definition are read by their quotes.
    "sql_quote_show_create = 1",
)

_GENERATED_KEYS = (8, 0, 30)
_SHOW_GENERATED_KEYS = "show_gipk_in_create_table_and_information_schema = ON"
"""From that version on, MySQL may give a table a key that it hides from the catalog, though the log has its column."""

_NO_CONNECTION = {1040, 1129, 1203, 2002, 2003, 2005, 2012}
_NO_TLS = {2026}
_LOST = {1053, 1077, 1079, 1080, 1152, 1153, 1158, 1159, 1160, 1161, 1184, 1927, 2006, 2013, 2014, 2027, 2055, 3169}
_FORBIDDEN = {1142, 1143, 1227, 1370, 1410}
_NO_TABLE = {1049, 1051, 1146}
_ALTERED = {1176, 1412, 1615}
"""An index that is gone, or a definition that changed since a snapshot was opened, or since a statement was parsed."""

NO_COLUMN = 1054
"""A statement names a missing column: of an altered table, or in a condition."""
_CERTIFICATE_REMEDY = (
    "If it persists, the server probably does not trust the certificate of ssl_cert: have it signed by an authority of "
    "the server's own ssl_ca. SHOW VARIABLES LIKE 'ssl_ca';"
)
# Their messages quote values.
_QUOTING = {1062, 1264, 1265, 1292, 1365, 1366, 1367, 1411, 1525, 1690, 3854}


def connection_parameters(config: EndpointConfig) -> dict[str, Any]:
    """What PyMySQL connects with. It holds the password: never log it."""
    parameters: dict[str, Any] = {
        "user": config.user,
        "password": config.password.get_secret_value().encode(),
        "charset": "utf8mb4",
        "connect_timeout": CONNECT_TIMEOUT_SECONDS,
        "program_name": PROGRAM_NAME,
        "autocommit": True,
        "auth_plugin_map": PLUGINS,
    }
    if config.host.startswith("/"):
        parameters["unix_socket"] = config.host
    else:
        parameters["host"], parameters["port"] = config.host, config.port
    if config.ssl_mode == "DISABLED":
        parameters["ssl_disabled"] = True
    elif config.ssl_mode != "PREFERRED":
        parameters["ssl"] = _tls(config)
    return parameters


def _tls(config: EndpointConfig) -> ssl.SSLContext:
    try:
        if config.ssl_mode == "REQUIRED":
            context = unverified()
        else:
            context = ssl.create_default_context(cafile=config.ssl_ca)
            # Certificates that servers generate for themselves do not meet the strict rules of RFC 5280.
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
            context.check_hostname = config.ssl_mode == "VERIFY_IDENTITY"
        if config.ssl_cert is not None:
            context.load_cert_chain(config.ssl_cert, config.ssl_key)
    except OSError as error:  # ssl.SSLError is one too
        raise SourceError("TM-MY-003", f"the certificates of the configuration: {_text(error)}") from None
    return context


def connect(config: EndpointConfig) -> Session:
    """A session in autocommit mode. Raises SourceError: ``TM-MY-001`` no connection, ``TM-MY-002`` refused credentials,
    ``TM-MY-003`` no encryption, ``TM-MY-004`` a server of a version that is too old.
    """
    try:
        connection = WireConnection(**connection_parameters(config))
    except (pymysql.Error, OSError, RuntimeError) as error:
        raise connection_failure(config, error) from None
    keep_alive(connection)
    session = Session(connection)
    try:
        session.prepare()
    except BaseException:
        session.close()
        raise
    return session


def keep_alive(connection: Connection[Any]) -> None:
    """Makes the system notice within about a minute that the other side is gone, even while nothing is sent."""
    if connection.unix_socket is None:
        for option, seconds in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
            if hasattr(socket, option):  # not all of them everywhere
                socket_of(connection).setsockopt(socket.IPPROTO_TCP, getattr(socket, option), seconds)


def connection_failure(config: EndpointConfig, error: Exception) -> SourceError:
    """The error for a failure to connect."""
    number, reason = error_of(error)
    refused = refusal(config, error, number, reason)
    if refused is not None:
        return refused
    cause = getattr(error, "original_exception", error.__context__)
    # With TLS 1.3 a server checks the client's certificate after the client considers itself connected. If it refuses
    # the certificate, it sends an alert, or ends the stream, as a broken connection does.
    ended = number in _LOST
    broken = ended and isinstance(cause, ssl.SSLEOFError)
    if number in _NO_TLS or (isinstance(cause, ssl.SSLError) and not broken):
        return SourceError("TM-MY-003", f"no encrypted connection to {config.where}: {reason}")
    return SourceError(
        "TM-MY-001",
        f"no connection to {config.where}: {reason}",
        remedy=_CERTIFICATE_REMEDY if ended and config.ssl_cert is not None else None,
    )


def query_failure(error: Exception, what: str, user: str = "USER") -> SourceError:
    """The error for a statement of ``user`` that the server refused, or whose connection broke."""
    number, reason = error_of(error)
    where = f"{what}: {reason}" + (f" (error {number})" if number else "")
    if (failure := expired(number, where, user)) is not None:
        return failure
    if number in _FORBIDDEN:
        return SourceError("TM-MY-008", where)
    if number in _NO_TABLE:
        return TableAway("TM-MY-007", where)
    if number in _ALTERED:
        return TableAltered("TM-MY-030", where)
    if number == NO_COLUMN:
        return SourceError("TM-MY-030", where)
    if number in _LOST or number in _NO_CONNECTION or number == 0:
        return SourceError("TM-MY-020", where)
    return SourceError("TM-MY-019", where)


def error_of(error: Exception) -> tuple[int, str]:
    """Number and message of an error of PyMySQL; 0 where the server gave none. Without values of rows."""
    if isinstance(error, pymysql.Error) and len(error.args) >= 2 and isinstance(error.args[0], int):
        number = int(error.args[0])
        return number, "a value does not fit" if number in _QUOTING else " ".join(str(error.args[1]).split())
    return 0, _text(error)


def _text(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


@contextmanager
def asking(what: str, user: str = "USER") -> Iterator[None]:
    """Inside, an error of PyMySQL or of its socket becomes the SourceError of ``query_failure``."""
    try:
        yield
    except (pymysql.Error, OSError) as error:
        raise query_failure(error, what, user) from None


class Session:
    """A connection for questions with small answers. Used by one thread.

    Attributes:
        version: Its version as numbers, ``(10, 11, 6)``.
    """

    def __init__(self, connection: Connection[Any]) -> None:
        self.connection = connection
        self.mariadb = False
        self.version: tuple[int, ...] = ()
        self._folds_names = False

    def prepare(self) -> None:
        """Applies the settings of every session. Raises SourceError, ``TM-MY-004`` for a server that is too old."""
        user = self.connection.user or b""  # The server lets an expired one in, and refuses every statement.
        with asking("preparing the session", user if isinstance(user, str) else user.decode()):
            text, folding = map(str, self.rows("SELECT @@version, @@lower_case_table_names")[0])
            self._folds_names = folding != "0"
            self.mariadb = "mariadb" in text.lower()
            # Some builds put a fake version in front for old clients: 5.5.5-10.11.6-MariaDB.
            numbers = re.search(r"(\d+)\.(\d+)\.(\d+)", text.removeprefix("5.5.5-"))
            self.version = tuple(map(int, numbers.groups())) if numbers else (0, 0, 0)
            self._check_version()
            settings = [*_SETTINGS, "max_statement_time = 0" if self.mariadb else "max_execution_time = 0"]
            if not self.mariadb and self.version >= _GENERATED_KEYS:
                settings.append(_SHOW_GENERATED_KEYS)
            self.rows(f"SET SESSION {', '.join(settings)}")
            self.rows("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")

    @property
    def has_dictionary(self) -> bool:
        """Whether information_schema has indexes. Otherwise the server opens each table that it lists."""
        return not self.mariadb and self.version >= (8, 0, 0)

    def _check_version(self) -> None:
        product, oldest = ("MariaDB", OLDEST_MARIADB) if self.mariadb else ("MySQL", OLDEST_MYSQL)
        if self.version < oldest:
            present, needed = (".".join(map(str, version[:2])) for version in (self.version, oldest))
            raise SourceError("TM-MY-004", f"the server is {product} {present}; version {needed} or later is required")

    def folded(self, path: tuple[str, str]) -> tuple[str, str]:
        """A table's schema and name as the server compares them: perhaps without regard to case."""
        return (path[0].lower(), path[1].lower()) if self._folds_names else path

    def rows(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        """The rows of a query; none for a statement that has no result. Raises PyMySQL's errors: see ``asking``."""
        with self.connection.cursor() as cursor:
            cursor.execute(query, parameters or None)
            return list(cursor.fetchall())

    def rows_of_bytes(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        """The same with bytes in place of texts: some columns declare as text what may be any bytes."""
        before, self.connection.use_unicode = self.connection.use_unicode, False
        try:
            return self.rows(query, *parameters)
        finally:
            self.connection.use_unicode = before

    def value(self, query: str, *parameters: object) -> Any:
        """The first column of the first row, None when there is none."""
        rows = self.rows(query, *parameters)
        return rows[0][0] if rows else None

    def account(self) -> str:
        """Its account at the server, ``'user'@'host'``. Raises pymysql.Error."""
        user, _, host = str(self.value("SELECT CURRENT_USER()")).rpartition("@")
        return quoted_account(user, host)

    def variable(self, name: str) -> str | None:
        """A global variable as text, None when this server has none of that name."""
        return self.variables(name).get(name.lower())

    def variables(self, *names: str) -> dict[str, str]:
        """Global variables as texts, by lower-case name, without those that this server lacks."""
        marks = ", ".join(["%s"] * len(names))
        rows = self.rows(f"SHOW GLOBAL VARIABLES WHERE variable_name IN ({marks})", *names)
        return {str(name).lower(): str(value) for name, value in rows}

    @property
    def descriptor(self) -> int:
        """The descriptor of the connection's socket. Raises SourceError when it is closed."""
        socket = socket_of(self.connection)
        if socket is None:
            raise SourceError("TM-MY-020", "the session with the server is closed")
        return int(socket.fileno())

    def close(self) -> None:
        """Closes the connection, in any state."""
        if self.connection.open:
            try:
                self.connection.close()
            except (pymysql.Error, OSError):
                break_off(self.connection)
