"""``tidemark materialize``: the Spark job that keeps tables from the change log."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from tidemark.protocol.capture_file import read_capture_file
from tidemark.runtime.commands.terminal.arguments import CaptureFileArgument, JsonOption

AvailableNowOption = Annotated[
    bool,
    typer.Option(
        "--available-now", help="Apply what the log holds now, then exit. Without it, continue as the log grows."
    ),
]
MasterOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help=(
            "Spark's master, such as local[4], spark://host:7077 or sc://host. Default: the capture file's, "
            "else local[*]."
        ),
        show_default=False,
    ),
]
ConfOption = Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A Spark setting.", show_default=False)]
TablesOption = Annotated[
    list[str] | None,
    typer.Option("--table", metavar="PATTERN", help="Update only these tables (schema.table).", show_default=False),
]
WayOption = Annotated[
    Literal["task", "rewrite", "sql"] | None,
    typer.Option(help="Apply every part this way. Default: the cheapest way.", show_default=False),
]
RebuildOption = Annotated[
    list[str] | None,
    typer.Option(metavar="TABLE", help="Rebuild the table from the log.", show_default=False),
]
RetryOption = Annotated[
    list[str] | None, typer.Option(metavar="TABLE", help="Retry a table that is set aside.", show_default=False)
]


def materialize(
    file: CaptureFileArgument,
    available_now: AvailableNowOption = False,
    master: MasterOption = None,
    conf: ConfOption = None,
    table: TablesOption = None,
    way: WayOption = None,
    rebuild: RebuildOption = None,
    retry: RetryOption = None,
    json: JsonOption = False,
) -> None:
    """Keep Spark tables up to date from the change log, as the capture file's spark entry says.

    Resumes where the last run stopped. Every event is applied exactly once. Exit status: 1 when a table is set aside, 3
    when a retry may help.
    """
    from tidemark.spark_sink.command import Arguments, run, setting

    try:
        settings = dict(map(setting, conf or ()))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--conf") from None
    arguments = Arguments(
        file=file,
        available_now=available_now,
        master=master,
        conf=settings,
        tables=table or (),
        way=way,
        rebuild=rebuild or (),
        retry=retry or (),
        json=json,
    )
    capture = read_capture_file(file)
    if capture.spark is None or capture.spark.metrics is None:
        raise typer.Exit(run(arguments))
    # Its library, and a server, are for those alone who ask for it.
    from tidemark.runtime.page.serving import serve_materialize

    metrics, serving = serve_materialize(capture.spark.metrics, capture, file)
    with serving:
        status = run(arguments, metrics)
    raise typer.Exit(status)
