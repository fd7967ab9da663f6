"""What was looked at, and what was found there."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.protocol.error_codes import REGISTERED, Policy
from tidemark.protocol.errors import TidemarkError


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. ``code`` and ``remedy`` belong to what is not as it should be.

    Attributes:
        level: ``ok``; ``warning`` for what a person should know; ``failure`` for what prevents the capture.
        policy: Whether a failure may pass by itself; None if that is unknown, and if nothing failed.
        part: What was looked at: ``file``, ``log``, ``capture``, ``source``, ``spark`` or ``machine``.
    """

    ok: bool
    message: str
    code: str = ""
    remedy: str = ""
    level: str = "ok"
    policy: Policy | None = None
    part: str = "file"


class Findings:
    """Collects findings.

    Attributes:
        all: So far, in order.
        part: What is looked at now.
    """

    def __init__(self) -> None:
        self.all: list[Finding] = []
        self.part = "file"

    def good(self, message: str) -> None:
        self.all.append(Finding(True, message, part=self.part))

    def warn(self, message: str, code: str = "", remedy: str = "") -> None:
        """``remedy`` is by default that of the code."""
        remedy = remedy or (REGISTERED[code].remedy if code in REGISTERED else "")
        self.all.append(Finding(True, message, code, remedy, "warning", part=self.part))

    def bad(self, error: TidemarkError) -> None:
        self.fail(error.message, error.code, error.remedy, error.entry.policy)

    def fail(self, message: str, code: str, remedy: str, policy: Policy | None = None) -> None:
        """Notes an error that another process has told. See ``bad``."""
        self.all.append(Finding(False, message, code, remedy, "failure", policy, self.part))

    @property
    def failures(self) -> list[Finding]:
        return [finding for finding in self.all if not finding.ok]
