"""Serves ``/metrics``, ``/healthz`` and ``/readyz`` beside a running command, and what else it is given.

It answers GET and HEAD, changes nothing, and lets no page of another site read or frame what it serves.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, Self

from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry

from tidemark.protocol.capture_file import MetricsEntry
from tidemark.protocol.errors import UsageError
from tidemark.runtime.progress.liveness import liveness

PATIENCE_SECONDS = 10.0
"""How long a client may take to ask, and to take the answer."""

TEXT = "text/plain; charset=utf-8"

HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
}
"""The headers of each answer. Scripts may make text and no markup."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asks besides its path.

    Attributes:
        query: What follows the ``?`` of its URL, as it is there.
        accept: The types that it takes, as its header ``Accept`` has them.
    """

    query: str
    accept: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request is told.

    Attributes:
        body: Whole.
        kind: Its content type.
        status: Of HTTP.
    """

    body: bytes
    kind: str = TEXT
    status: HTTPStatus = HTTPStatus.OK


Route = Callable[[Asked], Answer]

Routes = Mapping[str, Route]
"""By path, what answers. From any thread, several at a time."""


class MetricsServer:
    """Answers while it is entered, in threads of its own: a client that hangs blocks nothing.

    Args:
        entry: Where it listens.
        metrics: What is collected for each request of ``/metrics``.
        unready: Why the capture does not move, in words; empty if it does.
        routes: What it serves besides.

    Attributes:
        port: It may have been chosen by the system.

    Raises:
        UsageError: ``TM-CFG-010`` the address is taken, or is none of this machine.
    """

    def __init__(
        self, entry: MetricsEntry, metrics: Collector, unready: Callable[[], list[str]], routes: Routes | None = None
    ) -> None:
        names = {entry.host.lower(), "localhost", *map(str.lower, entry.hosts)}
        served = {**(routes or {}), **_for_monitors(metrics, unready)}
        handler = type("Handler", (_Handler,), {"routes": served, "names": names})
        self._server = _listening(entry, handler)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.1], name="metrics", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def check_address(entry: MetricsEntry) -> None:
    """Whether a server could listen there now. Raises UsageError ``TM-CFG-010``."""
    _listening(entry, BaseHTTPRequestHandler).server_close()


def _listening(entry: MetricsEntry, handler: type[BaseHTTPRequestHandler]) -> ThreadingHTTPServer:
    try:
        return _server(entry)(entry.address, handler)
    except (OSError, UnicodeError) as error:  # A text that no host can have as its name is not even looked up.
        reason = getattr(error, "strerror", None) or error
        raise UsageError("TM-CFG-010", f"cannot listen at {entry.listen}: {reason}") from None


def _server(entry: MetricsEntry) -> type[ThreadingHTTPServer]:
    everywhere = not entry.host and socket.has_dualstack_ipv6()

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if everywhere or ":" in entry.host else socket.AF_INET
        daemon_threads = True
        block_on_close = False

        def server_bind(self) -> None:
            if everywhere:
                self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            TCPServer.server_bind(self)  # HTTPServer's own asks for the machine's name, which may take long.

        def handle_error(self, request: object, client_address: object) -> None:
            """A client that went away is no news."""

    return Server


def _for_monitors(metrics: Collector, unready: Callable[[], list[str]]) -> Routes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(metrics)

    def collected(asked: Asked) -> Answer:
        encode, kind = choose_encoder(asked.accept)
        return Answer(encode(registry), kind)

    def readiness(_: Asked) -> Answer:
        if reasons := unready():
            return Answer("".join(f"{one}\n" for one in reasons).encode(), status=HTTPStatus.SERVICE_UNAVAILABLE)
        return Answer(b"ready\n")

    return {"/metrics": collected, "/healthz": lambda _: Answer(b"alive\n"), "/readyz": readiness}


class _Handler(BaseHTTPRequestHandler):
    routes: Routes
    names: set[str]
    timeout = PATIENCE_SECONDS
    server_version, sys_version = "tidemark", ""

    def do_GET(self) -> None:
        answer = self._answer()
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(answer.body)))
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(answer.body)

    do_HEAD = do_GET

    def _answer(self) -> Answer:
        if not self._is_meant():
            return Answer(b"this name is not one of metrics.hosts\n", status=HTTPStatus.FORBIDDEN)
        path, _, query = self.path.partition("?")
        if (route := self.routes.get(path)) is None:
            known = ", ".join(sorted(self.routes))
            return Answer(f"here are {known}\n".encode(), status=HTTPStatus.NOT_FOUND)
        return route(Asked(query, self.headers.get("Accept", "")))

    def _is_meant(self) -> bool:
        """Whether the name in the request is ours: a page of another site may have made a name of its own lead here."""
        host = self.headers.get("Host", "")
        name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        if name.lower() in self.names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def log_message(self, format: str, *args: Any) -> None:
        """A request is no news."""


def why_unready(report: dict[str, Any]) -> list[str]:
    """Why a capture does not move, by what its status file says; empty if it does."""
    life, error = liveness(report), report["error"]
    reasons = [] if life.state == "running" else [life.state]
    if report["status_time"] is None:
        reasons.append("the connector has not said anything yet")
    # An error of a table stops no other table.
    if error is not None and error["passed"] is None and error["code"].startswith(("TM-LOG-", "TM-RUN-")):
        reasons.append(f"{error['code']}: {error['message']}")
    return reasons
