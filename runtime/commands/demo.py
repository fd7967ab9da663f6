"""``tidemark demo``: runs everything, with its own database."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidemark.protocol.extras import missing_extra

DirectoryOption = Annotated[Path, typer.Option("--directory", "-d", help="Where to write everything.")]
RowsOption = Annotated[int, typer.Option(min=10, help="How many rows to start with.")]


def demo(directory: DirectoryOption = Path("demo"), rows: RowsOption = 300_000) -> None:
    """Run everything in a few minutes: a database, a live workload, a capture, a crash, Spark tables, a proof.

    Needs no server and no Docker: it includes a PostgreSQL. The results stay in DIRECTORY.
    """
    try:
        import tidemark.demo as show
    except ModuleNotFoundError as error:
        raise missing_extra(error, "demo") or error from None
    raise typer.Exit(show.run(directory, rows))
