"""``retain``: how much of the log is kept."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from tidemark.protocol.capture_file.values import STRICT, Seconds
from tidemark.protocol.text.sizes import Bytes


class RetainEntry(BaseModel):
    """``retain``: without it all of the log is kept.

    Events stay that are needed to build a captured table again, and those that a consumer has not read. Of the others
    those go that are older than ``age``, or that make the log larger than ``size``; without both, all of them.

    Attributes:
        age: Seconds.
        size: Bytes of segments.
        renew: Seconds after which a table is read again, so that events from before are not needed any more.
    """

    model_config = STRICT

    age: Annotated[Seconds, Field(gt=0)] | None = None
    size: Annotated[Bytes, Field(gt=0)] | None = None
    renew: Annotated[Seconds, Field(ge=3600)] | None = None
