"""The ``notify`` entry of a capture file: who is told of what happens to a capture."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, Field, JsonValue, model_validator

from tidemark.protocol.capture_file.values import STRICT, Seconds

Happening = Literal[
    "backfill_done",
    "generation_shown",
    "table_set_aside",
    "table_captured_again",
    "source_away",
    "source_back",
    "lag_over",
    "lag_within",
    "capture_failed",
]
"""What can be told; docs/notifications.md says when."""


class ReceiverEntry(BaseModel):
    """One that is told: a command or a URL.

    Attributes:
        command: A program and its arguments; the notification is on its stdin.
        url: Where the notification is posted: a text, or where a secret one is.
        headers: Of the request; secrets still unresolved.
        on: What it is told of; absent, of everything.
    """

    model_config = STRICT

    command: Annotated[list[str], Field(min_length=1)] | None = None
    url: JsonValue = None
    headers: dict[str, JsonValue] = {}
    on: list[Happening] | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("a receiver has either a command or a url")
        if self.command is not None and self.headers:
            raise ValueError("headers are for a url")
        return self


class NotifyEntry(BaseModel):
    """Who is told.

    Attributes:
        to: The receivers.
        lag: In seconds: a longer lag is told; absent, no lag is.
    """

    model_config = STRICT

    to: Annotated[list[ReceiverEntry], Field(min_length=1)]
    lag: Annotated[Seconds, Field(gt=0)] | None = None
