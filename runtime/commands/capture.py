"""``tidemark capture``: runs a connector into a change log."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from tidemark.protocol.capture_file import CaptureFile, read_capture_file
from tidemark.protocol.process_memory import FEW_BYTES, bound_freed_memory
from tidemark.runtime.commands.terminal.arguments import JsonOption
from tidemark.runtime.many_captures.parent import end_with_parent
from tidemark.runtime.preparation.known_tables import keep_known, taken_out
from tidemark.runtime.preparation.permissions import write_for
from tidemark.runtime.preparation.prepared_capture import Preparation, PreparedCapture
from tidemark.runtime.progress.display import Display
from tidemark.runtime.progress.displays.lines import LineDisplay
from tidemark.runtime.progress.failures import failure_of
from tidemark.runtime.progress.figures import Figures
from tidemark.runtime.progress.state_folder import StateFolder
from tidemark.runtime.progress.status_file import StatusFile, read_status
from tidemark.runtime.sessions.interruption import Interruption
from tidemark.runtime.sessions.known_log import KnownLog
from tidemark.runtime.sessions.owned_log import OwnedLog
from tidemark.runtime.steering.capture_file_watch import CaptureFileWatch, stamp
from tidemark.runtime.steering.waiting_commands import WaitingCommands

if TYPE_CHECKING:
    from tidemark.runtime.changelog.upkeep import UpkeepThread
    from tidemark.runtime.changelog.writer import LogWriter
    from tidemark.runtime.sessions.supervisor import Supervisor

BESIDE_RETRIED = timedelta(seconds=5)
"""A sign of life is soon given again, and commands are soon looked for again: these need not wait for a store."""

UntilCaughtUpOption = Annotated[
    bool,
    typer.Option("--until-caught-up", help="Exit once every backfill is done and the source's log is read to its end."),
]

CaptureOrFolderArgument = Annotated[
    Path, typer.Argument(metavar="FILE|FOLDER", help="The capture file (YAML), or a folder with capture files.")
]

TakeOverOption = Annotated[
    bool,
    typer.Option("--take-over", help="Write a log in an object store though another capture gave a sign of life."),
]


def capture(
    file: CaptureOrFolderArgument,
    until_caught_up: UntilCaughtUpOption = False,
    take_over: TakeOverOption = False,
    json: JsonOption = False,
) -> None:
    """Capture changes into the change log until you stop it.

    Resumes where the last run stopped: nothing that was committed is captured twice, and the rest is read again. Edits
    of FILE take effect while it runs: an added table is backfilled, the others continue. Progress is a live table on a
    terminal, and JSON lines on stderr elsewhere (or with --json). Ctrl-C stops it cleanly.

    With a folder, each capture file in it has a process of its own, which is started again when it ends. Files may come
    and go meanwhile. Their lines are JSON, with the name of the file.
    """
    if file.is_dir():
        from tidemark.runtime.many_captures.captures_of_folder import CapturesOfFolder

        options = [*(["--until-caught-up"] if until_caught_up else []), *(["--take-over"] if take_over else [])]
        raise typer.Exit(CapturesOfFolder(file, options, again=not until_caught_up).run())
    end_with_parent()
    bound_freed_memory(FEW_BYTES)
    # Before it is read: an edit in between must not go unnoticed.
    before = stamp(file)
    settings = read_capture_file(file)
    write_for(settings.readable_by)
    level = os.environ.get("LOG_LEVEL", "info")
    figures = Figures()
    shown = LineDisplay(figures, level) if json else _terminal(figures, level) or LineDisplay(figures, level)
    # The log before the connector: a foreign or busy one is an error before anything is asked of the source.
    store, folder = settings.log_store(), StateFolder.of_file(file)
    beside = settings.log_store(BESIDE_RETRIED)
    status = StatusFile(folder, beside, shown)
    display, metrics = _with_metrics(file, settings, status)
    # Once the folder is known, which is that of the log's owner.
    commands = cache(lambda: WaitingCommands.of(folder, beside))
    upkeep = partial(_upkeep, settings, folder, commands, display)
    log = OwnedLog(store, settings.capture, folder, KnownLog(file), take_over=take_over, upkeep=upkeep)
    verifications = _verifications(file, settings, folder, status, display, until_caught_up=until_caught_up)
    notifier = _notifier(settings, read_status(folder, store), status, display)
    preparation_of = partial(_preparation, display=display, log=log, until_caught_up=until_caught_up)

    def prepare(edited: CaptureFile) -> PreparedCapture:
        preparation = preparation_of(edited)
        with preparation.connector:
            return _prepare(preparation, edited, display)

    with (
        notifier,
        metrics,
        Interruption() as interruption,
        display,
        _LoggingTo(display),
        log,
        verifications,
        ThreadPoolExecutor(1) as loader,
    ):
        status.begin()
        loaded = loader.submit(_load)
        preparation = preparation_of(settings)
        with preparation.connector:
            prepared = _prepare(preparation, settings, display, opens=True)
            display.expect(table.name for table in prepared.tables)
            with CaptureFileWatch(file, settings, before, prepare, display) as watch:
                supervisor = loaded.result()
                supervisor(
                    prepared,
                    log,
                    settings.commit,
                    interruption,
                    display,
                    until_caught_up=until_caught_up,
                    watch=watch,
                    commands=commands(),
                ).run()
    if json:
        sys.stdout.write(orjson.dumps(figures.as_fields(), option=orjson.OPT_APPEND_NEWLINE).decode())
    else:
        sys.stdout.write(
            f"caught up: {figures.events:,} events of {len(figures.tables)} tables "
            f"in {figures.commits} commits, in {store.place}\n"
        )


def _with_metrics(
    file: Path, settings: CaptureFile, status: StatusFile
) -> tuple[Display, AbstractContextManager[object]]:
    """The display of a capture, and what serves its metrics and its page where the file asks for it."""
    if settings.metrics is None:
        return status, nullcontext()
    # Its library, and a server, are for those alone who ask for it.
    from tidemark.runtime.page.serving import serve_capture

    return serve_capture(settings.metrics, settings.capture, file, status, settings.log_store())


def _notifier(
    settings: CaptureFile, before: dict[str, Any] | None, status: StatusFile, display: Display
) -> AbstractContextManager[object]:
    """What tells of changes of state since the last status, where the file asks for it."""
    if settings.notify is None:
        return nullcontext()
    from tidemark.runtime.notifications.notifier import Notifier

    return Notifier(settings.notify, settings.folder, settings.capture, before, status.report, display.notice)


def _verifications(
    file: Path,
    settings: CaptureFile,
    folder: StateFolder,
    status: StatusFile,
    display: Display,
    *,
    until_caught_up: bool,
) -> AbstractContextManager[object]:
    """What has the tables verified now and then, where the file asks for it."""
    if settings.verify is None or until_caught_up:
        return nullcontext()
    from tidemark.runtime.upkeep.verifications import Schedule

    def is_ready() -> bool:
        said = status.report()
        return bool(said["tables"]) and all(one.get("done") for one in said["tables"].values())

    return Schedule(file, settings.verify, folder, is_ready, display.notice)


def _upkeep(
    settings: CaptureFile,
    folder: StateFolder,
    commands: Callable[[], WaitingCommands],
    display: Display,
    writer: LogWriter,
) -> UpkeepThread:
    """What is done for the log while it is written."""
    from tidemark.runtime.changelog.upkeep import UpkeepThread  # Arrow takes long to load.
    from tidemark.runtime.upkeep.rules import upkeep_rules

    def tell(error: Exception) -> None:
        failure = failure_of(error)
        what = f"compacting or trimming the log failed, and is tried again: {failure.message}"
        display.notice("warning", what, code=failure.code, remedy=failure.remedy)

    asked = commands()
    rules = upkeep_rules(settings, folder, asked, lambda text: display.notice("info", text))
    return UpkeepThread(writer, rules, tell, asked.asked_to_compact, asked.compacted)


def _load() -> type[Supervisor]:
    """Imports what writes the log, while the connector answers: Arrow takes half as long as all calls together."""
    from tidemark.runtime.changelog.arrow import load_arrow

    load_arrow()
    from tidemark.runtime.sessions.supervisor import Supervisor

    return Supervisor


def _terminal(figures: Figures, level: str) -> Display | None:
    """What shows progress on a terminal; None where stderr is none."""
    from rich.console import Console

    from tidemark.runtime.progress.displays.live import LiveDisplay

    console = Console(stderr=True)
    return LiveDisplay(figures, level, console) if console.is_terminal else None


def _preparation(settings: CaptureFile, *, display: Display, log: OwnedLog, until_caught_up: bool) -> Preparation:
    log_id, state = log.known()
    return Preparation(settings, display.log, until_caught_up=until_caught_up, log_id=log_id, state=state)


def _prepare(
    preparation: Preparation, settings: CaptureFile, display: Display, *, opens: bool = False
) -> PreparedCapture:
    """Everything between the capture file and ``open``: discover, select, validate, apply.

    Processes of the connector start side by side, but none is asked before it is known that it should be.

    Args:
        opens: The capture is opened at once: its process starts already.
    """
    preparation.begin("spec", "discover")
    if opens:
        preparation.begin_session()  # Early, because it imports the most.
    preparation.begin("validate")
    spec, discovered = preparation.discover()
    selection = preparation.select(spec, discovered)
    if opens:
        preparation.begin_session(selection.tables)
    preparation.begin("apply")  # Last, because it imports the least.
    for warning in selection.warnings:
        display.notice("warning", warning)
    prepared = preparation.validate(selection.tables)
    log = settings.log_store()
    if left := taken_out(log, selection.found):
        display.notice(
            "warning",
            f"taken out of {settings.path} and no longer captured: {', '.join(left)}. A table that is added again is "
            "emptied and read again, since its changes of the meantime are missed",
        )
    keep_known(log, selection.found)
    applied = preparation.apply(prepared)
    if applied.action_description:
        display.notice("info", preparation.redactor.text(applied.action_description))
    return replace(prepared, applied=applied.state)


class _LoggingTo(logging.Handler):
    """While entered, log records of this process are notices on the display."""

    def __init__(self, display: Display) -> None:
        super().__init__()
        self._display = display

    def emit(self, record: logging.LogRecord) -> None:
        self._display.notice(record.levelname.lower(), record.getMessage())

    def __enter__(self) -> None:
        logging.getLogger().addHandler(self)
        logging.getLogger().setLevel(logging.INFO)

    def __exit__(self, *_: object) -> None:
        logging.getLogger().removeHandler(self)
