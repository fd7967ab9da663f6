"""Methods of authentication, each for the session and for the log, and what is said of users that are not let in."""

from __future__ import annotations

from typing import Any

import pytest

from tests.captures.log_reader import plain
from tests.captures.mysql.captured_log import captured_log
from tests.captures.mysql.secure_server import SecureServer, cipher
from tests.captures.mysql.table_chunks import run
from tidemark.captures.mysql.server.session import connect
from tidemark.captures.mysql.terms.config import parse_endpoint
from tidemark.protocol.error_codes.model import Policy
from tidemark.protocol.errors import SourceError
from tidemark.testing.servers.mariadb import MARIADB, no_source
from tidemark.testing.servers.mariadb_server import MariaDbServer, installed_programs

METHODS = ["mysql_native_password", "ed25519", "sha256_password", "caching_sha2_password"]
MODES = ["DISABLED", "PREFERRED"]


def refused(config: dict[str, Any], **more: str) -> str:
    """The remedy of a refusal, which is one line, without the password, and not tried again."""
    config = {**config, **more}
    with pytest.raises(SourceError) as caught:
        connect(parse_endpoint(config))
    error = caught.value
    assert (error.code, error.entry.policy) == ("TM-MY-002", Policy.MANUAL)
    said = f"{error.message} {error.remedy}"
    assert "\n" not in said
    assert not config["password"] or config["password"] not in said
    return error.remedy


def account_of(server: SecureServer, method: str, **options: str) -> dict[str, Any]:
    if method not in server.methods:
        pytest.skip(f"this {server.server.product} does not have {method}")
    return server.account(method, **options)


@pytest.mark.parametrize("ssl_mode", MODES)
@pytest.mark.parametrize("method", METHODS)
def test_session_and_log_connect_by_each_method(secure_server: SecureServer, method: str, ssl_mode: str) -> None:
    account = {**account_of(secure_server, method), "ssl_mode": ssl_mode}
    database = secure_server.database("shop")
    run(database, "CREATE TABLE t (id INT PRIMARY KEY)")
    # A server that keeps hashes of passwords it has seen asks for less the second time.
    for empty in (True, False):
        if empty:
            secure_server.run("FLUSH PRIVILEGES")
        assert bool(cipher(account)) == (ssl_mode == "PREFERRED")
        with captured_log(database, "t", **account) as log:
            run(database, f"INSERT INTO t VALUES ({empty:d})")
            assert plain(log.read()) == [("c", {"id": int(empty)})]
            if empty:
                secure_server.run("FLUSH PRIVILEGES")
            log.log.reconnect()
            run(database, f"DELETE FROM t WHERE id = {empty:d}")
            assert plain(log.read()) == [("d", {"id": int(empty)})]


@pytest.mark.parametrize("ssl_mode", MODES)
@pytest.mark.parametrize("method", METHODS)
def test_a_wrong_password_or_none_is_refused(secure_server: SecureServer, method: str, ssl_mode: str) -> None:
    account = {**account_of(secure_server, method), "ssl_mode": ssl_mode}
    for password in ("wrong", ""):
        secure_server.run("FLUSH PRIVILEGES")
        assert "Check user and password" in refused(account, password=password)
    assert cipher(account) or ssl_mode == "DISABLED"
    assert "Check user and password" in refused(account, password="wrong")
    assert "the account exists" in refused(account, user="nobody")


def test_a_restart_of_the_server_empties_what_it_knows_of_passwords(secure_server: SecureServer) -> None:
    account = {**account_of(secure_server, "caching_sha2_password"), "ssl_mode": "DISABLED"}
    database = secure_server.database("shop")
    run(database, "CREATE TABLE t (id INT PRIMARY KEY)")
    with captured_log(database, "t", **account) as log:
        secure_server.server.restart()
        log.source.reconnect()
        log.log.reconnect()
        run(database, "INSERT INTO t VALUES (1)")
        assert plain(log.read()) == [("c", {"id": 1})]


