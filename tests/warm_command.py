"""Commands for a capture file whose processes are forks of a warm one: what a runtime starts starts at once.

A connector takes 0.4 s of a processor to import its modules, and a ``tidemark`` command starts three or four of them.
The runtime starts ``warm_stub``, which a server of this module answers with a fork of the process that
``warm_process`` keeps. A kept process has a session of its own, and ends with the stub, whatever kills that. What a
test stops by SIGSTOP, kills, or measures is no such command.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from multiprocessing.connection import Connection, wait
from multiprocessing.util import Finalize
from pathlib import Path

from tests.warm_process import run_in_this_process, warm_context

STUB = Path(__file__).with_name("warm_stub.py")

_REQUEST_BYTES = 1024 * 1024


def warm_command(module: str, *arguments: str) -> list[str]:
    """What does as ``python -m MODULE ARGUMENT…`` does; the module is one that ``warm_process`` knows."""
    if sys.platform != "linux":
        return ["python", "-m", module, *arguments]
    return [sys.executable, "-I", "-S", str(STUB), place(), module, *arguments]


@cache
def place(*imported: str) -> str:
    """Where a server of this process listens, to which stubs come; it is started the first time.

    Args:
        imported: Modules that its forks have imported, besides those of ``warm_process``.
    """
    folder = tempfile.mkdtemp(prefix="tidemark-warm-")
    Finalize(None, shutil.rmtree, [folder], {"ignore_errors": True}, exitpriority=0)
    path = f"{folder}/socket"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen(64)
        warm_context.Process(target=_serve, args=(listener, imported), daemon=True).start()
    return path


def _serve(listener: socket.socket, imported: Sequence[str]) -> None:
    """Keeps a process for each stub that comes, until the process that started this one has ended."""
    for name in imported:
        importlib.import_module(name)
    parent = multiprocessing.parent_process()
    assert parent is not None
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # Nobody asks how keepers end.
    while parent.sentinel not in wait([listener, parent.sentinel]):
        connection, _ = listener.accept()
        with connection:
            if not os.fork():
                listener.close()
                _keep(connection)


def _keep(stub: socket.socket) -> None:
    """Forks the process that the stub stands for, and keeps it. Does not return."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    told, outputs, *_ = socket.recv_fds(stub, _REQUEST_BYTES, 3)
    folder, count, *rest = os.fsdecode(told).split("\0")
    child = os.fork()
    if not child:
        stub.close()
        os.setsid()
        arguments, variables = rest[: int(count)], rest[int(count) :]
        environment = dict(variable.split("=", 1) for variable in variables)
        run_in_this_process(arguments, [Connection(output) for output in outputs], environment, Path(folder))
        sys.exit()
    for output in outputs:
        os.close(output)
    ended = os.pidfd_open(child)
    while ended not in (ready := wait([stub, ended])):
        number = stub.recv(1) if stub in ready else b""
        if number:
            os.kill(child, number[0])
        else:  # The stub is dead.
            _kill(child)
            os.waitpid(child, 0)
            os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    _kill(child)  # As a runtime does to what a connector leaves behind.
    _, status = os.waitpid(child, 0)
    with suppress(BrokenPipeError):  # The stub has died meanwhile.
        stub.send(os.waitstatus_to_exitcode(status).to_bytes(4, "big", signed=True))
    os._exit(0)


def _kill(child: int) -> None:
    """Kills a fork that nobody has waited for, and what it started. It may have no process group of its own yet."""
    os.kill(child, signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
