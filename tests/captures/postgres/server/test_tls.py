"""TLS in the modes of libpq, client certificates, SCRAM; and where a password must never be."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.captures.session import Json, Session, apply, session, unary
from tests.captures.source_tables import BOUND, FILL, USERS, endpoint, prepare, table_rows
from tidemark.captures.postgres.server.config import parse_endpoint
from tidemark.captures.postgres.server.session import connect, connect_pq
from tidemark.protocol.errors import SourceError
from tidemark.testing.certificates import Authority, Certificate
from tidemark.testing.missing import lacks
from tidemark.testing.servers.postgres import Database, Postgres, fresh_database, not_startable, startable
from tidemark.testing.servers.postgres_server import PostgresServer

PASSWORD = "pa'ss \\wörd"


@dataclass(frozen=True)
class Encrypted:
    """A server that takes TLS connections only, with a certificate for ``localhost``."""

    database: Database
    authority: Authority
    other: Authority
    client: Certificate

    def config(self, **more: object) -> Json:
        return {**self.database.config(), "host": "localhost", "slot": "tls", **more}


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    found = [source.binaries for source in startable() if source.binaries is not None and _has_tls(source.binaries)]
    if not found:
        pytest.skip(
            lacks("no PostgreSQL that was built with TLS", "apt-get install postgresql")
            if startable()
            else not_startable()
        )
    folder = tmp_path_factory.mktemp("tls")
    authority, other = Authority(folder, "authority"), Authority(folder, "other")
    names = {"ssl_cert_file": "server.crt", "ssl_key_file": "server.key", "ssl_ca_file": "authority.crt"}
    with PostgresServer(found[0]) as server:
        signed = authority.sign("localhost")
        _give(
            server, {"server.crt": signed.certificate, "server.key": signed.key, "authority.crt": authority.certificate}
        )
        (server.data / "pg_hba.conf").write_text(
            "hostssl all certified all cert\nhostssl all all all scram-sha-256\nlocal all all scram-sha-256\n"
        )
        with (server.data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in {"ssl": "on", **names}.items())
        server.restart()
        postgres = Postgres(server.dsn, server.version, server.binaries, server)
        with fresh_database(postgres, "tls") as database:
            prepare(
                database,
                USERS,
                FILL,
                "CREATE PUBLICATION tidemark FOR TABLE users",
                "CREATE ROLE certified LOGIN REPLICATION",
                "GRANT SELECT ON users TO certified",
            )
            yield Encrypted(database, authority, other, authority.sign("certified"))


def _has_tls(binaries: Path) -> bool:
    """Whether the server was linked with OpenSSL."""
    built = subprocess.run([binaries / "pg_config", "--configure"], capture_output=True, text=True, check=False).stdout
    return "openssl" in built


def _give(server: PostgresServer, files: dict[str, Path]) -> None:
    """Puts files where the server's account reads them."""
    owner = server.data.stat()
    for name, file in files.items():
        target = server.data / name
        shutil.copyfile(file, target)
        target.chmod(0o600)
        if os.geteuid() == 0:
            shutil.chown(target, owner.st_uid, owner.st_gid)


def _encrypted(config: Json) -> bool:
    with connect(parse_endpoint(config)) as connection:
        row = connection.execute("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").fetchone()
    connect_pq(parse_endpoint(config), replication=True).finish()
    return row == (True,)


@pytest.mark.parametrize("mode", ["allow", "prefer", "require"])
def test_modes_that_check_nothing(encrypted: Encrypted, mode: str) -> None:
    assert _encrypted(encrypted.config(sslmode=mode))
    assert _encrypted(encrypted.config(sslmode=mode, host="127.0.0.1"))


def test_verify_ca_wants_the_authority(encrypted: Encrypted) -> None:
    trusted = str(encrypted.authority.certificate)
    assert _encrypted(encrypted.config(sslmode="verify-ca", sslrootcert=trusted))
    assert _encrypted(encrypted.config(sslmode="verify-ca", sslrootcert=trusted, host="127.0.0.1"))
    _refused(encrypted.config(sslmode="verify-ca", sslrootcert=str(encrypted.other.certificate)), "certificate verify")


def test_verify_full_wants_the_name_too(encrypted: Encrypted) -> None:
    trusted = str(encrypted.authority.certificate)
    assert _encrypted(encrypted.config(sslmode="verify-full", sslrootcert=trusted))
    _refused(encrypted.config(sslmode="verify-full", sslrootcert=trusted, host="127.0.0.1"), "does not match host name")


