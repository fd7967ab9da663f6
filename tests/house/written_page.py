"""A page of docs that a module writes: the command line of such a module."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def write_or_check(path: Path, content: str, module: str, arguments: list[str] | None = None) -> int:
    """Writes a page, or with ``--check`` says whether it has another content.

    Returns:
        The exit status.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=f"Writes docs/{path.name}.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when the page is out of date")
    check = parser.parse_args(arguments).check
    if path.is_file() and path.read_text(encoding="utf-8") == content:
        return 0
    if check:
        sys.stderr.write(f"docs/{path.name} is out of date; run: python -m {module}\n")
        return 1
    path.write_text(content, encoding="utf-8")
    return 0
