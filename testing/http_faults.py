"""A proxy in front of an HTTP server that does to requests what clouds and networks do now and then.

It is a thread, or a process: ``python -m tidemark.testing.http_faults SERVER SEED OFTEN FAULT...``. That one says its
address, and how often it did what once its input ends.
"""

from __future__ import annotations

import enum
import json
import random
import socket
import struct
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


class Fault(enum.Enum):
    """What becomes of a request."""

    NONE = "it is answered"
    UNAVAILABLE = "503, and it is not carried out"
    SLOW_DOWN = "429, and it is not carried out"
    RESET_BEFORE = "the connection is reset within its body"
    LOST_ANSWER = "it is carried out, and the connection is reset before the answer"
    RESET_WITHIN = "the connection is reset within the answer's body"
    SLOW_BODY = "the answer's body comes in pieces"


_PIECES = 8


class HttpFaults:
    """A running proxy.

    Args:
        server: The address of the server behind it.
        choose: What becomes of a request, by its method and its path.

    Attributes:
        address: Of the proxy.
        done: How often each fault was done.
    """

    def __init__(self, server: str, choose: Callable[[str, str], Fault]) -> None:
        self.done: Counter[Fault] = Counter()
        parts = urlsplit(server)
        assert parts.hostname is not None
        host, port, done, lock = parts.hostname, parts.port, self.done, threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                with suppress(ConnectionError):
                    super().handle_one_request()

            def serve(self) -> None:
                fault = choose(self.command, self.path)
                with lock:
                    done[fault] += 1
                if fault is Fault.RESET_BEFORE:
                    self.rfile.read(min(self._length, 100))
                    self._reset()
                    return
                body = self.rfile.read(self._length)
                if fault in (Fault.UNAVAILABLE, Fault.SLOW_DOWN):
                    self.send_response_only(503 if fault is Fault.UNAVAILABLE else 429)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                behind = HTTPConnection(host, port, timeout=60)
                try:
                    behind.request(self.command, self.path, body, dict(self.headers))
                    self._answer(behind.getresponse(), fault)
                finally:
                    behind.close()

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = serve

            @property
            def _length(self) -> int:
                return int(self.headers.get("Content-Length") or 0)

            def _answer(self, answer: HTTPResponse, fault: Fault) -> None:
                body = answer.read()
                if fault is Fault.LOST_ANSWER:
                    self._reset()
                    return
                self.send_response_only(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                        self.send_header(name, value)
                length = answer.headers.get("Content-Length") if self.command == "HEAD" else None
                self.send_header("Content-Length", length or str(len(body)))
                self.end_headers()
                if fault is Fault.RESET_WITHIN and body:
                    self.wfile.write(body[: len(body) // 2])
                    self._reset()
                    return
                step = max(1, len(body) // _PIECES) if fault is Fault.SLOW_BODY else max(1, len(body))
                for start in range(0, len(body), step):
                    self.wfile.write(body[start : start + step])
                    self.wfile.flush()

            def _reset(self) -> None:
                self.close_connection = True
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()

            def log_message(self, *_: object) -> None:
                """Says nothing of each request."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def run(self) -> None:
        self._server.serve_forever()

    def end(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@dataclass
class FaultyProcess:
    """A proxy that is a process, for clients that keep Python's threads waiting while they ask, as delta-rs does.

    Attributes:
        address: Of the proxy.
        done: How often each fault was done; known at the end.
    """

    address: str
    done: Counter[Fault] = field(default_factory=Counter)


@contextmanager
def faulty_process(server: str, often: float, *faults: Fault, seed: int = 5) -> Iterator[FaultyProcess]:
    """A process until the end of the block.

    Args:
        server: The address of the server behind it.
        often: The share of the requests that fail.
        faults: How; each is as likely as the others.
        seed: Of the dice.
    """
    command = [sys.executable, "-m", __name__, server, str(seed), str(often), *(fault.name for fault in faults)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            proxy = FaultyProcess(process.stdout.readline().strip())
            yield proxy
            process.stdin.close()
            said: dict[str, int] = json.loads(process.stdout.readline())
            proxy.done.update({Fault[name]: times for name, times in said.items()})
        finally:
            process.kill()


def main(server: str, seed: str, often: str, *names: str) -> None:
    dice, faults = random.Random(int(seed)), [Fault[name] for name in names]
    with http_faults(server, lambda *_: dice.choice(faults) if dice.random() < float(often) else Fault.NONE) as proxy:
        sys.stdout.write(f"{proxy.address}\n")
        sys.stdout.flush()
        sys.stdin.read()
        sys.stdout.write(json.dumps({fault.name: times for fault, times in proxy.done.items()}) + "\n")


@contextmanager
def http_faults(server: str, choose: Callable[[str, str], Fault]) -> Iterator[HttpFaults]:
    """A proxy until the end of the block. Arguments as of ``HttpFaults``."""
    proxy = HttpFaults(server, choose)
    thread = threading.Thread(target=proxy.run, name="http-faults")
    thread.start()
    try:
        yield proxy
    finally:
        proxy.end()
        thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
