"""The ``materialize`` command, started by ``tidemark``, ``python -m tidemark.spark_sink`` or ``spark-submit``."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from tidemark.protocol.error_codes import Policy
from tidemark.protocol.errors import TidemarkError
from tidemark.protocol.logs import log_to_stderr
from tidemark.spark_sink.job import materialize
from tidemark.spark_sink.output import JsonOutput, TextOutput
from tidemark.spark_sink.run.progress import BothProgress, Progress

if TYPE_CHECKING:
    from tidemark.spark_sink.run.settings import Way

DONE, FAILED, RETRY, INTERRUPTED = 0, 1, 3, 130
"""Exit status: 1 needs a person, 3 may pass by itself. Wrong usage has the error's own status, 2."""


_STOPPING = (signal.SIGINT, signal.SIGTERM)

_NUDGE = signal.SIGURG
"""A signal that does nothing but end a wait."""

_NUDGE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Arguments:
    """The command line. See ``job.materialize``."""

    file: Path
    available_now: bool = False
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    tables: Sequence[str] = ()
    way: Way | None = None
    rebuild: Sequence[str] = ()
    retry: Sequence[str] = ()
    json: bool = False


def setting(pair: str) -> tuple[str, str]:
    """A setting of Spark from ``KEY=VALUE``.

    Raises:
        ValueError: It does not have that form. The message does not contain the value.
    """
    name, equals, value = pair.partition("=")
    if not equals or not name.startswith("spark."):
        raise ValueError("a setting is spark.NAME=VALUE")
    return name, value


def run(arguments: Arguments, beside: Progress | None = None) -> int:
    """Runs the job and prints its result.

    SIGINT and SIGTERM stop it at once: what is committed stays, and the next run applies the part at hand again.

    Args:
        arguments: The command line.
        beside: Is told the progress, too.

    Returns:
        The exit status, which errors have as well that are raised.

    Raises:
        TidemarkError: For whoever started the command to show; see ``exit_status``.
        KeyboardInterrupt: On a second signal.
    """
    log_to_stderr(os.environ.get("LOG_LEVEL", "info"))
    # It tells of every call, and prints the trace of each exception that passes it, which is raised here as well.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(
        lambda record: record.module != "java_gateway"
    )  # Some of it py4j tells without its name.
    output = JsonOutput(sys.stdout, sys.stderr) if arguments.json else TextOutput(sys.stdout, sys.stderr)
    with _stop_on_signals() as stop:
        report = materialize(
            arguments.file,
            available_now=arguments.available_now,
            master=arguments.master,
            conf=arguments.conf,
            tables=arguments.tables,
            way=arguments.way,
            rebuild=arguments.rebuild,
            retry=arguments.retry,
            progress=output if beside is None else BothProgress(output, beside),
            stop=stop,
        )
    output.result(report)
    if stop.is_set():
        return INTERRUPTED
    return FAILED if report.set_aside else DONE


def exit_status(error: TidemarkError) -> int:
    """2 for wrong usage, 3 for what may pass by itself, else 1."""
    return RETRY if error.entry.policy is Policy.RETRY else error.exit_status


@contextmanager
def _stop_on_signals() -> Iterator[threading.Event]:
    stop = threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        stop.set()
        raise KeyboardInterrupt

    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    handlers = {number: note for number in _STOPPING} | {_NUDGE: lambda number, frame: None}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    woken = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    threading.Thread(target=_nudge, args=[reading, stop], name="signals", daemon=True).start()
    try:
        yield stop
    finally:
        signal.set_wakeup_fd(woken)
        os.close(writing)
        for number, handler in before.items():
            signal.signal(number, handler)


def _nudge(reading: int, stop: threading.Event) -> None:
    """Wakes the main thread until it has noted a signal.

    Python notes signals in the main thread alone, between two steps. If one comes while that thread is about to wait,
    for a session or for Java, or if another thread takes it, the main thread may sleep on until the wait is over.
    """
    with os.fdopen(reading, "rb", buffering=0) as signals:
        while number := signals.read(1):
            while number[0] in _STOPPING and not stop.wait(_NUDGE_SECONDS):
                signal.pthread_kill(threading.main_thread().ident or 0, _NUDGE)
