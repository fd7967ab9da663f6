"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

CaptureFileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The capture file (YAML).")]

LogArgument = Annotated[Path, typer.Argument(metavar="LOG", help="The change log's directory.")]

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text for people.")]
