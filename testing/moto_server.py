"""``python -m tidemark.testing.moto_server PORT``: moto's server of S3, whose conditional writes are atomic.

moto looks whether an object exists and then writes it, so of two racing creators both may win. Here one lock is held
around each write with a condition. ``--lies N`` leaves lock and condition away for every Nth object that is created: a
store that no log may be in.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server.werkzeug_app import create_backend_app
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


def without_conditions(application: Wsgi, every: int) -> Wsgi:
    """An application whose conditional writes are none for every so many objects, and atomic for the others."""
    seen: list[str] = []
    atomic = with_atomic_conditions(application)

    def serve(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if "HTTP_IF_NONE_MATCH" not in environ:
            return application(environ, start_response)
        path = environ["PATH_INFO"]
        with _lock:
            if path not in seen:
                seen.append(path)
            is_lie = (seen.index(path) + 1) % every == 0
        if not is_lie:
            return atomic(environ, start_response)
        del environ["HTTP_IF_NONE_MATCH"]
        return application(environ, start_response)

    return serve


def main(port: int, lies: int) -> None:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    application: Wsgi = create_backend_app("s3")  # Otherwise each request looks for the service it is for.
    serve = without_conditions(application, lies) if lies else with_atomic_conditions(application)
    make_server("127.0.0.1", port, serve, threaded=True, request_handler=_Quiet).serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[3]) if sys.argv[2:3] == ["--lies"] else 0)
