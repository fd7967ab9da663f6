"""A TCP proxy in front of a server, that can do to connections what networks do."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER with no time: closing sends a reset."""


class TcpProxy:
    """Passes bytes on between clients and a server.

    Attributes:
        port: Where clients connect, on 127.0.0.1.
    """

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._flowing = _set()
        self._wedged: list[threading.Event] = []
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def connections(self) -> int:
        """How many clients have connected since the last reset."""
        with self._lock:
            return len(self._pairs)

    def stall(self) -> None:
        """From now on nothing is passed on. Connections stay open, and new ones are taken."""
        self._flowing.clear()

    def wedge(self) -> None:
        """From now on nothing is passed on between those that are connected, and new ones are served.

        Neither end is told: this host goes on acknowledging what they send.
        """
        wedged, self._flowing = self._flowing, _set()
        wedged.clear()
        self._wedged.append(wedged)

    def flow(self) -> None:
        """The end of ``stall`` and ``wedge``."""
        for flowing in (self._flowing, *self._wedged):
            flowing.set()

    def reset(self) -> None:
        """Resets every connection."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):  # It may be closed already.
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                    end.shutdown(socket.SHUT_RD)
                end.close()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.flow()
        self.reset()
        for thread in self._threads:
            thread.join(timeout=10)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
            except OSError:
                return
            with self._lock:
                self._pairs.append((client, server))
            flowing = self._flowing
            for source, target in ((client, server), (server, client)):
                thread = threading.Thread(target=self._pass_on, args=(source, target, flowing), daemon=True)
                self._threads.append(thread)
                thread.start()

    @staticmethod
    def _pass_on(source: socket.socket, target: socket.socket, flowing: threading.Event) -> None:
        try:
            while True:
                # A thread inside recv() would keep a closed socket from being reset.
                if not select.select([source], [], [], 0.05)[0]:
                    continue
                flowing.wait()
                data = source.recv(65536)
                if not data:
                    break
                target.sendall(data)
        except (OSError, ValueError):
            pass  # One of the two was closed.
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def _set() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


@contextmanager
def proxied(host: str, port: int) -> Iterator[TcpProxy]:
    """A proxy in front of a server."""
    proxy = TcpProxy(host, port)
    try:
        yield proxy
    finally:
        proxy.close()
