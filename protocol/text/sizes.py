"""How sizes are written in configurations, of the runtime and of connectors: ``64MB`` is 64 million bytes."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator

_FORM = re.compile(r"(\d+)(?:\.(\d+))?\s*(?:([kKMGT])(i?))?B", re.ASCII)
_POWERS = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4}


def parse_size(text: str) -> int:
    """Bytes of a size: kB, MB, GB and TB are powers of 1,000, and KiB, MiB, GiB and TiB of 1,024.

    Raises:
        ValueError: Another form.
    """
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise ValueError("a size is a number with a unit, such as 64MB (64,000,000 bytes) or 64MiB (67,108,864 bytes)")
    whole, fraction, prefix, binary = match.groups(default="")
    unit = (1024 if binary else 1000) ** _POWERS[prefix]
    return int(int(whole + fraction) * unit // 10 ** len(fraction))


def size_or_number(value: object) -> object:
    """Bytes of a size; what is no text is left as it is. Raises as ``parse_size``."""
    return parse_size(value) if isinstance(value, str) else value


Bytes = Annotated[int, BeforeValidator(size_or_number)]
"""A number of bytes, or a size as ``parse_size`` reads it."""
