"""The values that must never be shown, and how they are blanked from what a connector logs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from tidemark.protocol.log_lines import LogLine

BLANK = "***"

SHORTEST = 8
"""Characters of a secret that is blanked. A shorter one is part of other words: messages would become unreadable, and
their gaps would reveal it."""


class Redactor:
    """Blanks every occurrence of some secret values, those of ``SHORTEST`` characters or more, from log lines."""

    def __init__(self, secrets: Iterable[str]) -> None:
        # The longest first: one secret may be a part of another.
        ordered = sorted({secret for secret in secrets if len(secret) >= SHORTEST}, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def text(self, text: str) -> str:
        return self._pattern.sub(BLANK, text) if self._pattern else text

    def line(self, line: LogLine) -> LogLine:
        if self._pattern is None:
            return line
        return line.model_copy(update={"message": self.text(line.message), "fields": self._value(line.fields)})

    def _value(self, value: Any) -> Any:
        match value:
            case str():
                return self.text(value)
            case dict():
                return {self.text(str(name)): self._value(part) for name, part in value.items()}
            case list():
                return [self._value(part) for part in value]
            case _:
                return value
