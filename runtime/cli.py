"""The ``tidemark`` command.

Exit status: 0 done, 1 failed and a person must act (an error with a code on stderr), 2 wrong usage, 3 failed for now
(the same command may succeed when it is run again), 130 interrupted (SIGINT or SIGTERM).
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from typing import Annotated, NoReturn

import typer

from tidemark.protocol.process_memory import collect_rarely
from tidemark.runtime.commands.capture import capture
from tidemark.runtime.commands.check import check, discover
from tidemark.runtime.commands.demo import demo
from tidemark.runtime.commands.doctor import doctor
from tidemark.runtime.commands.init import init
from tidemark.runtime.commands.log import log_commands
from tidemark.runtime.commands.materialize import materialize
from tidemark.runtime.commands.plan import plan
from tidemark.runtime.commands.remove import remove
from tidemark.runtime.commands.status import status
from tidemark.runtime.commands.steer import backfill, pause, priority, resume
from tidemark.runtime.commands.tail import tail
from tidemark.runtime.commands.terminal.printing import tell_failure
from tidemark.runtime.commands.verify import verify
from tidemark.runtime.progress.failures import failure_of, status_of

INTERRUPTED = 130

app = typer.Typer(
    name="tidemark",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        sys.stdout.write(f"tidemark {version('tidemark')}\n")
        raise typer.Exit


@app.callback()
def tidemark(
    wanted: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_version)
    ] = False,
) -> None:
    """Change data capture: from a database's tables and their changes into a log, and from the log into Spark tables.

    [bold]See it[/bold]       tidemark demo

    [bold]Set it up[/bold]    tidemark init, edit capture.yaml, tidemark check capture.yaml

    [bold]Run it[/bold]       tidemark capture capture.yaml

    [bold]Look[/bold]         tidemark status capture.yaml, tidemark tail shop.log -t public.orders

    [bold]Ask[/bold]          tidemark doctor capture.yaml: what does not fit, and what to do

    [bold]Spark[/bold]        tidemark materialize capture.yaml
    """


app.command(rich_help_panel="Begin")(demo)
app.command(rich_help_panel="Begin")(init)
app.command(rich_help_panel="Begin")(check)
app.command(rich_help_panel="Begin")(discover)
app.command(rich_help_panel="Begin")(plan)
app.command(rich_help_panel="Run")(capture)
app.command(rich_help_panel="Run")(materialize)
app.command(rich_help_panel="Steer")(pause)
app.command(rich_help_panel="Steer")(resume)
app.command(rich_help_panel="Steer")(backfill)
app.command(rich_help_panel="Steer")(priority)
app.command(rich_help_panel="Steer")(remove)
app.command(rich_help_panel="Look")(status)
app.command(rich_help_panel="Look")(doctor)
app.command(rich_help_panel="Look")(verify)
app.command(rich_help_panel="Look")(tail)
app.add_typer(log_commands, name="log", rich_help_panel="Look")


def _writes_json(arguments: list[str]) -> bool:
    """Whether stderr has JSON lines: by request, and of a capture without a terminal."""
    return "--json" in arguments or (arguments[:1] == ["capture"] and not sys.stderr.isatty())


def main() -> NoReturn:
    """Runs the command; every error ends here as a message with a code, never as a traceback."""
    collect_rarely()
    # A shell starts background jobs with SIGINT ignored, and Python would leave it so: it would leave processes behind.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        app()
        exit_status = 0
    except KeyboardInterrupt:
        exit_status = INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the outermost edge: nothing is swallowed, it is said and ends in 1
        failure = failure_of(error)
        if failure.code == "TM-RUN-014" and os.environ.get("LOG_LEVEL", "").lower() == "debug":
            traceback.print_exc()
        exit_status = status_of(failure)
        tell_failure(failure, exit_status, json=_writes_json(sys.argv[1:]))
    sys.exit(exit_status)
