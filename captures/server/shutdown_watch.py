"""Closes a stream when the server ends another connection, even while neither of them is read.

A server that shuts down first ends its sessions, and then waits for the readers of its log: PostgreSQL until a reader
has acknowledged everything, or for ``wal_sender_timeout``; MariaDB until a reader has taken the current packet, or for
``net_write_timeout``. Either may be minutes: the stream is not read while the runtime takes nothing from stdout, or
during a wait before reconnecting.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import socket
import threading

from tidemark.captures.contract.wakeup import Wakeup

_HANG_UP = getattr(select, "POLLRDHUP", select.POLLHUP)
"""The event of a closed peer. On other systems than Linux that is POLLHUP."""

_NO_ADDRESS = bytes(16)
"""A sockaddr of AF_UNSPEC: connect(2) to it disconnects."""


class HangUpWatch:
    """Watches in a thread, until it is closed.

    Args:
        session: The descriptor of a connection that the server ends when it shuts down.
        stream: The descriptor of the connection to reset then.
    """

    def __init__(self, session: int, stream: int) -> None:
        # Duplicates: the originals may be closed at any moment, and their numbers used again.
        self._session = os.dup(session)
        self._stream = socket.socket(fileno=os.dup(stream))
        self._stop = Wakeup()
        self._thread = threading.Thread(target=self._run, name="hang-up", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread. Does nothing the second time."""
        if self._session < 0:
            return
        self._stop.set()
        self._thread.join()
        self._stop.close()
        self._stream.close()
        os.close(self._session)
        self._session = -1

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._stop.descriptor, select.POLLIN)
        poll.register(self._session, _HANG_UP)
        ended = {descriptor for descriptor, _ in poll.poll()}
        if self._session in ended:
            _reset(self._stream)


def _reset(stream: socket.socket) -> None:
    """Ends a connection that others have open, even while the server's output is blocked.

    Closing the descriptor would break its readers, and shutdown(2) would not end the server's writing.
    """
    if ctypes.CDLL(None).connect(stream.fileno(), _NO_ADDRESS, len(_NO_ADDRESS)) != 0:
        with contextlib.suppress(OSError):  # The connection has ended by itself.
            stream.shutdown(socket.SHUT_RDWR)
