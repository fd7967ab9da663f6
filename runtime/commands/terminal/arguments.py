"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidemark.protocol.capture_file import read_capture_file
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.store.opening import is_url, opened

CaptureFileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The capture file (YAML).")]

LogArgument = Annotated[
    str, typer.Argument(metavar="FILE|LOG", help="A capture file, or the directory or the URL of a change log.")
]

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def open_log(place: str) -> ChangeLog:
    """The change log at a path or a URL, or that of the capture file there. Raises like both."""
    if is_url(place) or Path(place).is_dir():
        return ChangeLog(opened(place))
    return ChangeLog(read_capture_file(Path(place)).log_store())
