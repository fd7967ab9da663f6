"""Hypothesis profile ``deep``: many more tables of random types, another set in each run.

::

    pytest tests/captures/postgres/values/test_generative_types.py --hypothesis-profile=deep --timeout=0
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from hypothesis import settings

from tests.captures.postgres.encoded_databases import InEncoding, encoded_database
from tidemark.testing.servers.postgres import Database, Postgres

settings.register_profile("deep", max_examples=50_000, deadline=None, derandomize=False, database=None)


@pytest.fixture
def in_encoding(database: Database, postgres: Postgres) -> Iterator[InEncoding]:
    """Makes a database in an encoding."""
    with ExitStack() as made:
        yield lambda encoding: made.enter_context(encoded_database(postgres, f"{database.name}_other", encoding))
