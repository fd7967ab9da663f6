"""Secrets of a capture file: ``{env: NAME}`` and ``{file: PATH}`` in a connector's configuration.

They are resolved only when a connector is about to be started, and are never written anywhere.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from protocol.errors import UsageError

_SECRET_NAME = re.compile(r"password|passwd|secret|token|credential|private_?key|api_?key", re.IGNORECASE)


def resolve(config: dict[str, Any], folder: Path, place: str = "config") -> tuple[dict[str, Any], set[str]]:
    """The configuration with its secrets filled in, and all values that must not be shown.

    Those are the resolved ones, and texts that stand in the file itself under a name such as ``password``.

    Args:
        place: What messages call it.
        folder: Where relative paths of ``{file: …}`` start. A file's last line end does not belong to the secret.

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
        self.secrets: set[str] = set()
        self.missing: list[str] = []
        self._folder = folder

    def value(self, value: Any, place: str, *, secret: bool) -> Any:
        match value:
            case {"env": str(name)} if len(value) == 1:
                return self._found(os.environ.get(name), f"{place}: the environment variable {name} is not set")
            case {"file": str(name)} if len(value) == 1:
                return self._found(*self._read(name, place))
            case dict():
                return {
                    name: self.value(part, f"{place}.{name}", secret=bool(_SECRET_NAME.search(str(name))))
                    for name, part in value.items()
                }
            case list():
                return [self.value(part, f"{place}.{index}", secret=secret) for index, part in enumerate(value)]
            case str() if secret:
                self.secrets.add(value)
        return value

    def _found(self, secret: str | None, complaint: str) -> str:
        if secret is None:
            self.missing.append(complaint)
            return ""
        self.secrets.add(secret)
        return secret

    def _read(self, name: str, place: str) -> tuple[str | None, str]:
        try:
            text = (self._folder / Path(name).expanduser()).read_text("utf-8")
        except OSError as error:
            return None, f"{place}: the file {name} cannot be read ({error.strerror})"
        except UnicodeDecodeError:
            return None, f"{place}: the file {name} is not UTF-8 text"
        except (RuntimeError, ValueError):  # no such home directory; a NUL
            return None, f"{place}: {name!r} is not the path of a file"
        return text.removesuffix("\n").removesuffix("\r"), ""
