"""What a capture made at its source, and how it is removed, for a runtime that asks by ``TIDEMARK_REMOVE``.

With ``TIDEMARK_REMOVE=1`` in its environment a connector answers ``validate`` without bindings by telling what the
capture made, and ``apply`` by removing it. Both write one log line with ``eventType: removal`` whose fields are a
``Removal``. Nobody asks ``apply`` of a connector that has not told: it would take it for a request to make something.
"""

from __future__ import annotations

from pydantic import BaseModel

REMOVAL = "removal"
"""``eventType`` of the log line."""


class MadeObject(BaseModel):
    """An object at the source that a capture uses.

    Attributes:
        what: For people.
        statement: The SQL that removes it, without a semicolon at its end.
        kept: Why the capture's end does not remove it; empty if it does.
        removed: It is gone.
    """

    what: str
    statement: str
    kept: str = ""
    removed: bool = False


class Removal(BaseModel):
    """All objects of a capture, in the order in which they are removed."""

    objects: list[MadeObject] = []
