"""Tables that change under a capture: a test for each row of the table in docs/postgres.md."""

import pytest

pytestmark = pytest.mark.heavy
