from __future__ import annotations

import pytest

from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.source.options import SourceOptions
from tidemark.spark_sink.tables.store_place import StorePlace

LOG = {"path": "/log", "table": "public.items"}


def test_the_state_is_asked_for_by_an_option() -> None:
    options = SourceOptions.of({**LOG, "State": "current", "ASOF": "7", "warehouse": "file:///lake"})

    assert (options.state, options.as_of, options.warehouse) == (True, "7", StorePlace("/lake"))
    assert not SourceOptions.of(LOG).state
    assert not SourceOptions.of({**LOG, "state": "events"}).state


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"state": "old"}, "option state is 'old': not events or current"),
        ({"state": "current", "startingOffset": "1"}, "option startingOffset is only for state=events"),
        ({"asOf": "1"}, "option asOf is only for state=current"),
        ({"warehouse": "/lake"}, "option warehouse is only for state=current"),
    ],
)
def test_options_that_do_not_go_together_are_an_error(given: dict[str, str], said: str) -> None:
    with pytest.raises(SparkError, match=said):
        SourceOptions.of({**LOG, **given})
