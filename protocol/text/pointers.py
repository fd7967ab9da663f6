"""JSON pointers (RFC 6901)."""

from __future__ import annotations


def pointer(name: str) -> str:
    """The pointer to a member of the document."""
    return "/" + name.replace("~", "~0").replace("/", "~1")


def member(step: str) -> str:
    """The name of the member that a step of a pointer means."""
    return step.replace("~1", "/").replace("~0", "~")


def column_of(pointer: str) -> str | None:
    """The member of the document that a pointer names; None for a pointer to another place."""
    root, _, name = pointer.partition("/")
    return None if root or not name or "/" in name else member(name)
