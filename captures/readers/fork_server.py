"""A process that forks others: they start in milliseconds, and share the memory of loaded modules.

The server has neither threads nor connections, because a fork must not copy any. It is forked from a process that does
not have any yet, or is an interpreter of its own. Requests and answers are numbers of eight bytes over a socket pair::

    0 and two descriptors     fork a process that works with them; the answer is its id
    the id of such a process  wait until it has ended; the answer is its wait status

The answer to a request that the system refuses is its errno, negative.

The end of the socket, whatever its cause, ends the server and no other process.

The ``forkserver`` of the standard library's ``multiprocessing`` is an interpreter of its own, which imports everything
a second time, and needs a resource tracker. Measured with the PostgreSQL connector and four
readers on two cores, Linux, Python 3.11, median of both on the same loaded machine:

==========================================  ============  ==========
of                                          this module   forkserver
==========================================  ============  ==========
the first reader, from nothing              18 ms         1.1 s
each further reader                         6 ms          32 ms
memory of server and four readers (PSS)     10 MB         57 MB
==========================================  ============  ==========
"""

from __future__ import annotations

import errno
import gc
import os
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from tidemark.protocol.errors import ConnectorError

Work = Callable[[int, int], NoReturn]
"""The work of a forked process, given the two descriptors of its request."""

_NUMBER = struct.Struct("!q")
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_SOCKET = 3


class ForkServer:
    """The server, as its client sees it. Any thread may call.

    Attributes:
        pid: The server's process id.
        ended: Whether it has ended.
    """

    def __init__(self, pid: int, connection: socket.socket) -> None:
        self.pid = pid
        self._connection = connection
        self._asking = threading.Lock()
        self.ended = False

    @classmethod
    def forked(cls, work: Work) -> ForkServer:
        """Forks the server from this process, which must have neither threads nor connections yet.

        Raises:
            ConnectorError: ``TM-CAP-005`` the system refuses to start a process.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            # A signal handler of this process must not run in the server.
            held = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
            try:
                try:
                    pid = os.fork()
                except OSError as error:
                    ours.close()
                    raise _refused(error) from None
                if pid == 0:
                    try:
                        serve(theirs.fileno(), work)
                    finally:
                        os._exit(1)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, held)
        return cls(pid, ours)

    @classmethod
    def started(cls, command: list[str]) -> ForkServer:
        """Starts the server with a command that calls ``serve`` on its stdin. Raises as ``forked``."""
        ours, theirs = socket.socketpair()
        with theirs:
            stdin = (os.POSIX_SPAWN_DUP2, theirs.fileno(), 0)
            try:
                pid = os.posix_spawn(command[0], command, os.environ, file_actions=[stdin])
            except OSError as error:
                ours.close()
                raise _refused(error) from None
        return cls(pid, ours)

    def fork(self, *descriptors: int) -> int:
        """A new process that works with these descriptors; returns its id.

        Raises:
            ConnectorError: ``TM-CAP-005`` the server has ended, or the system refuses to start a process.
        """
        return self._ask(0, descriptors)

    def wait(self, pid: int) -> int:
        """Waits until a process that was forked has ended, and returns its status, or minus the signal that ended it.

        Raises:
            ConnectorError: ``TM-CAP-005`` the server has ended.
        """
        return os.waitstatus_to_exitcode(self._ask(pid, ()))

    def close(self) -> None:
        """Ends the server. The processes that it forked continue."""
        self._connection.close()
        os.waitpid(self.pid, 0)

    def _ask(self, number: int, descriptors: Sequence[int]) -> int:
        with self._asking:
            try:
                socket.send_fds(self._connection, [_NUMBER.pack(number)], descriptors)
                answer = self._connection.recv(_NUMBER.size)
            except (BrokenPipeError, ConnectionResetError):
                answer = b""
            if not answer:
                self.ended = True
                raise ConnectorError("TM-CAP-005", "the process that starts readers has ended")
        (result,) = _NUMBER.unpack(answer)
        if result < 0:
            raise _refused(OSError(-result, os.strerror(-result)))
        return int(result)


def _refused(error: OSError) -> ConnectorError:
    return ConnectorError("TM-CAP-005", f"a reader process cannot be started: {error.strerror}")


def serve(connection: int, work: Work) -> NoReturn:
    """Runs the server on a connected socket's descriptor. Closes every other descriptor but stderr."""
    os.dup2(connection, _SOCKET)
    os.closerange(_SOCKET + 1, _highest_descriptor() + 1)
    # Input and output of Python itself or of a library must not mix with messages.
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), sys.stdin.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    os.setpgid(0, 0)  # Signals of a terminal are for the parent, which then ends this process.
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    gc.freeze()  # A garbage collection would write to shared memory, and so copy it.
    with socket.socket(fileno=_SOCKET) as requests:
        while True:
            message, descriptors, _, _ = socket.recv_fds(requests, _NUMBER.size, 2)
            if not message:
                os._exit(0)
            (number,) = _NUMBER.unpack(message)
            try:
                answer = os.waitpid(number, 0)[1] if number else _fork(requests, descriptors, work)
            except OSError as error:
                answer = -(error.errno or errno.EAGAIN)
            try:
                requests.sendall(_NUMBER.pack(answer))
            except BrokenPipeError:
                os._exit(0)


def _fork(requests: socket.socket, descriptors: Sequence[int], work: Work) -> int:
    try:
        pid = os.fork()
        if pid == 0:
            try:
                requests.close()
                work(*descriptors)
            finally:
                os._exit(1)
        return pid
    finally:
        for each in descriptors:
            os.close(each)


def _highest_descriptor() -> int:
    """One past the highest open descriptor. The limit may be a thousand million, and old kernels close one by one."""
    try:
        return max(int(each.name) for each in Path("/dev/fd").iterdir())
    except OSError:
        return os.sysconf("SC_OPEN_MAX")
