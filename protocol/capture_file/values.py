"""How values of the capture file are written: durations and paths."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, ConfigDict

_DURATION = re.compile(r"(\d+(?:\.\d+)?) ?(ms|s|m|h|d)")
_STORES = ("s3", "gs", "az")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


STRICT = ConfigDict(extra="forbid", frozen=True, defer_build=True)
"""The configuration of every mapping of the file: an unknown key is a mistake."""


def _seconds(value: object) -> object:
    if isinstance(value, str):
        match = _DURATION.fullmatch(value.strip())
        if match is None:
            raise ValueError("a duration is a number with a unit, such as 500ms, 1s, 2m or 7d")
        return float(match[1]) * _SECONDS[match[2]]
    return value


def _place(value: object) -> object:
    if isinstance(value, str) and (url := re.match(r"([a-z][a-z0-9+]+)://", value)):
        if url[1] not in _STORES:
            raise ValueError(f"stores are {', '.join(_STORES)}, or a local path")
        return value
    return _local_path(value)


def _local_path(value: object) -> object:
    if not isinstance(value, str):
        return value
    if not value or "\0" in value:
        raise ValueError("a path must not be empty or hold a NUL")
    try:
        return Path(value).expanduser()
    except RuntimeError:
        raise ValueError("this user has no home directory") from None


Seconds = Annotated[float, BeforeValidator(_seconds)]
"""A number of seconds, or text such as ``500ms``."""

StoredPath = Annotated[Path | str, BeforeValidator(_place)]
"""A path on this machine; ``~`` is the user's home. Or the URL of an object store, as text."""
