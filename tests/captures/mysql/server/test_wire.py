"""PyMySQL's private members: that they are there, and that one module only knows of them."""

from __future__ import annotations

import ast
import re
from contextlib import closing
from pathlib import Path

import pymysql
import pytest
from pymysql.constants import COMMAND

import tidemark.captures.mysql
from tests.captures.mysql.table_chunks import session_on
from tidemark.captures.mysql.server import wire
from tidemark.testing.servers.mariadb import Database

PACKAGE = Path(tidemark.captures.mysql.__file__).parent


@pytest.mark.parametrize("member", wire.PRIVATE)
def test_pymysql_has_the_member(member: str) -> None:
    assert hasattr(pymysql.connections.Connection, member) or member in {"_sock", "_secure"}
    text = Path(pymysql.connections.__file__).read_text()
    assert f"self.{member}" in text, f"PyMySQL {pymysql.__version__} lacks {member}"


def private_members() -> set[str]:
    """Of PyMySQL's connections, packets, results and cursors."""
    modules = (pymysql.connections, pymysql.protocol, pymysql.cursors)
    return {
        name for module in modules for name in re.findall(r"\bself\.(_[a-z]\w*)", Path(module.__file__).read_text())
    }


def touched(path: Path, members: set[str]) -> set[str]:
    """Those that a module reaches for in another object, or defines in a subclass of PyMySQL's."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Attribute(value=ast.Name(id="self")):
                pass
            case (
                ast.Attribute(attr=name)
                | ast.Call(func=ast.Name(id="getattr" | "setattr"), args=[_, ast.Constant(value=str(name)), *_])
            ) if name in members:
                found.add(name)
            case ast.ClassDef(bases=bases) if any("Connection" in ast.unparse(base) for base in bases):
                found |= {part.name for part in node.body if isinstance(part, ast.FunctionDef)} & members
    return found


def test_no_other_module_touches_private_members_of_a_connection() -> None:
    members = private_members()
    assert members > set(wire.PRIVATE)
    used = {path.name: names for path in PACKAGE.rglob("*.py") if (names := touched(path, members))}
    assert used.pop("wire.py") == set(wire.PRIVATE)
    assert not used


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
