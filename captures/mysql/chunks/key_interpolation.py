"""Texts between two texts of a key column: candidates for a bound that splits a range.

They only decide how even the parts are. The server decides the order of texts, and whether there are rows on either
side (``tidemark.captures.mysql.chunks.split_points``).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from itertools import takewhile

from tidemark.captures.mysql.terms.columns import Column
from tidemark.captures.mysql.values.types import KeyForm, key_form, key_text, text_of_key

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
"""Most collations have this order, with capital letters among or before the small ones."""

_PLACES = 6
"""The characters or bytes, after the common beginning, that are interpolated."""

_LAST_CHARACTER = 0x10FFFF

_OF_SEVERAL_BYTES = frozenset(("big5", "cp932", "eucjpms", "euckr", "gb18030", "gb2312", "gbk", "sjis", "ujis"))
"""Character sets in which not every string of bytes is a text."""


def between(column: Column, low: str, high: str) -> Iterator[str]:
    """Texts of a key about half way from ``low`` to ``high``, the likeliest first; none if there is no rule."""
    try:
        yield from _between(column, low, high)
    except (ValueError, ArithmeticError):  # a zero date, or a year beyond what Python knows
        return


def _between(column: Column, low: str, high: str) -> Iterator[str]:
    match key_form(column):
        case KeyForm.TEXT:
            for text in _texts(text_of_key(low), text_of_key(high)):
                if _fits(text, column.charset):
                    yield key_text(text)
        case KeyForm.HEX:
            yield _bytes(bytes.fromhex(low), bytes.fromhex(high)).hex()
        case KeyForm.CODED:
            # The meaning of bytes is unknown here, but every byte, or every ASCII byte, is a text.
            code = "ascii" if column.charset in _OF_SEVERAL_BYTES else "latin-1"
            for text in _texts(*(bytes.fromhex(coded).decode(code) for coded in (low, high))):
                yield text.encode(code).hex()
        case KeyForm.REAL:
            # The difference of two doubles may be more than one can hold.
            yield repr(float(low) + (float(high) / 2 - float(low) / 2))
        case KeyForm.NUMBER:
            yield str((int(low) + int(high)) // 2)
        case KeyForm.PLAIN:
            yield from _plain(column.data_type, low, high)


def _plain(data_type: str, low: str, high: str) -> Iterator[str]:
    match data_type:
        case "decimal":
            yield format((Decimal(low) + Decimal(high)) / 2, "f")
        case "date" | "datetime" | "timestamp":
            first, last = datetime.fromisoformat(low), datetime.fromisoformat(high)
            yield str(first + (last - first) / 2)[: max(len(low), len(high))]
        case "time":
            yield _time((_microseconds(low) + _microseconds(high)) // 2)
        case "inet4" | "inet6":
            address = ipaddress.IPv4Address if data_type == "inet4" else ipaddress.IPv6Address
            yield str(address((int(address(low)) + int(address(high))) // 2))
        case "uuid":
            # MariaDB orders some versions of UUIDs by their last group first, and others as written.
            for order in (_LAST_GROUP_FIRST, _AS_WRITTEN):
                numbers = [int("".join(text.split("-")[place] for place in order), 16) for text in (low, high)]
                yield _uuid(sum(numbers) // 2, order)
        case _:
            yield str((int(low) + int(high)) // 2)


_AS_WRITTEN = (0, 1, 2, 3, 4)
_LAST_GROUP_FIRST = (4, 3, 2, 1, 0)
_UUID_DIGITS = (8, 4, 4, 4, 12)


def _uuid(number: int, order: tuple[int, ...]) -> str:
    digits = f"{number:032x}"
    groups = [""] * 5
    for place in order:
        groups[place], digits = digits[: _UUID_DIGITS[place]], digits[_UUID_DIGITS[place] :]
    return "-".join(groups)


def _microseconds(time: str) -> int:
    hours, minutes, seconds = time.lstrip("-").split(":")
    total = (int(hours) * 60 + int(minutes)) * 60_000_000 + int(Decimal(seconds) * 1_000_000)
    return -total if time.startswith("-") else total


def _time(microseconds: int) -> str:
    seconds, fraction = divmod(abs(microseconds), 1_000_000)
    sign = "-" if microseconds < 0 else ""
    return f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:06d}"


def _bytes(low: bytes, high: bytes) -> bytes:
    shared = _shared(low, high)
    first, last = (int.from_bytes(text[shared : shared + _PLACES].ljust(_PLACES, b"\0"), "big") for text in (low, high))
    return low[:shared] + ((first + last) // 2).to_bytes(_PLACES, "big")


def _fits(text: str, charset: str | None) -> bool:
    """Whether the column could hold the text: for other texts the server would not use the index."""
    if charset == "latin1":
        return text.encode("cp1252", "ignore").decode("cp1252") == text
    return charset not in ("utf8", "utf8mb3", "ucs2") or max(map(ord, text), default=0) <= 0xFFFF


def _texts(low: str, high: str) -> Iterator[str]:
    """By the next digits and letters, ignoring case; then by the code point of the next character."""
    folded_low, folded_high = low.lower(), high.lower()
    if len(folded_low) == len(low) and len(folded_high) == len(high):
        shared = _shared(folded_low, folded_high)
        first, last = _fraction(folded_low[shared:]), _fraction(folded_high[shared:])
        made = _written((first + last) // 2)
        next_to = low[shared : shared + 1] + high[shared : shared + 1]
        yield low[:shared] + (made.upper() if next_to.isupper() else made)
    shared = _shared(low, high)
    first, last = (ord(text[shared]) if len(text) > shared else 0 for text in (low, high))
    middle = (first + last) // 2
    if 0 < middle <= _LAST_CHARACTER and not 0xD800 <= middle <= 0xDFFF:
        yield low[:shared] + chr(middle)


def _fraction(text: str) -> int:
    """The next characters as digits of a number; other characters count as the least or the greatest digit."""
    number = 0
    for place in range(_PLACES):
        character = text[place : place + 1]
        digit = _DIGITS.find(character) if character else 0
        if digit < 0:
            digit = len(_DIGITS) - 1 if character > _DIGITS[-1] else 0
        number = number * len(_DIGITS) + digit
    return number


def _written(number: int) -> str:
    characters = []
    for _ in range(_PLACES):
        number, digit = divmod(number, len(_DIGITS))
        characters.append(_DIGITS[digit])
    return "".join(reversed(characters))


def _shared(low: bytes | str, high: bytes | str) -> int:
    """The length of the common beginning."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(low, high, strict=False)))