@pytest.mark.parametrize("method", METHODS)
def test_an_empty_password(secure_server: SecureServer, method: str) -> None:
    if method == "ed25519":
        pytest.skip("an account of ed25519 without a password lets nobody in")
    account = account_of(secure_server, method, password="")
    for ssl_mode in MODES:
        cipher({**account, "ssl_mode": ssl_mode})
        refused(account, password="some", ssl_mode=ssl_mode)


def test_users_that_are_not_let_in(secure_server: SecureServer) -> None:
    account = account_of(secure_server, secure_server.methods[-1])
    user = f"{account['user']}@'%'"
    database = secure_server.database("shop")
    run(database, "CREATE TABLE t (id INT PRIMARY KEY)")
    with captured_log(database, "t", **account) as log:
        secure_server.run(f"ALTER USER {user} ACCOUNT LOCK")
        assert "ACCOUNT UNLOCK" in refused(account)
        # While it runs: the connection of the log finds the same.
        with pytest.raises(SourceError) as caught:
            log.log.reconnect()
        assert caught.value.code == "TM-MY-002"
        secure_server.run(f"ALTER USER {user} ACCOUNT UNLOCK")
        log.log.reconnect()
    secure_server.run(f"ALTER USER {user} REQUIRE SSL")
    assert "ssl_mode: REQUIRED" in refused(account, ssl_mode="DISABLED")
    assert cipher(account)
    secure_server.run(f"ALTER USER {user} REQUIRE X509")
    assert "ssl_cert" in refused(account, ssl_mode="REQUIRED")
    secure_server.run(f"ALTER USER {user} REQUIRE NONE", f"ALTER USER {user} PASSWORD EXPIRE")
    # MariaDB lets the user in, and refuses every statement; MySQL closes the connection.
    assert "PASSWORD EXPIRE NEVER" in refused(account)


def test_a_user_who_tried_too_often(secure_server: SecureServer) -> None:
    if secure_server.mariadb:
        account = account_of(secure_server, "mysql_native_password")
        secure_server.run("SET GLOBAL max_password_errors = 1")
    elif secure_server.version >= (8, 0, 19):
        options = "FAILED_LOGIN_ATTEMPTS 1 PASSWORD_LOCK_TIME UNBOUNDED"
        account = account_of(secure_server, "caching_sha2_password", options=options)
    else:
        pytest.skip("MySQL counts failed logins since 8.0.19")
    try:
        refused(account, password="wrong")
        assert "FLUSH PRIVILEGES" in refused(account)
    finally:
        if secure_server.mariadb:
            secure_server.run("SET GLOBAL max_password_errors = 1000", "FLUSH PRIVILEGES")


def test_an_account_of_the_operating_systems_user_has_no_password(secure_server: SecureServer) -> None:
    method, library = ("unix_socket", "") if secure_server.mariadb else ("auth_socket", "auth_socket")
    if not secure_server.has(method, library):
        pytest.skip(f"this build comes without {method}")
    account = secure_server.account(method, password="")
    assert method in refused(account)
    assert method in refused(account, password="some")


def test_a_dialog_is_for_people(secure_server: SecureServer) -> None:
    if not secure_server.mariadb or not secure_server.has("pam", "auth_pam"):
        pytest.skip("only MariaDB comes with a method that asks questions, PAM, and not every build")
    assert "pam_use_cleartext_plugin" in refused({**secure_server.account("pam", password=""), "password": "some"})


def test_a_password_is_not_sent_in_clear_text_without_encryption() -> None:
    programs = installed_programs()
    if programs is None:
        pytest.skip(no_source(MARIADB))
    settings = {"plugin_load_add": "auth_pam", "loose_pam_use_cleartext_plugin": "on"}
    with MariaDbServer(programs, settings=settings) as server:
        with server.connect() as admin, admin.cursor() as cursor:
            cursor.execute("SELECT 1 FROM information_schema.plugins WHERE plugin_name = 'pam'")
            if not cursor.fetchall():
                pytest.skip("this build comes without PAM")
            cursor.execute("CREATE USER clear@'%' IDENTIFIED VIA pam")
        account = {"host": server.host, "port": server.port, "user": "clear", "password": "some"}
        assert "ssl_mode" in refused(account, ssl_mode="DISABLED")
