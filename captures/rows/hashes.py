"""Salted hashes of columns, the same for every database."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

from tidemark.protocol.errors import SourceError


def hashed(salt: bytes) -> Callable[[str], str]:
    """A function from a value's text, in the server's form with one character per byte, to JSON.

    The JSON is a string: the SHA-256, in hexadecimal, of the salt followed by the text.
    """
    salted = sha256(salt)

    def convert(text: str) -> str:
        digest = salted.copy()
        digest.update(text.encode("latin-1"))
        return f'"{digest.hexdigest()}"'

    return convert


def no_salt(code: str, table: str) -> SourceError:
    """The error for hashed columns of ``table`` without a salt: anyone could compute the hashes of likely values."""
    return SourceError(
        code,
        f"{table}: columns are to be hashed, but the configuration has no hash_salt",
        remedy=(
            "Set `hash_salt` in the connector's config to a long random text, and do not change it: another "
            "salt gives other hashes for the same values."
        ),
    )