def _refused(config: Json, text: str) -> None:
    with pytest.raises(SourceError, match=text) as of_questions:
        connect(parse_endpoint(config))
    with pytest.raises(SourceError, match=text) as of_the_log:
        connect_pq(parse_endpoint(config), replication=True)
    assert of_questions.value.code == of_the_log.value.code == "TM-PG-038"


def test_no_tls_where_the_server_wants_it(encrypted: Encrypted) -> None:
    with pytest.raises(SourceError, match="no encryption") as raised:
        connect(parse_endpoint(encrypted.config(sslmode="disable")))
    assert raised.value.code == "TM-PG-002"


def test_tls_where_the_server_has_none(database: Database) -> None:
    with database.connect() as admin:
        if admin.execute("SHOW ssl").fetchone() == ("on",):
            pytest.skip("this server has TLS")
    _refused({**database.config(), "sslmode": "require"}, "does not support SSL")


def test_tls_of_the_server_at_hand(database: Database, tmp_path: Path) -> None:
    """Whatever server that is: the one of a connection string has a certificate of its own."""
    with database.connect() as admin:
        if admin.execute("SHOW ssl").fetchone() != ("on",):
            pytest.skip("this server has no TLS")
    prepare(database, USERS, FILL)
    config = {**endpoint(database), "sslmode": "require", "sslrootcert": None}
    assert _encrypted(config)
    stranger = Authority(tmp_path, "stranger")
    _refused({**config, "sslmode": "verify-ca", "sslrootcert": str(stranger.certificate)}, "certificate verify failed")
    apply(config, BOUND)
    with session(config, BOUND, stop=True) as capture:
        assert capture.finish() == 0
        assert capture.rows() == table_rows(database)


def test_a_capture_with_a_client_certificate(encrypted: Encrypted) -> None:
    """No password is needed: not by questions, chunks, or the log."""
    config = encrypted.config(
        user="certified",
        password="",
        sslmode="verify-full",
        sslrootcert=str(encrypted.authority.certificate),
        sslcert=str(encrypted.client.certificate),
        sslkey=str(encrypted.client.key),
        publication="tidemark",
    )
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(Session.done)
        prepare(encrypted.database, "INSERT INTO users VALUES (5000, 'over TLS') ON CONFLICT DO NOTHING")
        capture.until(lambda c: len(c.documents) > 1000)
        assert capture.rows() == table_rows(encrypted.database)
    stranger = encrypted.other.sign("certified")
    with pytest.raises(SourceError):
        connect(parse_endpoint({**config, "sslcert": str(stranger.certificate), "sslkey": str(stranger.key)}))


@pytest.fixture
def secretive(database: Database) -> Iterator[str]:
    """A role with a password in which everything has to be escaped somewhere."""
    role = f"{database.name}_secretive"
    prepare(
        database,
        USERS,
        FILL,
        "CREATE PUBLICATION tidemark FOR TABLE users",
        f"CREATE ROLE {role} LOGIN REPLICATION PASSWORD '{PASSWORD.replace(chr(39), chr(39) * 2)}'",
        f"GRANT SELECT ON users TO {role}",
    )
    yield role
    prepare(database, f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def test_a_password_goes_by_scram_and_is_nowhere(database: Database, secretive: str) -> None:
    with database.connect() as admin:
        stored = admin.execute("SELECT rolpassword FROM pg_authid WHERE rolname = %s", [secretive]).fetchone()
    assert stored is not None and stored[0].startswith("SCRAM-SHA-256$")
    config = {**database.config(), "user": secretive, "password": PASSWORD, "slot": database.name[-60:]}
    config["publication"] = "tidemark"
    seen: list[str] = []
    for wrong in ({}, {"database": "absent"}, {"sslmode": "verify-full"}, {"port": 1}, {"user": "nobody"}):
        request = {"validate": {"config": {**config, **wrong}, "bindings": BOUND}}
        _, messages, logs = unary(request, {"LOG_LEVEL": "debug"})
        seen.append(json.dumps([messages, logs], ensure_ascii=False))
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(Session.done)
        for folder in Path("/proc").glob("[0-9]*"):
            seen.append(_text(folder / "cmdline"))
        seen.append(json.dumps([capture.state, capture.logs, capture.process.args], ensure_ascii=False))
    assert not [text for text in seen if "pa'ss" in text or "wörd" in text or "w\\u00f6rd" in text]
    assert any("tidemark.connectors.postgres" in text for text in seen), "processes were looked at"


def _text(file: Path) -> str:
    try:
        return file.read_bytes().decode(errors="replace")
    except OSError:  # It ended meanwhile.
        return ""
