"""``make test-fast``: what needs no server but one PostgreSQL, no Spark, and none of the tests that take long.

What it leaves out is of the same rooms as what it runs, and ``make test`` runs all.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

FAST = os.environ.get("TIDEMARK_TEST_FAST") == "1"

_SLOW = ("slow", "spark", "docker")
"""Markers."""

SLOW_ROOMS = (
    "tests/end_to_end/",
    "tests/workload/",
    "tests/servers/",
    "tests/mutants/",
    "tests/demo/servers/",
    "tests/backfill/test_mutants.py",
    "tests/house/test_remedies.py",
    "tests/house/test_warm_command.py",
    "tests/runtime/test_exactly_once.py",
    "tests/runtime/test_foreign_connectors.py",
    "tests/runtime/changelog/generations/",
    "tests/runtime/changelog/test_memory.py",
    "tests/runtime/commands/test_output.py",
    "tests/runtime/page/test_chromium.py",
    "tests/conformance/test_set_aside.py",
    "tests/captures/engine/test_reconnection.py",
    "tests/captures/readers/test_memory.py",
    "tests/captures/readers/test_many_readers.py",
    "tests/captures/scheduling/test_page_scan_captures.py",
    "tests/captures/readers/test_reader_process.py",
    "tests/captures/postgres/server/",
    "tests/captures/postgres/tables_that_change/",
    "tests/captures/postgres/log/test_broken_streams.py",
    "tests/captures/postgres/tables/test_altered_in_backfill.py",
)
"""Each test of these starts servers or several processes, fills memory, tries a rule thousands of times, or waits for
what a server does at times."""

HEAVY_TESTS = (
    "tests/runtime/changelog/test_fencing.py::test_two_processes",
    "tests/runtime/changelog/test_round_trip.py::test_blocks_and_row_groups_do_not_show",
    "tests/runtime/changelog/test_segments.py::test_keys_without_gaps_have_no_jumps",
    "tests/runtime/changelog/test_segments.py::test_ranges_that_come_in_turn_have_runs_and_row_groups_of_their_own",
    "tests/runtime/changelog/test_writer.py::test_a_full_disk_is_an_error_and_the_log_stays_whole",
    "tests/runtime/changelog/test_writer.py::test_many_collections_in_one_commit_keep_few_files_open",
    "tests/runtime/sessions/test_session.py::test_a_line_just_under_the_limit",
    "tests/runtime/sessions/test_interruption.py::test_a_connector_that_hangs_does_not_keep_a_command_from_ending_in_time",
    "tests/runtime/steering/test_steering.py::test_an_edit_made_while_the_source_is_away_is_used_once_it_is_back",
    "tests/spark_sink/formats/test_maintenance.py::test_a_long_log_is_shortened_and_costs_no_more",
    "tests/spark_sink/test_output.py::test_the_last_line_reads_the_table_where_it_is_pasted",
    "tests/conformance/test_backfill.py::test_rows_that_change_while_they_are_read",
    "tests/conformance/test_log.py::test_a_large_transaction_needs_little_memory",
    "tests/captures/engine/test_capture.py::test_an_unchanged_large_value_is_read_again_until_it_is_whole",
    "tests/captures/engine/test_commands.py::test_what_cannot_be_read_again_does_no_harm_to_its_table",
    "tests/captures/engine/test_failing_tables.py::test_a_locked_table_does_not_hold_up_the_log",
    "tests/captures/engine/test_session.py::test_a_slot_in_use_names_who_uses_it",
    "tests/captures/process/test_plan.py::test_a_plan_writes_nothing_to_postgres",
    "tests/captures/postgres/tables/test_counted_scans.py::test_a_transaction_that_writes_by_savepoints",
    "tests/captures/postgres/chunks/test_fences.py::test_fences_hold_under_concurrent_commits",
    "tests/captures/postgres/chunks/test_table_shapes.py::test_1600_columns",
    "tests/captures/postgres/chunks/test_table_shapes.py::test_a_row_that_no_line_can_hold",
    "tests/captures/postgres/chunks/test_table_shapes.py::test_values_of_16_megabytes_and_of_none",
    "tests/captures/postgres/chunks/test_waiting_commits.py::test_a_table_without_a_key_waits_for_them",
    "tests/captures/postgres/log/test_log_contents.py::test_a_transaction_that_is_larger_than_what_is_read_at_once",
    "tests/captures/postgres/tables/test_tables_away.py::test_a_table_that_is_away_for_a_moment_is_not_set_aside",
    "tests/captures/postgres/tables/test_tables_away.py::test_the_same_table_goes_on_where_it_stood",
    "tests/captures/postgres/tables/test_watched_tables.py::test_a_table_that_is_published_no_more_and_then_again",
    "tests/captures/postgres/values/test_bad_values.py::test_a_row_that_no_line_can_hold",
    "tests/captures/postgres/values/test_bad_values.py::test_old_rows_that_no_line_can_hold",
)
"""Each takes more than a second of a processor, for rows of many megabytes or for many of them, or waits for more than
five; their rooms have others."""

_SERVERS = {"database", "any_database", "each_database", "engine", "postgres", "any_postgres"}
"""Fixtures of tests that need the server."""

_CASES = 3
"""Of a test with more parameters than these that needs the server: as tests are shuffled, other ones each run."""

_OTHERS = ("mariadb", "mysql", "oldest")
"""How fixtures and parameters begin that stand for other servers."""


def is_left_out(item: pytest.Item) -> bool:
    """Whether ``make test-fast`` is to do without a test."""
    spec = getattr(item, "callspec", None)
    named = [*getattr(item, "fixturenames", ()), *(spec.params.values() if spec else ())]
    return (
        any(item.get_closest_marker(name) for name in _SLOW)
        or item.nodeid.startswith(SLOW_ROOMS)
        or item.nodeid.partition("[")[0] in HEAVY_TESTS
        or any(name.startswith(_OTHERS) for name in named if isinstance(name, str))
    )


def kept(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """What ``make test-fast`` runs: the same in every process of a run."""
    by_test: dict[str, list[pytest.Item]] = {}
    for item in items:
        if not is_left_out(item):
            by_test.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return [item for cases in by_test.values() for item in (cases[:_CASES] if _needs_server(cases[0]) else cases)]


def _needs_server(item: pytest.Item) -> bool:
    return not _SERVERS.isdisjoint(getattr(item, "fixturenames", ()))
