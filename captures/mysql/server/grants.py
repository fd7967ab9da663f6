"""The privileges that a capture needs at the server, and what to do where the account lacks them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pymysql
from pymysql.constants import ER

from tidemark.captures.mysql.server.session import Session, error_of
from tidemark.captures.mysql.terms.config import EndpointConfig
from tidemark.captures.mysql.terms.quoting import quoted_text
from tidemark.protocol.errors import SourceError

_MAY_REPLICATE = re.compile(r"\b(ALL PRIVILEGES|REPLICATION (SLAVE|REPLICA))\b(?! ADMIN).* ON \*\.\*", re.IGNORECASE)

_MAY_SELECT = re.compile(r"\b(ALL PRIVILEGES|SELECT)\b.* ON ", re.IGNORECASE)

_ANONYMOUS = "''@"


def missing_grants(session: Session, config: EndpointConfig, *, may_see_none: bool) -> Iterator[SourceError]:
    """The errors for privileges that the account lacks. Raises pymysql.Error.

    Args:
        may_see_none: No table is bound: perhaps the account sees none.
    """
    account = session.account()
    monitor = "BINLOG MONITOR" if session.mariadb else "REPLICATION CLIENT"
    lines = [str(row[0]) for row in session.rows("SHOW GRANTS")]
    # Not every server lists what a role grants. Opening the log shows it then.
    has_roles = any(" ON " not in line for line in lines)
    missing = [] if has_roles or any(map(_MAY_REPLICATE.search, lines)) else ["REPLICATION SLAVE"]
    try:
        session.rows("SHOW BINARY LOGS")
    except pymysql.Error as error:
        number = error_of(error)[0]
        if number == ER.SPECIFIC_ACCESS_DENIED_ERROR:
            missing.append(monitor)
        elif number != ER.NO_BINARY_LOGGING:
            raise
    none_seen = may_see_none and not has_roles and not any(map(_MAY_SELECT.search, lines))
    if (missing or none_seen) and config.user and account.startswith(_ANONYMOUS):
        yield _anonymous(config, account)
        return
    if missing:
        privileges = ", ".join(missing)
        yield SourceError(
            "TM-MY-006",
            f"user {config.user} lacks {privileges}",
            remedy=f"Run, as an administrator: GRANT {privileges} ON *.* TO {account};",
        )
    if none_seen:
        yield SourceError(
            "TM-MY-008",
            f"user {config.user} may read no table, and so sees none",
            remedy=f"Run, as an administrator, for each schema with tables to capture: GRANT SELECT ON `SCHEMA`.* TO "
            f"{account};",
        )


def _anonymous(config: EndpointConfig, account: str) -> SourceError:
    """An account without a name matches every user of its host, and hosts are compared first."""
    own = f"{quoted_text(config.user)}@{account.removeprefix(_ANONYMOUS)}"
    return SourceError(
        "TM-MY-006",
        f"user {config.user} lacks privileges: the server takes it for the anonymous account {account}, which comes "
        "before accounts of its name for other hosts",
        remedy=f"Run, as an administrator: DROP USER {account}; or make the account {own}, with the same privileges.",
    )
