"""``verify``: how often a running capture has its tables compared with the source."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field

from tidemark.protocol.capture_file.values import STRICT, Seconds

_SHARE = re.compile(r"(\d+(?:\.\d+)?)%")


def share(text: str) -> float:
    """A part of the time, such as ``5%``. Raises ValueError for any other text."""
    match = _SHARE.fullmatch(text)
    part = float(match[1]) / 100 if match else 0.0
    if not 0 < part <= 1:
        raise ValueError("a part of the time, such as 5%")
    return part


def _read(value: Any) -> Any:
    return share(value) if isinstance(value, str) else share("")


class VerifyEntry(BaseModel):
    """``verify``: without it tables are compared only when somebody asks.

    Attributes:
        every: Seconds between the end of a verification and the begin of the next.
        share: The most of the time that reading may take, from 0 to 1.
    """

    model_config = STRICT

    every: Annotated[Seconds, Field(ge=60)]
    share: Annotated[float, BeforeValidator(_read)] = 0.05
