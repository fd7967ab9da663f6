"""Parts of a capture file that errors suggest, as one writes them in YAML."""

from __future__ import annotations

import re

import orjson

_PLAIN = re.compile(r"[^\W\d][\w.]*")
_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off"})
"""What YAML reads as something else than text, in lower case."""


def in_yaml(name: str) -> str:
    """The name of a table or column, in quotes where YAML would read something else."""
    plain = _PLAIN.fullmatch(name) is not None and name.lower() not in _WORDS
    return name if plain else orjson.dumps(name).decode()


def excluding(*columns: str) -> str:
    """The option of a table that leaves columns out."""
    return f"exclude: [{', '.join(map(in_yaml, columns))}]"
