"""Encrypted connections: each ssl_mode, a client's certificate, and servers that want the one or the other."""

from __future__ import annotations

from typing import Any

import pytest

from tests.captures.log_reader import plain
from tests.captures.mysql.captured_log import captured_log
from tests.captures.mysql.secure_server import SecureServer, cipher
from tests.captures.mysql.table_chunks import run
from tidemark.captures.mysql.server.session import connect
from tidemark.captures.mysql.terms.config import parse_endpoint
from tidemark.protocol.errors import SourceError


@pytest.fixture
def account(secure_server: SecureServer) -> dict[str, Any]:
    """The configuration of a user of the server's newest method."""
    return secure_server.account(secure_server.methods[-1])


def refused(config: dict[str, Any], code: str = "TM-MY-003", **more: Any) -> SourceError:
    with pytest.raises(SourceError) as caught:
        connect(parse_endpoint({**config, **more}))
    assert caught.value.code == code
    return caught.value


def test_modes(secure_server: SecureServer, account: dict[str, Any]) -> None:
    ours, other = str(secure_server.authority.certificate), str(secure_server.other.certificate)
    assert cipher({**account, "ssl_mode": "DISABLED"}) == ""
    assert cipher(account) and cipher({**account, "ssl_mode": "REQUIRED"})
    assert cipher({**account, "ssl_mode": "VERIFY_CA", "ssl_ca": ours})
    refused(account, ssl_mode="VERIFY_CA", ssl_ca=other)
    refused(account, ssl_mode="VERIFY_CA")
    # The certificate names localhost; the configuration 127.0.0.1.
    assert "127.0.0.1" in refused(account, ssl_mode="VERIFY_IDENTITY", ssl_ca=ours).message
    assert cipher({**account, "host": "localhost", "ssl_mode": "VERIFY_IDENTITY", "ssl_ca": ours})


def test_a_server_that_wants_encrypted_connections(secure_server: SecureServer, account: dict[str, Any]) -> None:
    database = secure_server.database("shop")
    run(database, "CREATE TABLE t (id INT PRIMARY KEY)")
    # From the server's own machine, the socket counts as secure: root goes on by TLS, as PyMySQL prefers it.
    secure_server.run("SET GLOBAL require_secure_transport = ON")
    try:
        # MariaDB before 11 says no more than that access is denied.
        unsaid = secure_server.mariadb and secure_server.version < (11,)
        error = refused(account, "TM-MY-002" if unsaid else "TM-MY-003", ssl_mode="DISABLED")
        assert "ssl_mode: REQUIRED" in error.remedy
        for ssl_mode in ("PREFERRED", "REQUIRED"):
            with captured_log(database, "t", **account, ssl_mode=ssl_mode) as log:
                run(database, "REPLACE INTO t VALUES (1)", "DELETE FROM t")
                assert plain(log.read())[-1] == ("d", {"id": 1})
    finally:
        secure_server.run("SET GLOBAL require_secure_transport = OFF")


def test_a_certificate_of_the_client(secure_server: SecureServer, account: dict[str, Any]) -> None:
    good, bad = secure_server.authority.sign("cdc"), secure_server.other.sign("cdc")
    database = secure_server.database("shop")
    run(database, "CREATE TABLE t (id INT PRIMARY KEY)")
    secure_server.run(f"ALTER USER {account['user']}@'%' REQUIRE SUBJECT '/CN=cdc'")
    verified = {
        **account,
        "host": "localhost",
        "ssl_mode": "VERIFY_IDENTITY",
        "ssl_ca": str(secure_server.authority.certificate),
    }
    with captured_log(
        database, "t", **{**verified, "ssl_cert": str(good.certificate), "ssl_key": str(good.key)}
    ) as log:
        run(database, "INSERT INTO t VALUES (1)")
        assert plain(log.read()) == [("c", {"id": 1})]
        log.log.reconnect()
        run(database, "DELETE FROM t")
        assert plain(log.read()) == [("d", {"id": 1})]
    assert "ssl_cert" in refused(verified, "TM-MY-002").remedy
    # What the client sees of it depends on how fast the server ends the connection.
    with pytest.raises(SourceError, match=r"TM-MY-00[13]") as caught:
        connect(parse_endpoint({**verified, "ssl_cert": str(bad.certificate), "ssl_key": str(bad.key)}))
    assert "ssl_c" in caught.value.remedy
    refused(verified, ssl_cert=str(good.certificate), ssl_key=str(bad.key))
    refused(verified, ssl_cert="/nowhere/cert.pem", ssl_key="/nowhere/key.pem")


def test_a_server_without_encryption(secure_server: SecureServer) -> None:
    """MySQL and newer MariaDB make a certificate of their own, unless they are told not to."""
    if not secure_server.mariadb:
        pytest.skip("what a client sees of such a server is the same of both products")
    off = {"ssl": "off"} if secure_server.version < (11, 4) else {"skip_ssl": "on"}
    server = type(secure_server.server)(secure_server.server.programs, settings=off)
    with server:
        config = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
        assert cipher(config) == ""
        assert "doesn't support it" in refused(config, ssl_mode="REQUIRED").message
