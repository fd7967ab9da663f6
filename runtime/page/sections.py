"""The sections of the page below the figures: what needs somebody, rereads, tables in Spark, consumers, errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from tidemark.runtime.page.recent_errors import RecentError
from tidemark.runtime.progress.liveness import Liveness
from tidemark.runtime.progress.quantities import duration
from tidemark.runtime.progress.rereads import is_shown, rereads
from tidemark.runtime.status.verdict import needs
from tidemark.runtime.status.words import behind_in_words, unverified

MOST_NEEDS = 20
"""So many are told one by one. Thousands of tables may be set aside for the same reason."""

MOST_ROWS = 200
"""The most rows of any other section."""


def needs_json(report: dict[str, Any], life: Liveness) -> dict[str, Any]:
    """Why somebody is needed, with what happened and what to do."""
    # The last error may be that of a table, which is told with the table.
    of_tables = {(one["error"] or "").partition(":")[0] for one in report["halted"].values()}
    told = {f"an error is not resolved: {code}" for code in of_tables}
    found = [need for need in needs(report, life) if need.text not in told]
    rest = len(found) - MOST_NEEDS
    return {
        "count": len(found),
        "words": f"needs you: {len(found):,}" if found else "nobody is needed",
        "shown": [{"text": need.text, "why": need.why, "remedy": need.remedy} for need in found[:MOST_NEEDS]],
        "more": f"and {rest:,} more: tidemark status has all" if rest > 0 else "",
    }


def rereads_json(report: dict[str, Any], now: datetime) -> list[dict[str, Any]]:
    """The tables that are read again, that wait for it, or that were read again within a day."""
    file = report["file"] or "FILE"
    found = rereads((report["progress"] or {}).get("tables", {}))
    return [
        {
            "name": one.name,
            "state": one.state,
            "tone": {"put off": "bad", "running": "active"}.get(one.state, "good"),
            "causes": list(one.causes(now)),
            "lines": list(one.what_follows(file)),
        }
        for one in found.values()
        if is_shown(one, now)
    ][:MOST_ROWS]


def spark_json(spark: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The tables that Spark keeps: those that are set aside first, then those that are furthest behind."""
    order = sorted(spark.items(), key=lambda item: (not item[1]["set_aside"], -item[1]["behind_seconds"], item[0]))
    return [_kept(name, one) for name, one in order[:MOST_ROWS]]


def _kept(name: str, one: dict[str, Any]) -> dict[str, Any]:
    table, _, kind = name.rpartition(" ")
    aside = one["set_aside"]
    return {
        "name": table,
        "kind": kind,
        "state": "set aside" if aside else behind_in_words(one),
        "tone": "bad" if aside else "idle" if one["behind_seconds"] else "good",
        "events": f"{one['behind_events']:,}",
        "why": aside or "",
        "remedy": one["remedy"] or "",
    }


def consumers_json(consumers: dict[str, dict[str, Any]], now: datetime) -> list[dict[str, Any]]:
    """The consumers that the log knows, as ``tidemark log consumers`` lists them."""
    return [
        {
            "name": name,
            "position": f"{one['position']:,}",
            "behind": f"{one['behind']:,}",
            "waits": "" if one["since"] is None else _ago(one["since"], now),
            "seen": f"{_ago(one['seen'], now)} ago",
            "lost": f"{one['lost']:,} of them are not kept any more" if one["lost"] else "",
        }
        for name, one in list(consumers.items())[:MOST_ROWS]
    ]


def _ago(time: str, now: datetime) -> str:
    return duration((now - datetime.fromisoformat(time)).total_seconds())


def errors_json(errors: Iterable[RecentError], now: datetime) -> list[dict[str, Any]]:
    """The last errors and warnings, the newest first."""
    return [
        {
            "level": one.level,
            "code": one.code,
            "message": one.message,
            "remedy": one.remedy,
            "last": f"{duration(now.timestamp() - one.last)} ago",
            "time": datetime.fromtimestamp(one.last, UTC).isoformat(),
            "count": "once" if one.count == 1 else f"{one.count:,} times",
        }
        for one in errors
    ]


def notes(report: dict[str, Any], unknown: str) -> Iterator[str]:
    """What else there is to know, a line each."""
    if unknown:
        yield f"the change log: {unknown}"
    if report["running"] and (report["progress"] or {}).get("status_time") is None:
        yield "the connector has not said anything yet"
    for what, why, _ in unverified(report["verification"]):
        yield f"not verified: {what}: {why}"
    for why in report["refused"].values():
        yield f"a command failed: {why}"
    for bad in report["bad_commands"]:
        yield f"a command is not carried out: {bad['code']}: {bad['message']}"
    for command in report["commands"]:
        yield f"command {command.get('sequence')} is waiting: {command.get('action')}"
