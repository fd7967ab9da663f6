"""Serves ``/metrics``, ``/healthz`` and ``/readyz`` beside a running capture, to monitors alone."""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Callable
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

_TEXT = "text/plain; charset=utf-8"


class MetricsServer:
    """Answers while it is entered, in threads of its own: a client that hangs blocks nothing.

    Args:
        entry: Where it listens.
        metrics: What is collected for each request of ``/metrics``.
        unready: Why the capture does not move, in words; empty if it does.

    Attributes:
        port: It may have been chosen by the system.

    Raises:
        UsageError: ``TM-CFG-010`` the address is taken, or is none of this machine.
    """

    def __init__(self, entry: MetricsEntry, metrics: Collector, unready: Callable[[], list[str]]) -> None:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(metrics)
        names = {entry.host.lower(), "localhost", *map(str.lower, entry.hosts)}
        handler = type("Handler", (_Handler,), {"registry": registry, "unready": staticmethod(unready), "names": names})
        try:
            self._server = _server(entry)(entry.address, handler)
        except OSError as error:
            raise UsageError("TM-CFG-010", f"cannot listen at {entry.listen}: {error.strerror or error}") from None
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.1], name="metrics", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


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


class _Handler(BaseHTTPRequestHandler):
    registry: CollectorRegistry
    unready: Callable[[], list[str]]
    names: set[str]
    timeout = PATIENCE_SECONDS
    server_version, sys_version = "tidemark", ""

    def do_GET(self) -> None:
        status, kind, body = self._answer()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET

    def _answer(self) -> tuple[HTTPStatus, str, bytes]:
        if not self._is_meant():
            return HTTPStatus.FORBIDDEN, _TEXT, b"this name is not one of metrics.hosts\n"
        match self.path.partition("?")[0]:
            case "/metrics":
                encode, kind = choose_encoder(self.headers.get("Accept", ""))
                return HTTPStatus.OK, kind, encode(self.registry)
            case "/healthz":
                return HTTPStatus.OK, _TEXT, b"alive\n"
            case "/readyz":
                if reasons := self.unready():
                    return HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, "".join(f"{one}\n" for one in reasons).encode()
                return HTTPStatus.OK, _TEXT, b"ready\n"
        return HTTPStatus.NOT_FOUND, _TEXT, b"/metrics, /healthz and /readyz are here\n"

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
