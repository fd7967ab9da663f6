"""A web server that keeps what is posted to it, and answers as it is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Posted:
    """What came, and what is answered: the first statuses once each, then 204.

    Attributes:
        url: Of the server.
        bodies: What was taken.
        headers: Of each request.
        answers: Statuses that come next.
    """

    url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)

    @property
    def events(self) -> list[Any]:
        return [body["event"] for body in self.bodies]


@contextmanager
def receiving() -> Iterator[Posted]:
    posted = Posted()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status = posted.answers.pop(0) if posted.answers else 204
            posted.headers.append(dict(self.headers))
            if status == 204:
                posted.bodies.append(body)
            self._answer(status)

        def do_GET(self) -> None:
            """Where a redirection leads."""
            self._answer(204)

        def _answer(self, status: int) -> None:
            self.send_response(status)
            if status == 302:
                self.send_header("Location", posted.url)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing: its output would be the test's."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        posted.url = f"http://127.0.0.1:{server.server_port}/hook"
        try:
            yield posted
        finally:
            server.shutdown()
            thread.join()
