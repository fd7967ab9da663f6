"""Settings of sessions that others' settings must not change, and that differ by what a session is for."""

from __future__ import annotations

from contextlib import closing

from tests.captures.source_tables import endpoint
from tidemark.captures.postgres.server.config import EndpointConfig
from tidemark.captures.postgres.server.session import ReaderEndpoint, connect, connect_pq, execute_within
from tidemark.testing.servers.postgres import Database

SORTS = "SHOW enable_sort"


def test_rows_are_read_along_an_index_and_questions_may_be_sorted(database: Database) -> None:
    """Without sorting, the server joins the catalogs of thousands of tables row by row."""
    config = EndpointConfig.model_validate(endpoint(database))
    reader = ReaderEndpoint.of(config)
    for session in (connect(config), connect(reader)):
        with closing(session):
            assert session.execute(SORTS).fetchone() == ("on",)
    rows = connect_pq(reader)
    try:
        assert execute_within(rows, SORTS.encode(), 60).get_value(0, 0) == b"off"
    finally:
        rows.finish()
