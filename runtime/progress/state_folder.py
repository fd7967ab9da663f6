"""The user's folder for what is remembered of captures where their own folders cannot be written."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path


def state_folder() -> Path:
    """``tidemark`` in the user's folder for state (XDG Base Directory Specification). It may not exist."""
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (given if given.is_absolute() else Path("~/.local/state").expanduser()) / "tidemark"


def digest_of(path: Path) -> str:
    """A short text that is another one for every other path."""
    return hashlib.sha256(str(path).encode()).hexdigest()[:16]
