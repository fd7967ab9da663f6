"""What a report says, in the words that ``tidemark status`` and the page have in common."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from tidemark.protocol.error_codes import REGISTERED
from tidemark.runtime.progress.liveness import time_of
from tidemark.runtime.progress.quantities import ago, duration, size


def lag_in_words(report: dict[str, Any]) -> str:
    """How far the capture is behind its source; ``unknown`` is not 0."""
    if report["caught_up"]:
        return "0 s, caught up"
    seconds = report["lag_seconds"]
    return "unknown" if seconds is None else duration(seconds)


def as_of_in_words(retained: dict[str, Any], now: datetime) -> str:
    """When the source retained this, where it is not known what it retains now; empty where that is known."""
    then = time_of(retained["as_of"])
    known = retained["bytes"] is not None or retained["by"]
    return "" if then is None or not known else f"{duration((now - then).total_seconds())} ago; unknown since then"


def limit_in_words(retained: dict[str, Any]) -> str:
    """At how much retained log the source drops the position, and when that is: it follows the size."""
    if retained["limit"] is None:
        return ", without a limit"
    left = retained["seconds_left"]
    forecast = "" if left is None else f", at this rate in {duration(left)}"
    return f"; its limit is {size(retained['limit'])}{forecast}"


def when_in_words(error: dict[str, Any], now: datetime) -> str:
    """When an error was last told, since when, and whether it is resolved."""
    last, since, passed = (time_of(error.get(name)) for name in ("time", "since", "passed"))
    words = f"{duration((now - last).total_seconds())} ago" if last else ""
    if passed is not None:
        return f"{words}, now resolved"
    return f"{words}, since {duration((now - since).total_seconds())}" if since and since != last else words


def behind_in_words(table: dict[str, Any]) -> str:
    """How far a table in Spark is behind the log."""
    behind = table["behind_seconds"]
    return f"{duration(behind)} behind the log" if behind else "has all of the log"


def consumer_in_words(consumer: dict[str, Any], now: datetime) -> str:
    """How far a consumer of the log is behind it, and when it said so."""
    since, seen = time_of(consumer["since"]), time_of(consumer["seen"])
    events = "1 event" if consumer["behind"] == 1 else f"{consumer['behind']:,} events"
    words = f"{events} behind the log" if consumer["behind"] else "has all of the log"
    if since is not None:
        words += f" for {duration((now - since).total_seconds())}"
    if consumer["lost"]:
        words += f", {consumer['lost']:,} of them not kept any more"
    return words if seen is None else f"{words}; seen {ago((now - seen).total_seconds())}"


def backfill_in_words(figures: dict[str, Any]) -> tuple[str, str, str, str]:
    """Rows read, estimated rows, time left, and the state of one table's backfill."""
    if "rows_done" not in figures:
        return "", "", "", ""
    estimated = figures.get("rows_estimated")
    left = figures.get("seconds_left")
    return (
        f"{figures['rows_done']:,}",
        "" if estimated is None else f"{estimated:,}",
        "" if left is None else duration(left),
        _with_reason(state_in_words(figures), figures),
    )


def state_in_words(figures: dict[str, Any]) -> str:
    """The state of a table's backfill alone; empty where nothing is known of one."""
    if "rows_done" not in figures:
        return ""
    state = str(figures.get("state") or ("done" if figures.get("done") else "running")).replace("_", " ")
    return "done; paused" if state == "done" and figures.get("paused") else state


def _with_reason(state: str, figures: dict[str, Any]) -> str:
    if figures.get("error"):
        return f"{state}: {figures['error']}"
    if figures.get("dropped"):
        return f"{state}; a command failed"
    if not figures.get("waits_for"):
        return state
    return f"{state} for {figures['waits_for']}" if state == "waiting" else f"{state}; verify waits"


def verified_in_words(found: dict[str, dict[str, Any]], now: datetime) -> Iterator[str]:
    """What verifications have found: tables whose rows differ, each by itself; the others together."""
    equal = []
    for name, one in found.items():
        ago = (now - datetime.fromisoformat(one["time"])).total_seconds()
        differ = [f"{one['different']:,} rows of the log"] if one["different"] else []
        differ += [f"{one['different_in_spark']:,} in Spark"] if one["different_in_spark"] else []
        if differ and one["repaired"]:
            yield f"verified {name}, {duration(ago)} ago: {' and '.join(differ)} differed, and were read again"
        elif differ:
            yield f"verified {name}, {duration(ago)} ago: {' and '.join(differ)} differ from the source"
        else:
            equal.append(ago)
    if equal:
        tables = "1 table" if len(equal) == 1 else f"{len(equal):,} tables"
        yield f"verified {tables}, the first {duration(max(equal))} ago: equal"


def unverified(verification: dict[str, Any] | None) -> Iterator[tuple[str, str, str]]:
    """What the verifications that a capture file asks for could not compare: what it is, why not, and what to do."""
    if verification is None:
        return
    reasons = {name: lacking["why"] for name, lacking in verification["lacking"].items()}
    in_spark = {name for name, lacking in verification["lacking"].items() if lacking["in_spark"]}
    if verification["failed"]:
        reasons = {"the capture": verification["failed"]} | reasons
    for name, why in reasons.items():
        code = REGISTERED.get(why.partition(":")[0])
        what = f"{name} in Spark" if name in in_spark else name
        yield what, why, code.remedy if code is not None else "It is tried again by itself"


def verification_in_words(verification: dict[str, Any] | None, now: datetime) -> Iterator[str]:
    """The same for people, with the time of the next try."""
    again = None if verification is None else time_of(verification["again"])
    left = 0.0 if again is None else (again - now).total_seconds()
    when = f"tried again in {duration(left)}" if left > 0 else "it is tried again"
    for what, why, remedy in unverified(verification):
        yield f"not verified: {what}: {why}; {when}"
        yield f"         what to do: {remedy}"
