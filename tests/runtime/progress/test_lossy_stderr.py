"""A capture whose stderr nobody reads, or has no space, or was not there from the start."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import TextIO

import orjson
import pytest

from tidemark.runtime.progress.displays.lines import LineDisplay
from tidemark.runtime.progress.displays.lossy_stderr import LossyStderr
from tidemark.runtime.progress.figures import Figures

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a pipe has the size that it has")

LONG = "x" * 9000


@pytest.fixture
def pipe() -> Iterator[tuple[FileIO, TextIO]]:
    """Both ends of a pipe of two pages."""
    reads, writes = os.pipe()
    fcntl.fcntl(writes, fcntl.F_SETPIPE_SZ, 8192)
    with FileIO(reads) as reader, open(writes, "w") as writer:  # noqa: PTH123
        yield reader, writer


def test_nobody_reads_for_a_while(pipe: tuple[FileIO, TextIO]) -> None:
    reader, writer = pipe
    lines = LossyStderr(writer)
    lines.write("read\n")
    for _ in range(5):
        lines.write(f"{LONG}\n")
    said = reader.read(100_000)
    assert said and said.startswith(b"read\nxxx") and said.endswith(b"x")
    lines.write("read again\n")
    lines.write("and again\n")
    end, missing, *others = (reader.read(100_000) or b"").splitlines()
    assert orjson.loads(missing)["message"].startswith("5 lines before this one were dropped")
    assert (end, others) == (b"", [b"read again", b"and again"])


def test_no_reader_is_left(pipe: tuple[FileIO, TextIO]) -> None:
    reader, writer = pipe
    reader.close()
    LossyStderr(writer).write("nobody\n")


def test_a_disk_that_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr("sys.stderr", full)
        with LineDisplay(Figures(), "info") as display:
            display.notice("warning", "the capture goes on")


def test_a_process_without_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    with LineDisplay(Figures(), "info") as display:
        display.notice("warning", "the capture goes on")
