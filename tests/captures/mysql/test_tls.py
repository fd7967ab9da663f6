"""Encrypted connections: each ssl_mode against a server with a certificate of an authority of our own."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from captures.mysql.config import parse_endpoint
from captures.mysql.session import connect
from protocol.errors import SourceError
from tests.servers.mariadb import no_source
from tests.servers.mariadb_server import MariaDbServer, installed_programs


def _openssl(directory: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with an authority, a certificate of it for ``localhost``, and another authority."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make certificates with")
    made = tmp_path_factory.mktemp("certificates")
    for name in ("ca", "other"):
        subject = ["-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem"]
        _openssl(made, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject)
    _openssl(
        made, "req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout", "key", "-out", "request"
    )
    (made / "names").write_text("subjectAltName=DNS:localhost\n")
    signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names", "-out", "pem"]
    _openssl(made, "x509", "-req", "-in", "request", *signed)
    for file in made.iterdir():
        file.chmod(0o644)
    made.chmod(0o755)
    return made


@pytest.fixture(scope="module")
def server(certificates: Path) -> Iterator[dict[str, Any]]:
    """The configuration to reach a server with that certificate."""
    programs = installed_programs()
    if programs is None:
        pytest.skip(no_source())
    settings = {"ssl_cert": str(certificates / "pem"), "ssl_key": str(certificates / "key")}
    with MariaDbServer(programs, settings=settings) as running:
        yield {"host": running.host, "port": running.port, "user": running.user, "password": running.password}


def cipher(config: dict[str, Any]) -> str:
    with closing(connect(parse_endpoint(config))) as session:
        return str(session.rows("SHOW STATUS LIKE 'Ssl_cipher'")[0][1])


def refused(config: dict[str, Any]) -> str:
    with pytest.raises(SourceError) as caught:
        connect(parse_endpoint(config))
    assert caught.value.code == "TM-MY-003"
    return caught.value.message


def test_modes(server: dict[str, Any], certificates: Path) -> None:
    ours, other = str(certificates / "ca.pem"), str(certificates / "other.pem")
    assert cipher({**server, "ssl_mode": "DISABLED"}) == ""
    assert cipher(server) and cipher({**server, "ssl_mode": "REQUIRED"})
    assert cipher({**server, "ssl_mode": "VERIFY_CA", "ssl_ca": ours})
    refused({**server, "ssl_mode": "VERIFY_CA", "ssl_ca": other})
    refused({**server, "ssl_mode": "VERIFY_CA"})
    # The certificate names localhost; the configuration 127.0.0.1.
    assert "127.0.0.1" in refused({**server, "ssl_mode": "VERIFY_IDENTITY", "ssl_ca": ours})
    assert cipher({**server, "host": "localhost", "ssl_mode": "VERIFY_IDENTITY", "ssl_ca": ours})
