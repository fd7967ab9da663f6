"""Who may read the files that this process writes."""

from __future__ import annotations

import os
from typing import Literal

_MASKS = {"owner": 0o077, "group": 0o027, "all": 0o022}


def write_for(readers: Literal["owner", "group", "all"]) -> None:
    """From now on, these users can read new files, or fewer if the user's own mask is stricter."""
    before = os.umask(0o777)
    os.umask((before if readers != "all" else 0) | _MASKS[readers])
