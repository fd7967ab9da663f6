"""Converts values from the binary form of row events to the text that the server prints.

Formats: MySQL's ``decimal.cc`` (``decimal2bin``) and ``my_time.cc`` (``*_packed_to_binary``).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from datetime import date
from functools import partial
from socket import AF_INET, AF_INET6, inet_ntop

from tidemark.captures.mysql.values.json_values import Remembered, check_day

_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""Bytes for so many decimal digits."""


CheckDay = Callable[[int, int, int], None]
"""Raises for a year, month and day that are not accepted."""

_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()


def _any_day(year: int, month: int, day: int) -> None:
    """Accepts all of them."""


def _date(check: CheckDay, data: bytes) -> str:
    """``2024-01-15`` by the three bytes of a DATE: little endian, 5 bits of day, 4 of month, 15 of year."""
    packed = int.from_bytes(data, "little")
    year, month, day = packed >> 9, packed >> 5 & 15, packed & 31
    check(year, month, day)
    return f"{year:04d}-{month:02d}-{day:02d}"


def _half_day(check: CheckDay, data: bytes) -> tuple[str, dict[int, str]]:
    """``2024-01-15`` and the clock of its half by the first three bytes of a DATETIME, big endian: a bit that is set,
    17 bits of ``year * 13 + month``, 5 of day and the highest of hour.
    """
    packed = int.from_bytes(data, "big") - (1 << 23)
    year, month = divmod(packed >> 6, 13)
    day = packed >> 1 & 31
    check(year, month, day)
    return f"{year:04d}-{month:02d}-{day:02d}", _CLOCKS[packed & 1]


def _clock(first_hour: int, packed: int) -> str:
    """``14:30:00`` by the last two bytes of a DATETIME: the lower 4 bits of hour, 6 of minute, 6 of second."""
    return f"{first_hour + (packed >> 12):02d}:{packed >> 6 & 63:02d}:{packed & 63:02d}"


def _epoch_day(check: CheckDay, days: int) -> str:
    """``2024-01-15`` by days since 1970; the zero date by ``NEVER``."""
    if days >= 0:
        return date.fromordinal(_EPOCH_ORDINAL + days).isoformat()
    check(0, 0, 0)
    return "0000-00-00"


def _day_second(seconds: int) -> str:
    """``14:30:00`` by seconds since midnight."""
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


_CLOCKS = Remembered(partial(_clock, 0)), Remembered(partial(_clock, 16))

DATES, ANY_DATES = (Remembered(partial(_date, check)) for check in (check_day, _any_day))
DAYS, ANY_DAYS = (Remembered(partial(_half_day, check)) for check in (check_day, _any_day))
EPOCH_DAYS, ANY_EPOCH_DAYS = (Remembered(partial(_epoch_day, check)) for check in (check_day, _any_day))
DAY_SECONDS = Remembered(_day_second)
"""Most moments of a log share their day, or their second of a day, with others.

The first of each pair raises BadDay for what is no day of the years 1 to 9999.
"""


def _date_days(data: bytes) -> int:
    """Days since 1970 by the three bytes of a DATE. Raises BadDay."""
    return date.fromisoformat(_date(check_day, data)).toordinal() - _EPOCH_ORDINAL


def _half_day_microseconds(data: bytes) -> int:
    """Microseconds since 1970 at the beginning of a half of ``_half_day``. Raises BadDay."""
    day, _ = _half_day(check_day, data)
    hours = 24 * (date.fromisoformat(day).toordinal() - _EPOCH_ORDINAL) + 16 * (data[2] & 1)
    return hours * 3_600_000_000


def _clock_microseconds(packed: int) -> int:
    """Microseconds since that by the last two bytes of a DATETIME. Raises ValueError."""
    minute, second = packed >> 6 & 63, packed & 63
    if minute >= 60 or second >= 60:
        raise ValueError("no time of a day")
    return ((packed >> 12) * 3600 + minute * 60 + second) * 1_000_000


def no_day() -> int:
    """For the zero date of a TIMESTAMP. Raises BadDay."""
    check_day(0, 0, 0)
    raise AssertionError("it is no day")


