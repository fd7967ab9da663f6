"""Names, texts and accounts as SQL has them, whatever characters are in them."""

from __future__ import annotations


def quoted_name(name: str) -> str:
    """A name as SQL."""
    return f"`{name.replace('`', '``')}`"


def quoted_text(text: str) -> str:
    """A literal in the server's default SQL mode."""
    doubled = text.replace("\\", "\\\\").replace("'", "''")
    return f"'{doubled}'"


def quoted_account(user: str, host: str) -> str:
    """``'user'@'host'``."""
    return f"{quoted_text(user)}@{quoted_text(host)}"
