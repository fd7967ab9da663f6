"""``tidemark demo``: the whole way from a live PostgreSQL to tables in a lake, on this machine and nothing else."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from rich.console import Console

from tidemark.demo.directory import DemoDirectory
from tidemark.demo.display import Display
from tidemark.demo.error_codes import CODES
from tidemark.demo.scenario import play
from tidemark.demo.summary import print_summary
from tidemark.protocol.error_codes import register

__all__ = ["ROWS", "run"]

register(CODES)

ROWS = 300_000
"""Rows of the shop, unless told otherwise."""


def run(directory: Path, rows: int = ROWS) -> int:
    """Plays the demo and prints what it found.

    Args:
        directory: Where to leave capture file, change log, lake and logs; replaced when an earlier demo made it.
        rows: Rows of the shop in all, at least 10.

    Returns:
        The exit status: 0 when source and lake are equal, 1 when not.

    Raises:
        TidemarkError: ``TM-DEMO-001`` to ``TM-DEMO-003``. Every process has ended then, also after Ctrl-C.
    """
    console = Console()
    console.soft_wrap = not console.is_terminal  # Whoever reads it elsewhere wants whole lines.
    demo = DemoDirectory.make(directory)
    began = time.monotonic()
    with _stopped_by_signals():
        findings = play(demo, max(rows, 10), Display(console))
    print_summary(findings, demo, time.monotonic() - began, console)
    return 0 if findings.equal else 1


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """Lets SIGTERM and a closed terminal end the demo as Ctrl-C does: in order, with everything it started."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
