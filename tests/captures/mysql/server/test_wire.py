"""PyMySQL's private members: that they are there, and that one module only knows of them."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import pymysql
import pytest
from pymysql.constants import COMMAND

import captures.mysql
from captures.mysql.server import wire
from tests.captures.mysql.table_chunks import session_on
from tests.servers.mariadb import Database

PACKAGE = Path(captures.mysql.__file__).parent


@pytest.mark.parametrize("member", wire.PRIVATE)
def test_pymysql_has_the_member(member: str) -> None:
    assert hasattr(pymysql.connections.Connection, member) or member in {"_sock", "_secure"}
    text = Path(pymysql.connections.__file__).read_text()
    assert f"self.{member}" in text, f"PyMySQL {pymysql.__version__} lacks {member}"


def test_no_other_module_touches_private_members_of_a_connection() -> None:
    used = {
        (path.name, member)
        for path in PACKAGE.rglob("*.py")
        for member in re.findall(r"\bconnection\.(_\w+)", path.read_text())
    }
    assert {name for name, _ in used} == {"wire.py"}
    overridden = {"_create_ssl_ctx"}
    assert {member for _, member in used} | overridden == set(wire.PRIVATE)


def test_they_do_what_they_did(binlog_database: Database) -> None:
    with session_on(binlog_database) as session, closing(session.connection) as connection:
        wire.send_command(connection, COMMAND.COM_PING, b"")
        assert wire.read_packet(connection).is_ok_packet()
        wire.send_command(connection, COMMAND.COM_QUERY, "SELECT 1")
        assert wire.incoming(connection).read(5) == b"\x01\0\0\x01\x01"
        assert wire.socket_of(connection).fileno() == session.descriptor
        assert isinstance(wire.is_encrypted(connection), bool)
        wire.break_off(connection)
        assert wire.socket_of(connection) is None and not connection.open
