"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidemark.protocol.capture_file import read_capture_file
from tidemark.protocol.changelog import ChangeLog

CaptureFileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The capture file (YAML).")]

LogArgument = Annotated[Path, typer.Argument(metavar="FILE|LOG", help="A capture file, or a change log's directory.")]

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def open_log(path: Path) -> ChangeLog:
    """The change log at ``path``, or that of the capture file there. Raises like both."""
    return ChangeLog(path if path.is_dir() else read_capture_file(path).log_store())
