"""Everything that may happen to a table can be said to people."""

from __future__ import annotations

from tidemark.captures.contract import causes
from tidemark.captures.contract.in_words import IN_WORDS, in_words
from tidemark.captures.contract.table_changes import Cause, Consequence
from tidemark.captures.mysql.tables import table_changes as of_mysql
from tidemark.captures.postgres.tables_that_change import table_changes as of_postgres
from tidemark.captures.scheduling.reread_record import joined


def test_each_change_with_a_consequence_has_words() -> None:
    changes = [*of_postgres.CHANGES, *of_mysql.CHANGES]
    wanted = {change.name for change in changes if change.consequence > Consequence.NOTHING}
    wanted |= {cause.name for cause in vars(causes).values() if isinstance(cause, Cause)}
    assert wanted == IN_WORDS.keys()
    assert [words for words in IN_WORDS.values() if "_" in words or words[-1] == "."] == []


def test_a_message_has_words_and_a_program_the_name() -> None:
    assert in_words("key_order", "id") == "a column of its key has another collation (id)"
    (cause,) = joined(None, [of_postgres.COLUMN_FILLED.cause(["w"])], "0/1A").causes
    assert (cause.name, cause.columns) == ("column_filled", ["w"])
    assert cause.text == "a column was added with values that the log does not have (w) at 0/1A"
    earlier = cause.model_copy(update={"words": ""})
    assert earlier.text == "column_filled (w) at 0/1A"
