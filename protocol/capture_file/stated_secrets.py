"""Secrets that a capture file states by where they are: ``{env: NAME}`` and ``{file: PATH}``."""

from __future__ import annotations

import os
from pathlib import Path

Found = tuple[str | None, str]
"""A secret, or None and why there is none, in words."""


def in_environment(name: str, place: str) -> Found:
    """The value of a variable.

    Args:
        name: Of the variable.
        place: Of the entry, for words.
    """
    return os.environ.get(name), f"{place}: the environment variable {name} is not set"


def in_file(name: str, folder: Path, place: str) -> Found:
    """The content of a file, of which the last line end is no part.

    Args:
        name: Its path.
        folder: The start of a relative path.
        place: Of the entry, for words.
    """
    try:
        text = (folder / Path(name).expanduser()).read_text("utf-8")
    except OSError as error:
        return None, f"{place}: the file {name} cannot be read ({error.strerror})"
    except UnicodeDecodeError:
        return None, f"{place}: the file {name} is not UTF-8 text"
    except (RuntimeError, ValueError):  # no such home directory; a NUL
        return None, f"{place}: {name!r} is not the path of a file"
    return text.removesuffix("\n").removesuffix("\r"), ""
