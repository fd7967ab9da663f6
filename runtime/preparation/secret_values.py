"""Secrets of a capture file: ``{env: NAME}`` and ``{file: PATH}`` in a connector's configuration.

They are resolved only when a connector is about to be started, and are never written anywhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidemark.protocol.capture_file.stated_secrets import in_environment, in_file
from tidemark.protocol.errors import UsageError
from tidemark.runtime.connector.secrets import SHORTEST

_SECRET_NAME = re.compile(r"password|passwd|secret|token|credential|private_?key|api_?key", re.IGNORECASE)


@dataclass(slots=True)
class Secrets:
    """Values that must not be shown: resolved ones, and texts in the file under a name such as ``password``.

    Attributes:
        values: All values.
        short: The places of values under such a name that are too short to be blanked from messages.
    """

    values: set[str] = field(default_factory=set)
    short: list[str] = field(default_factory=list)

    def add(self, value: str, place: str, *, named: bool) -> None:
        """Adds a secret; ``named``: its entry has the name of one."""
        self.values.add(value)
        if named and 0 < len(value) < SHORTEST:
            self.short.append(place)


def resolve(config: dict[str, Any], folder: Path, place: str = "config") -> tuple[dict[str, Any], Secrets]:
    """The configuration with its secrets filled in, and those secrets.

    Args:
        place: Its name in messages.
        folder: The start of relative paths in ``{file: …}``. A file's last line end is not part of the secret.

    Raises:
        UsageError: ``TM-CFG-003`` naming every variable that is not set and every file that cannot be read.
    """
    resolver = _Resolver(folder)
    resolved = resolver.value(config, place, secret=False)
    if resolver.missing:
        raise UsageError("TM-CFG-003", "; ".join(resolver.missing))
    return resolved, resolver.secrets


class _Resolver:
    def __init__(self, folder: Path) -> None:
        self.secrets = Secrets()
        self.missing: list[str] = []
        self._folder = folder

    def value(self, value: Any, place: str, *, secret: bool) -> Any:
        match value:
            case {"env": str(name)} if len(value) == 1:
                return self._found(*in_environment(name, place), place, named=secret)
            case {"file": str(name)} if len(value) == 1:
                return self._found(*in_file(name, self._folder, place), place, named=secret)
            case dict():
                return {
                    name: self.value(part, f"{place}.{name}", secret=bool(_SECRET_NAME.search(str(name))))
                    for name, part in value.items()
                }
            case list():
                return [self.value(part, f"{place}.{index}", secret=secret) for index, part in enumerate(value)]
            case str() if secret:
                self.secrets.add(value, place, named=True)
        return value

    def _found(self, secret: str | None, complaint: str, place: str, *, named: bool) -> str:
        if secret is None:
            self.missing.append(complaint)
            return ""
        self.secrets.add(secret, place, named=named)
        return secret