DATE_DAYS = Remembered(_date_days)
HALF_DAY_MICROSECONDS, CLOCK_MICROSECONDS = Remembered(_half_day_microseconds), Remembered(_clock_microseconds)
"""The numbers of the same, for columns of Arrow."""

NEVER = (-1, 0)
"""Day and second of the zero date, for which a TIMESTAMP has 0."""

TWO_DIGITS = tuple(f"{number:02d}" for number in range(100))


def fraction_bytes(digits: int) -> int:
    """Bytes for so many digits of a second."""
    return (digits + 1) // 2


def decimal_bytes(precision: int, scale: int) -> int:
    """Bytes of a DECIMAL."""
    whole, part = divmod(precision - scale, 9), divmod(scale, 9)
    return 4 * whole[0] + _DIGIT_BYTES[whole[1]] + 4 * part[0] + _DIGIT_BYTES[part[1]]


def decimal_groups(precision: int, scale: int) -> tuple[list[int], list[int]]:
    """Bytes of the groups of digits before and after a DECIMAL's point: see ``decimal_reader``."""
    whole, part = divmod(precision - scale, 9), divmod(scale, 9)
    before, after = [_DIGIT_BYTES[whole[1]], *[4] * whole[0]], [*[4] * part[0], _DIGIT_BYTES[part[1]]]
    return [size for size in before if size], [size for size in after if size]


def decimal_reader(precision: int, scale: int) -> Callable[[bytes], str]:
    """Reads DECIMALs: groups of nine digits in four bytes each, big endian; before and after them what is left over.

    The highest bit is inverted; in negative numbers all the others are.
    """
    size = decimal_bytes(precision, scale)
    top, every = 1 << 8 * size - 1, (1 << 8 * size) - 1
    wholes = (precision - scale) // 9
    parts, left = divmod(scale, 9)
    left_bits = 8 * _DIGIT_BYTES[left]
    fraction_bits = 32 * parts + left_bits
    fraction_mask = (1 << fraction_bits) - 1

    def read_short(data: bytes) -> str:
        number = int.from_bytes(data, "big")
        if number & top:
            number ^= top
            return f"{number >> fraction_bits}.{number & fraction_mask:0{scale}d}"
        number ^= every ^ top
        return f"-{number >> fraction_bits}.{number & fraction_mask:0{scale}d}"

    def read(data: bytes) -> str:
        number = int.from_bytes(data, "big")
        sign = "" if number & top else "-"
        number ^= top if number & top else every ^ top
        whole = number >> fraction_bits
        value = whole >> 32 * wholes
        for group in range(wholes - 1, -1, -1):
            value = value * 1_000_000_000 + (whole >> 32 * group & 0xFFFFFFFF)
        if not scale:
            return f"{sign}{value}"
        fraction = "".join(f"{number >> left_bits + 32 * group & 0xFFFFFFFF:09d}" for group in range(parts - 1, -1, -1))
        if left:
            fraction += f"{number & (1 << left_bits) - 1:0{left}d}"
        return f"{sign}{value}.{fraction}"

    return read_short if scale and not wholes and (not parts or (parts == 1 and not left)) else read


def fraction_text(data: bytes, digits: int) -> str:
    """The digits of a second, with the point: two digits a byte, big endian."""
    return f".{int.from_bytes(data, 'big'):0{2 * len(data)}d}"[: digits + 1] if digits else ""


def time_text(data: bytes, digits: int) -> str:
    """A TIME: a sign bit (set for positive), one unused, 10 bits of hours, 6 of minutes, 6 of seconds, the fraction.

    Negative times are the two's complement of the whole.
    """
    size = len(data)
    packed = int.from_bytes(data, "big") - (1 << 8 * size - 1)
    sign, packed = ("-", -packed) if packed < 0 else ("", packed)
    fraction_bits = 8 * (size - 3)
    clock = packed >> fraction_bits
    fraction = fraction_text((packed & (1 << fraction_bits) - 1).to_bytes(size - 3, "big"), digits)
    return f"{sign}{clock >> 12 & 1023:02d}:{clock >> 6 & 63:02d}:{clock & 63:02d}{fraction}"


