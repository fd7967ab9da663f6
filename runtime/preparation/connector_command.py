"""The command of a connector under its present name: capture files may have the former one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

_RENAMED = {f"connectors.{name}": f"tidemark.connectors.{name}" for name in ("postgres", "mysql")}
"""Our connectors' modules, as ``python -m`` took them. The mapping goes with the next release."""


def present_command(command: Sequence[str], folder: Path) -> tuple[list[str], str]:
    """A command as it runs now, and a warning if the capture file has the former name of a module.

    Args:
        command: ``connector.command`` of a capture file.
        folder: Where it runs. With a package ``connectors`` of its own there, the name is that package's.

    Returns:
        The command, and what to tell the user; empty if nothing is to be changed.
    """
    for place, (option, module) in enumerate(pairwise(command)):
        if option == "-m" and module in _RENAMED and not (folder / "connectors").is_dir():
            present = _RENAMED[module]
            told = f"connector.command has {module}, which is now {present}: the old name works until the next release"
            return [*command[: place + 1], present, *command[place + 2 :]], told
    return list(command), ""
