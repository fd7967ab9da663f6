"""``python -m tests.servers.moto_server PORT``: moto's server of S3, whose conditional writes are atomic.

moto looks whether an object exists and then writes it, so of two racing creators both may win. Here one lock is held
around each write with a condition. ``--lies`` leaves the lock and the condition away: a store that no log may be in.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

_lock = threading.Lock()

Wsgi = Callable[[dict[str, Any], Any], Iterable[bytes]]


class _Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"  # A connection serves more than one request.

    def log_request(self, *_: object) -> None:
        """Says nothing of each request."""


def with_atomic_conditions(application: Wsgi) -> Wsgi:
    def serve(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if "HTTP_IF_NONE_MATCH" not in environ and "HTTP_IF_MATCH" not in environ:
            return application(environ, start_response)
        with _lock:
            return list(application(environ, start_response))

    return serve


def without_conditions(application: Wsgi) -> Wsgi:
    def serve(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        for header in ("HTTP_IF_NONE_MATCH", "HTTP_IF_MATCH"):
            environ.pop(header, None)
        return application(environ, start_response)

    return serve


def main(port: int, *, lies: bool) -> None:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    application: Wsgi = DomainDispatcherApplication(create_backend_app)
    serve = without_conditions(application) if lies else with_atomic_conditions(application)
    make_server("127.0.0.1", port, serve, threaded=True, request_handler=_Quiet).serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), lies="--lies" in sys.argv)
