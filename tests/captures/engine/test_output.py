"""Lines on their way to a pipe: whole and in order, however many there are and however slowly they are taken."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tidemark.captures.engine.output import BUFFER_BYTES, Output
from tidemark.protocol.codec import encode
from tidemark.protocol.messages import Opened
from tidemark.testing.deadline import wait_until

LINE = b"x" * 1023 + b"\n"
LINES = BUFFER_BYTES // len(LINE)
"""So many are handed to the pipe together."""


@contextmanager
def pipe() -> Iterator[tuple[int, Output]]:
    """The end to read from, and what writes to the other."""
    read, write = os.pipe()
    try:
        yield read, Output(write)
    finally:
        os.close(write)


def test_pieces_and_messages_come_in_their_order() -> None:
    with pipe() as (read, output), closing(os.fdopen(read, "rb")) as taken:
        found: list[bytes] = []
        reader = threading.Thread(target=lambda: found.extend(taken.readline() for _ in range(3 * (5 * LINES + 2))))
        reader.start()
        for number in range(3):
            output.lines([LINE] * 5 * LINES, 5 * BUFFER_BYTES)
            output.lines([b"%d\n" % number], 2)
            output.message(encode(Opened(explicit_acknowledgements=True)))
        reader.join(20)
        opened = b'{"opened":{"explicitAcknowledgements":true}}\n'
        assert found == [line for number in range(3) for line in (*[LINE] * 5 * LINES, b"%d\n" % number, opened)]


@pytest.mark.skipif(sys.platform != "linux", reason="how full a pipe can be is told on Linux only")
def test_a_signal_in_the_middle_of_a_write_loses_nothing() -> None:
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    lines = [b"%d\n" % number * 100 for number in range(1000)]
    size = sum(map(len, lines))

    def interrupt() -> None:
        wait_until(lambda: waiting_in(read) == fcntl.fcntl(read, fcntl.F_GETPIPE_SZ), 60, "the pipe is full")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
        while sum(map(len, found)) < size:
            found.append(os.read(read, 65536))

    with pipe() as (read, output):
        found: list[bytes] = []
        reader = threading.Thread(target=interrupt)
        reader.start()
        output.lines(lines, size)
        reader.join(20)
        os.close(read)
    signal.signal(signal.SIGUSR1, before)
    assert b"".join(found) == b"".join(lines)


def waiting_in(pipe: int) -> int:
    """Bytes that were written to a pipe and not read."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def test_a_pipe_that_broke_is_an_error() -> None:
    with pipe() as (read, output):
        os.close(read)
        with pytest.raises(BrokenPipeError):
            output.lines([LINE] * LINES, BUFFER_BYTES)


def test_what_is_not_flushed_stays_here(tmp_path: Path) -> None:
    with (tmp_path / "lines").open("wb") as file:
        output = Output(file.fileno())
        output.lines([LINE], len(LINE))
        assert (tmp_path / "lines").stat().st_size == 0
        output.flush()
        assert (tmp_path / "lines").read_bytes() == LINE
