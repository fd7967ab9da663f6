"""Without any of its rules retention loses something, and the tests find it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.runtime.changelog.generations.mutants import Mutant
from tests.runtime.changelog.retention import test_retention as of
from tidemark.protocol.changelog import log_start, summaries
from tidemark.runtime.changelog.retention import needed, next_start
from tidemark.runtime.changelog.retention.retention import Removal
from tidemark.runtime.changelog.writer import LogWriter

MUTANTS = [
    (Mutant("consumers hold nothing", needed.needed, "in consumers]", "in ()]"), of.test_what_a_consumer_needs_stays),
    (
        Mutant("the newest generation is enough", needed.needed, "known[0].begin", "known[-1].begin"),
        of.test_what_a_table_needs_stays,
    ),
    (Mutant("tables hold nothing", needed.needed, "in captured:", "in ():"), of.test_what_a_table_needs_stays),
    (
        Mutant("one commit too many", next_start.next_start, "numbers[end - 1]", "numbers[min(end, 2)]"),
        of.test_an_age_is_that_of_the_last_event_that_goes,
    ),
    (Mutant("the summary goes, too", Removal.remove, "- file.is_summary", ""), of.test_what_a_table_needs_stays),
    (
        Mutant("commits that are kept go, too", Removal.remove, "start.number - file", "start.number + 5 - file"),
        of.test_what_a_table_needs_stays,
    ),
    (
        Mutant("the start goes back", LogWriter.begin_at, "self.summary.log_start.number < start", "0 < start"),
        of.test_the_start_of_a_log_moves_forward_only,
    ),
    (
        Mutant("an older start counts", log_start.later_start, "<= known.number", "< 0"),
        of.test_the_start_of_a_log_moves_forward_only,
    ),
    (
        Mutant("summaries forget it", summaries.advance, "log_start=start", "log_start=summary.log_start"),
        of.test_what_a_table_needs_stays,
    ),
]


@pytest.mark.drawn(3)
@pytest.mark.parametrize(("mutant", "test"), MUTANTS, ids=[mutant.name for mutant, _ in MUTANTS])
def test_it_is_found(
    mutant: Mutant, test: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant.switch(monkeypatch)
    with pytest.raises((Exception, pytest.fail.Exception)):
        test(tmp_path)
