"""How sizes are written in configurations, of the runtime and of connectors: ``64MB`` is 64 million bytes."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, ByteSize, TypeAdapter

_FORM = re.compile(r"\d+(\.\d+)?\s*([kKMGT]i?)?B")
_BYTES = TypeAdapter(ByteSize)


def parse_size(text: str) -> int:
    """Bytes of a size: kB, MB, GB and TB are powers of 1,000, and KiB, MiB, GiB and TiB of 1,024.

    Raises:
        ValueError: Another form.
    """
    text = text.strip()
    # ByteSize reads a text's beginning, ignores case, and takes b for bytes where bits may be meant.
    if _FORM.fullmatch(text) is None:
        raise ValueError("a size is a number with a unit, such as 64MB (64,000,000 bytes) or 64MiB (67,108,864 bytes)")
    return int(_BYTES.validate_python(text))


def size_or_number(value: object) -> object:
    """Bytes of a size; what is no text is left as it is. Raises as ``parse_size``."""
    return parse_size(value) if isinstance(value, str) else value


Bytes = Annotated[int, BeforeValidator(size_or_number)]
"""A number of bytes, or a size as ``parse_size`` reads it."""
