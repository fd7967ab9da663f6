"""The table into which a capture writes to know where its snapshots are, on MySQL without GTIDs."""

from __future__ import annotations

from tidemark.captures.mysql.server.replication import has_gtids
from tidemark.captures.mysql.server.session import Session, asking
from tidemark.captures.mysql.terms.config import EndpointConfig
from tidemark.captures.mysql.terms.quoting import quoted_name
from tidemark.protocol.removal import MadeObject

_COLUMNS = """
SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = %s AND table_name = %s
ORDER BY ordinal_position
"""


def ensure_watermark_table(session: Session, config: EndpointConfig) -> bool:
    """Creates the watermark table if it is needed and missing; returns whether it did. Raises pymysql.Error."""
    path = config.watermark_path
    if path is None or session.mariadb or has_gtids(session):
        return False
    if session.value("SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = %s", *path):
        return False
    session.rows(create_watermark_table(path))
    return True


def create_watermark_table(table: tuple[str, str]) -> str:
    """The statement that creates the watermark table if it is missing."""
    return f"CREATE TABLE IF NOT EXISTS {_quoted(table)} (id INT PRIMARY KEY, n BIGINT NOT NULL) ENGINE = InnoDB"


def made_objects(session: Session, config: EndpointConfig) -> list[MadeObject]:
    """The watermark table, if it exists: all that a capture makes. Raises SourceError."""
    path = config.watermark_path
    if path is None:
        return []
    with asking("looking for the watermark table"):
        columns = session.rows(_COLUMNS, *path)
    if not columns:
        return []
    own = [(str(name).lower(), str(kind).lower()) for name, kind in columns] == [("id", "int"), ("n", "bigint")]
    return [
        MadeObject(
            what=f"watermark table {config.watermark_table}",
            statement=f"DROP TABLE {_quoted(path)}",
            kept="" if own else "its columns are not those of a watermark table",
        )
    ]


def _quoted(table: tuple[str, str]) -> str:
    return ".".join(map(quoted_name, table))
