"""Names of accounts in the statements that errors give."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidemark.captures.mysql.server.session import Session


def quoted_account(user: str, host: str) -> str:
    """``'user'@'host'``, whatever characters are in them."""
    return f"{quoted_text(user)}@{quoted_text(host)}"


def quoted_text(text: str) -> str:
    """A literal in the server's default SQL mode."""
    doubled = text.replace("\\", "\\\\").replace("'", "''")
    return f"'{doubled}'"


def own_account(session: Session) -> str:
    """The account of the session. Raises pymysql.Error."""
    user, _, host = str(session.value("SELECT CURRENT_USER()")).rpartition("@")
    return quoted_account(user, host)