def old_datetime_text(packed: int) -> str:
    """A DATETIME of before MySQL 5.6.4: the decimal digits ``YYYYMMDDhhmmss``."""
    digits = f"{packed:014d}"
    return f"{digits[:4]}-{digits[4:6]}-{digits[6:8]} {digits[8:10]}:{digits[10:12]}:{digits[12:]}"


def old_time_text(data: bytes) -> str:
    """A TIME of before MySQL 5.6.4: the decimal digits ``hhmmss``, signed."""
    packed = int.from_bytes(data, "little", signed=True)
    sign, packed = ("-", -packed) if packed < 0 else ("", packed)
    return f"{sign}{packed // 10000:02d}:{packed // 100 % 100:02d}:{packed % 100:02d}"


# MariaDB's own fractions of a second, of before 10.0 and with mysql56_temporal_format = OFF (``sql/field.cc``,
# ``Field_datetime_hires`` and others): one integer, big endian, that counts the least digit.

HIRES_DATETIME_BYTES = (5, 6, 6, 7, 7, 7, 8)
HIRES_TIME_BYTES = (3, 4, 4, 5, 5, 5, 6)
"""By digits of a second."""

_HIRES_TIME_ZERO = 839 * 3600
"""Seconds that are added to a TIME, which may be negative."""


def hires_datetime_text(data: bytes, digits: int) -> str:
    """A DATETIME: years, months of 13, days of 32, hours, minutes, seconds and the digits."""
    clock, fraction = divmod(int.from_bytes(data, "big"), 10**digits)
    days, seconds = divmod(clock, 86400)
    months, day = divmod(days, 32)
    year, month = divmod(months, 13)
    return f"{year:04d}-{month:02d}-{day:02d} {DAY_SECONDS[seconds]}.{fraction:0{digits}d}"


def hires_timestamp_text(data: bytes, digits: int) -> str:
    """A TIMESTAMP: four bytes of seconds since 1970, then the digits; nothing but zeros for the zero date."""
    days, seconds = divmod(int.from_bytes(data[:4], "big"), 86400) if any(data) else NEVER
    return f"{ANY_EPOCH_DAYS[days]} {DAY_SECONDS[seconds]}.{int.from_bytes(data[4:], 'big'):0{digits}d}"


def hires_time_text(data: bytes, digits: int) -> str:
    """A TIME."""
    count = int.from_bytes(data, "big") - _HIRES_TIME_ZERO * 10**digits
    sign, count = ("-", -count) if count < 0 else ("", count)
    clock, fraction = divmod(count, 10**digits)
    return f"{sign}{clock // 3600:02d}:{clock // 60 % 60:02d}:{clock % 60:02d}.{fraction:0{digits}d}"


def inflated(data: bytes) -> bytes:
    """A value of a column that MariaDB compressed ("Storage-Engine Independent Column Compression").

    Its first byte holds the method above four bits (0 none, 8 and 9 zlib without and with a header), and in the low
    three the bytes of the length that follows it. Raises ValueError when it is not that.
    """
    if not data:
        return b""
    method = data[0] >> 4
    if method == 0:
        return data[1:]
    if method != 8:
        raise ValueError("an unknown compression")
    start = 1 + (data[0] & 7)
    try:
        # Bit 3 says that the zlib stream comes bare.
        return zlib.decompress(data[start:], -15 if data[0] & 8 else 15)
    except zlib.error:
        raise ValueError("a compressed value does not decompress") from None


def uuid_text(data: bytes) -> str:
    """MariaDB's UUID: 16 bytes in the order of the text."""
    digits = data.ljust(16, b"\0").hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def inet4_text(data: bytes) -> str:
    """MariaDB's INET4: four bytes."""
    return inet_ntop(AF_INET, data.ljust(4, b"\0"))


def inet6_text(data: bytes) -> str:
    """MariaDB's INET6: 16 bytes."""
    return inet_ntop(AF_INET6, data.ljust(16, b"\0"))
