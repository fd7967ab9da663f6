"""Closes a stream when the server ends another connection, even while neither of them is read.

A server that shuts down ends its sessions first, and then waits for the streams of its log: PostgreSQL until the reader
has acknowledged all of it, or ``wal_sender_timeout`` is over; MariaDB until what it has begun to write is taken, or
``net_write_timeout`` is over. Both are minutes for us, because whoever reads the stream may have other things to do for
that long: a runtime that takes nothing from stdout holds it up, and so does a wait before reconnecting.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import socket
import threading

from captures.process.wakeup import Wakeup

_HANG_UP = getattr(select, "POLLRDHUP", select.POLLHUP)
"""The other side has closed its end. Elsewhere than on Linux that is POLLHUP."""

_NO_ADDRESS = bytes(16)
"""A sockaddr of AF_UNSPEC: connect(2) to it disconnects."""


class HangUpWatch:
    """Watches in a thread, until it is closed.

    Args:
        session: The descriptor of a connection that the server ends when it shuts down.
        stream: The descriptor of the one that is reset then.
    """

    def __init__(self, session: int, stream: int) -> None:
        # Descriptors of our own: theirs may be closed, and their numbers given to something else, at any moment.
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
    """Ends a connection although others have it open, and although the server's output may be blocked.

    It must not be closed under those who may read it, and to shut it down would not end the server's writing.
    """
    if ctypes.CDLL(None).connect(stream.fileno(), _NO_ADDRESS, len(_NO_ADDRESS)) != 0:
        with contextlib.suppress(OSError):  # It has ended by itself.
            stream.shutdown(socket.SHUT_RDWR)
