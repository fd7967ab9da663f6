"""The ids of transactions, as the log, the server's lists and fences know them."""

from __future__ import annotations


def transaction_id(gtid: str, server: str, end: int, xid: str = "") -> str:
    """The id of a transaction of MariaDB.

    The position says exactly whether a snapshot shows it, but is valid on one server only. On another one, after a
    failover, its GTID must suffice.

    Args:
        gtid: ``domain-server-number``.
        server: ``server_name`` of the one whose log was read.
        end: The position after its commit in that log.
        xid: Of the prepared transaction that it commits, as ``xa_id`` writes it.
    """
    return f"{gtid}@{server}:{end}@{xid}" if xid else f"{gtid}@{server}:{end}"


def xa_id(transaction: bytes, branch: bytes, form: int) -> str:
    """An XA transaction's id as the log's statements write it, in lower case: ``X'61',X'',1``."""
    return f"x'{transaction.hex()}',x'{branch.hex()}',{form}"
