"""What an error code says, and the codes that are registered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class Policy(StrEnum):
    """What a supervisor does about an error. A connector's last log line has it by this name."""

    RETRY = "retry"
    """Start again with exponential backoff: the cause passes by itself."""

    MANUAL = "manual"
    """Stop with the error: a person must change something first."""


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """A code and what it means.

    Attributes:
        code: ``TM-<room>-<number>``.
        title: What went wrong, as a heading.
        policy: Whether a supervisor tries again.
        remedy: What a person does about it, when the error itself does not say it more exactly.
        documentation: Where it is explained; empty if nowhere.
        secret: A secret is refused, or cannot be read: it may be another one by now.
    """

    code: str
    title: str
    policy: Policy
    remedy: str
    documentation: str
    secret: bool = False


def retry(code: str, title: str, remedy: str) -> ErrorCode:
    """An error whose cause passes by itself."""
    return ErrorCode(code, title, Policy.RETRY, remedy, _documentation(code))


def manual(code: str, title: str, remedy: str, *, secret: bool = False) -> ErrorCode:
    """An error that waits for a person."""
    return ErrorCode(code, title, Policy.MANUAL, remedy, _documentation(code), secret)


def _documentation(code: str) -> str:
    return f"docs/errors.md#{code.lower()}"


_registered: dict[str, ErrorCode] = {}

REGISTERED: Mapping[str, ErrorCode] = MappingProxyType(_registered)
"""The codes of the rooms that this process has imported. What any room raises is among them."""


def register(codes: Iterable[ErrorCode]) -> None:
    """Makes the codes of a room known, so that its errors can be raised by them.

    Raises:
        ValueError: A code is registered already.
    """
    for each in codes:
        if each.code in _registered:
            raise ValueError(f"{each.code} is registered twice")
        _registered[each.code] = each
