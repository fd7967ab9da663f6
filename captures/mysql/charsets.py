"""Texts in the character set of their column, to UTF-8. Names are the server's."""

from __future__ import annotations

from collections.abc import Callable

UTF8 = frozenset(("utf8mb4", "utf8mb3", "utf8", "ascii"))
"""Character sets whose texts are UTF-8 as they are."""

_CODECS = {
    "big5": "big5hkscs",
    "cp1250": "cp1250",
    "cp1251": "cp1251",
    "cp1256": "cp1256",
    "cp1257": "cp1257",
    "cp850": "cp850",
    "cp852": "cp852",
    "cp866": "cp866",
    "cp932": "cp932",
    "eucjpms": "euc_jp",
    "euckr": "cp949",
    "gb18030": "gb18030",
    "gb2312": "gb2312",
    "gbk": "gbk",
    "greek": "iso8859_7",
    "hebrew": "iso8859_8",
    "koi8r": "koi8_r",
    "koi8u": "koi8_u",
    "latin2": "iso8859_2",
    "latin5": "iso8859_9",
    "latin7": "iso8859_13",
    "macce": "mac_latin2",
    "macroman": "mac_roman",
    "sjis": "shift_jis",
    "tis620": "tis_620",
    "ucs2": "utf_16_be",
    "ujis": "euc_jp",
    "utf16": "utf_16_be",
    "utf16le": "utf_16_le",
    "utf32": "utf_32_be",
}

_WIDE = frozenset(("ucs2", "utf16", "utf16le", "utf32"))
"""Character sets in which ASCII is not itself."""

# The server's latin1 is Windows-1252, with the five bytes that it leaves open as the controls of ISO 8859-1.
_LATIN1 = "".join(bytes([b]).decode("cp1252", "ignore") or chr(b) for b in range(256))
_LATIN1_UTF8 = {b: _LATIN1[b].encode().decode("latin-1") for b in range(128, 256)}


def byte_text_of(charset: str) -> Callable[[str], str] | None:
    """Turns a byte text in the character set into one in UTF-8; None where it is that already.

    The function raises ValueError for bytes that the character set does not have. Raises LookupError for a character
    set that is not known.
    """
    if charset in UTF8:
        return None
    if charset in ("latin1", "binary"):
        return _from_latin1
    codec = _CODECS[charset]
    if charset in _WIDE:
        return lambda text: text.encode("latin-1").decode(codec).encode().decode("latin-1")

    def convert(text: str) -> str:
        return text if text.isascii() else text.encode("latin-1").decode(codec).encode().decode("latin-1")

    return convert


def _from_latin1(text: str) -> str:
    return text if text.isascii() else text.translate(_LATIN1_UTF8)
