"""``tidemark demo``: everything at work, with a database of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from protocol.errors import TidemarkError

DirectoryOption = Annotated[Path, typer.Option("--directory", "-d", help="Where to leave everything to look at.")]
RowsOption = Annotated[int, typer.Option(min=10, help="Rows of the shop.")]


def demo(directory: DirectoryOption = Path("demo"), rows: RowsOption = 300_000) -> None:
    """See it all at work in a few minutes: a database, a live workload, a capture, a crash, Spark tables, a proof.

    Needs nothing running and no Docker: it brings a PostgreSQL along and leaves what it made in DIRECTORY.
    """
    try:
        import tidemark_demo as show
    except ModuleNotFoundError as error:
        raise TidemarkError(
            "TM-RUN-012", f"the demo needs the Python package {error.name}", remedy="pip install 'tidemark[demo]'"
        ) from None
    raise typer.Exit(show.run(directory, rows))
