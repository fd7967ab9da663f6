"""Which tables are captured, and how: what the connector discovered × the capture file's ``tables``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from protocol.capture_file import TableEntry
from protocol.errors import UsageError
from protocol.messages import Binding, Collection, DiscoveredBinding, SpecResponse
from protocol.nearest_names import near


@dataclass(frozen=True, slots=True)
class SelectedTable:
    """A table that is captured.

    Attributes:
        name: Its resource path joined with a dot, as capture files and status lines call it.
        binding: What the connector is told of it.
        text: Columns that the change log keeps as text.
    """

    name: str
    binding: Binding
    text: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Selection:
    """The tables in the order of their bindings, and what a person may want to know about those left out."""

    tables: list[SelectedTable]
    warnings: list[str]


def select(
    spec: SpecResponse,
    discovered: Sequence[DiscoveredBinding],
    entries: Sequence[TableEntry] | None,
    reasons: Mapping[str, str] = {},
) -> Selection:
    """Chooses the discovered tables that ``entries`` name; all of them when there is no such entry.

    An entry that names a table wins over a pattern that covers it. A table that the connector disabled is skipped with
    a warning when a pattern covers it; an entry that names it must say how it is captured: by which key, or scan.

    Args:
        reasons: Why tables are disabled, by recommended name, as far as the connector says.

    Raises:
        UsageError: ``TM-CFG-004`` naming every entry without a table, ``TM-CFG-005`` an option that does not fit.
    """
    found = {".".join(resource_path(spec, binding)): binding for binding in discovered}
    named: dict[str, TableEntry] = {}
    covered: dict[str, TableEntry] = {}
    problems: list[str] = []
    warnings: list[str] = []
    for entry in [TableEntry(table="*")] if entries is None else entries:
        if entry.is_pattern:
            names = [name for name in found if _matches(entry.table, name)]
            if not names:
                problems.append(f"the pattern {entry.table} covers no table")
            for name in names:
                covered.setdefault(name, entry)
        elif entry.table in named:
            problems.append(f"{entry.table} stands twice")
        elif entry.table not in found:
            problems.append(f"there is no table {entry.table}{near(entry.table, list(found))}")
        elif found[entry.table].disable and not (entry.key or entry.scan):
            problems.append(f"the connector cannot capture {entry.table} unless its entry gives a key or a scan")
        else:
            named[entry.table] = entry
    if problems:
        raise UsageError("TM-CFG-004", "tables: " + "; ".join(problems))
    for name in covered:
        if found[name].disable and name not in named:
            reason = reasons.get(found[name].recommended_name, "the connector discovered it as disabled")
            warnings.append(f"{name} is left out: {reason}")
    chosen = {name: entry for name, entry in covered.items() if not found[name].disable} | named
    if not chosen:
        raise UsageError("TM-CFG-004", "tables: the connector discovered no table that can be captured")
    _tell_apart(spec, [binding for binding in discovered if ".".join(resource_path(spec, binding)) in chosen])
    tables = [_selected(spec, name, found[name], chosen[name]) for name in sorted(chosen)]
    return Selection(tables, warnings)


def resource_path(spec: SpecResponse, binding: DiscoveredBinding) -> list[str]:
    """The path that identifies a table: as given, or by the connector's pointers into its resource configuration."""
    if binding.resource_path:
        return binding.resource_path
    parts = [binding.resource_config.get(column_of(pointer) or "") for pointer in spec.resource_path_pointers]
    present = [str(part) for part in parts if part is not None]
    return present or binding.recommended_name.split("/")


def _tell_apart(spec: SpecResponse, chosen: Sequence[DiscoveredBinding]) -> None:
    """Refuses two tables under one name, as ``a.b`` in schema ``c`` and ``b`` in schema ``c.a``: one would be lost."""
    names = Counter(".".join(resource_path(spec, binding)) for binding in chosen)
    collections = Counter(binding.recommended_name for binding in chosen)
    if several := sorted(name for name, count in [*names.items(), *collections.items()] if count > 1):
        raise UsageError(
            "TM-CFG-004",
            f"tables: more than one table is called {', '.join(several)}",
            remedy="Rename one of them in the source, or name other tables in the capture file's tables.",
        )


def state_key(path: Sequence[str], backfill: int = 0) -> str:
    """The binding's identity in the connector's state: a new backfill has a new one, and so no state.

    The path joined by ``/``, characters outside ``[A-Za-z0-9-_+.=]`` percent-encoded, ``.v<N>`` for backfill N > 0.
    """
    encoded = quote("/".join(path), safe="-_+.=").replace("~", "%7E")  # quote never encodes a tilde
    return f"{encoded}.v{backfill}" if backfill else encoded


def column_of(pointer: str) -> str | None:
    """The column that a JSON pointer names (RFC 6901); None for one that leads deeper, or nowhere."""
    root, _, name = pointer.partition("/")
    return None if root or not name or "/" in name else name.replace("~1", "/").replace("~0", "~")


def _pointer(name: str) -> str:
    return "/" + name.replace("~", "~0").replace("/", "~1")


def _matches(pattern: str, name: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name, re.DOTALL) is not None


def _selected(spec: SpecResponse, name: str, found: DiscoveredBinding, entry: TableEntry) -> SelectedTable:
    key = [_pointer(column) for column in entry.key] or found.key
    _check_options(spec, name, found, entry, key)
    path = resource_path(spec, found)
    collection = Collection(
        name=found.recommended_name,
        key=key,
        write_schema=_hashed(_without(found.document_schema, entry.exclude), entry.hash),
    )
    binding = Binding(
        resource_config={**found.resource_config, **entry.options},
        resource_path=path,
        collection=collection,
        backfill=entry.backfill,
        state_key=state_key(path, entry.backfill),
    )
    return SelectedTable(name, binding, tuple(entry.text))


def _check_options(
    spec: SpecResponse, name: str, found: DiscoveredBinding, entry: TableEntry, key: Sequence[str]
) -> None:
    accepted = spec.resource_config_schema.get("properties")
    problems = []
    for option in entry.options:
        if isinstance(accepted, dict) and option not in accepted:
            problems.append(f"the connector knows no option {option}")
    columns = found.document_schema.get("properties")
    # A pattern's columns need not be in every table that it covers.
    if isinstance(columns, dict) and not entry.is_pattern:
        for option in ("exclude", "hash", "key", "text"):
            for column in getattr(entry, option):
                if column not in columns:
                    problems.append(f"{option}: there is no column {column}{near(column, list(columns))}")
    excluded = [column for column in entry.exclude if _pointer(column) in key]
    if excluded:
        problems.append(f"exclude: {', '.join(excluded)} belongs to the key")
    if problems:
        raise UsageError("TM-CFG-005", f"tables: {name}: " + "; ".join(problems))


def _without(schema: dict[str, Any], excluded: Sequence[str]) -> dict[str, Any]:
    """A document's schema without some of its columns."""
    columns = schema.get("properties")
    if not excluded or not isinstance(columns, dict):
        return schema
    changed = {**schema, "properties": {name: part for name, part in columns.items() if name not in excluded}}
    required = schema.get("required")
    if isinstance(required, list):
        changed["required"] = [name for name in required if name not in excluded]
    return changed


def _hashed(schema: dict[str, Any], hashed: Sequence[str]) -> dict[str, Any]:
    """A document's schema with some of its columns as the texts that hashes are."""
    columns = schema.get("properties")
    if not hashed or not isinstance(columns, dict):
        return schema
    texts: dict[str, Any] = {name: {"type": ["string", "null"]} for name in hashed if name in columns}
    return {**schema, "properties": {**columns, **texts}}
