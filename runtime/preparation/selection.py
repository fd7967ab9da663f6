"""Selects tables: the discovered ones that the capture file's ``tables`` choose."""

from __future__ import annotations

import re
from collections.abc import Collection as Container
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from tidemark.protocol.capture_file import TableEntry
from tidemark.protocol.errors import UsageError
from tidemark.protocol.messages import (
    KEY_COLUMNS,
    Binding,
    Collection,
    DiscoveredBinding,
    Inference,
    JournalTemplate,
    Projection,
    SpecResponse,
)
from tidemark.protocol.text.nearest_names import near
from tidemark.protocol.text.pointers import column_of, pointer
from tidemark.runtime.preparation.table_options import taken_options


@dataclass(frozen=True, slots=True)
class SelectedTable:
    """A table that is captured.

    Attributes:
        name: Its resource path joined with a dot, as capture files and status lines call it.
        binding: Its binding for the connector.
        text: Columns that the change log keeps as text.
        key: Columns that identify its rows, if any do. They need not be the collection's key.
    """

    name: str
    binding: Binding
    text: tuple[str, ...] = ()
    key: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Selection:
    """The tables in the order of their bindings, and warnings about tables that are left out.

    ``found`` are the tables as they were discovered, now or when the capture was last opened.
    """

    tables: list[SelectedTable]
    warnings: list[str]
    found: list[DiscoveredBinding]


def select(
    spec: SpecResponse,
    discovered: Sequence[DiscoveredBinding],
    entries: Sequence[TableEntry] | None,
    known: Sequence[DiscoveredBinding] = (),
    reasons: Mapping[str, str] = {},
) -> Selection:
    """Chooses the discovered tables that ``entries`` name; all of them when there is no such entry.

    An entry that names a table has precedence over a pattern that covers it. A disabled table that only a pattern
    covers is skipped with a warning. An entry that names a disabled table must give its key, or an option of the
    connector's own; the connector checks whether that is enough. Of two tables of one collection, the one that is
    named is chosen, or the one that was captured before, or the first.

    Args:
        known: The capture's tables when it was last opened. They are chosen even if they are not discovered now, are
            disabled, or no longer fit the options of their entry: the connector decides about them.
        reasons: Why tables are disabled, by recommended name, as far as the connector gives reasons.

    Raises:
        UsageError: ``TM-CFG-004`` naming every entry without a table, ``TM-CFG-005`` an option that does not fit.
    """
    before = {tuple(resource_path(spec, binding)): binding for binding in known}
    present = {tuple(resource_path(spec, binding)): binding for binding in discovered}
    usable = {path for path, binding in present.items() if not binding.disable}
    away = {path: binding for path, binding in before.items() if path not in usable}
    found, twins = _by_name({**present, **away}, before.keys())
    gone = {".".join(path) for path in away}
    named: dict[str, TableEntry] = {}
    covered: dict[str, TableEntry] = {}
    problems: list[str] = []
    warnings: list[str] = []
    for entry in [TableEntry(table="*")] if entries is None else entries:
        if entry.is_pattern:
            names = [name for name in found if _matches(entry.table, name)]
            if not names:
                problems.append(f"the pattern {entry.table} matches no table")
            for name in names:
                covered.setdefault(name, entry)
        elif entry.table in named:
            problems.append(f"{entry.table} is listed twice")
        elif entry.table not in found:
            problems.append(f"there is no table {entry.table}{near(entry.table, list(found))}")
        elif found[entry.table].disable and not (entry.key or entry.others):
            problems.append(
                f"the connector can capture {entry.table} only if its entry says how, for example with a key"
            )
        else:
            named[entry.table] = entry
    if not found:
        raise UsageError(
            "TM-CFG-004",
            "tables: the connector sees no table" + "".join(f"; {problem}" for problem in problems),
            remedy="Run 'tidemark check FILE': it says what the source's account may not see, and the grants.",
        )
    if problems:
        raise UsageError("TM-CFG-004", "tables: " + "; ".join(problems))
    for name in covered:
        if found[name].disable and name not in named:
            reason = reasons.get(found[name].recommended_name, "the connector reports it as disabled")
            warnings.append(f"{name} is left out: {reason}")
    chosen = {name: entry for name, entry in covered.items() if not found[name].disable} | named
    if not chosen:
        raise UsageError("TM-CFG-004", "tables: the connector found no table that can be captured")
    if ambiguous := sorted(twins.keys() & named.keys()):
        raise _more_than_one(ambiguous)
    for name in sorted(twins.keys() & chosen.keys()):
        warnings += [f"{path} is left out: another table has the name {name}" for path in twins[name]]
    known_names = {".".join(path) for path in before}
    collections: dict[str, str] = {}
    for name in sorted(chosen, key=lambda name: (name not in named, name not in known_names, name)):
        collection = found[name].recommended_name
        if (other := collections.setdefault(collection, name)) == name:
            continue
        if name in named:
            raise _more_than_one([collection])
        del chosen[name]
        warnings.append(f"{name} is left out: {other} already has the collection {collection}")
    warnings += [
        (f"{name} can no longer be captured: it is missing or has changed") for name in sorted(gone & chosen.keys())
    ]
    tables = [_selected(spec, name, found[name], chosen[name], warnings, known=name in gone) for name in sorted(chosen)]
    return Selection(tables, warnings, [found[name] for name in sorted(chosen)])


def _by_name(
    found: Mapping[tuple[str, ...], DiscoveredBinding], before: Container[tuple[str, ...]]
) -> tuple[dict[str, DiscoveredBinding], dict[str, list[str]]]:
    """Tables by name, and the paths of those with the same name: ``a.b`` in schema ``c`` and ``b`` in ``c.a``."""
    named: dict[str, DiscoveredBinding] = {}
    twins: dict[str, list[str]] = {}
    for path in sorted(found, key=lambda path: (path not in before, path)):
        name = ".".join(path)
        if name in named:
            twins.setdefault(name, []).append("/".join(path))
        else:
            named[name] = found[path]
    return named, twins


def _more_than_one(names: Sequence[str]) -> UsageError:
    return UsageError(
        "TM-CFG-004",
        f"tables: more than one table has the name {', '.join(names)}",
        remedy="Rename one of them in the source, or list other tables in the capture file's tables.",
    )


def resource_path(spec: SpecResponse, binding: DiscoveredBinding) -> list[str]:
    """The path that identifies a table: as given, or by the connector's pointers into its resource configuration."""
    if binding.resource_path:
        return binding.resource_path
    parts = [binding.resource_config.get(column_of(place) or "") for place in spec.resource_path_pointers]
    present = [str(part) for part in parts if part is not None]
    return present or binding.recommended_name.split("/")


_LIKE_A_BACKFILL = re.compile(r"\.(?=v[0-9]+$)")


def state_key(path: Sequence[str], backfill: int = 0) -> str:
    """The binding's identity in the connector's state: a new backfill has a new one, and so no state.

    It is the path joined by ``/``, characters outside ``[A-Za-z0-9-_+.=]`` percent-encoded, and ``.v<N>`` for backfill
    N > 0. In a name with such an end the point is encoded, too: ``users.v1`` is not backfill 1 of ``users``.
    """
    encoded = quote("/".join(path), safe="-_+.=").replace("~", "%7E")  # quote never encodes a tilde
    encoded = _LIKE_A_BACKFILL.sub("%2E", encoded)
    return f"{encoded}.v{backfill}" if backfill else encoded


def _matches(pattern: str, name: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name, re.DOTALL) is not None


def _selected(
    spec: SpecResponse, name: str, found: DiscoveredBinding, entry: TableEntry, warnings: list[str], *, known: bool
) -> SelectedTable:
    key = [pointer(column) for column in entry.key] or found.key
    try:
        _check_columns(name, found, entry, key)
    except UsageError as mistake:
        if not known:
            raise
        warnings.append(mistake.message)
    path = resource_path(spec, found)
    collection = Collection(
        name=found.recommended_name,
        key=key,
        write_schema=_texts(_without(found.document_schema, entry.exclude), [*entry.hash, *entry.text_columns]),
        projections=_projections(found.document_schema, key),
        partition_template=JournalTemplate(name=template_name(found.recommended_name)),
    )
    options = entry.options
    offered = taken_options(spec)
    if entry.text and offered is not None and "on_bad_value" not in offered:
        del options["on_bad_value"]  # The change log keeps the columns as text, whatever the connector sends.
    binding = Binding(
        resource_config={**found.resource_config, **options},
        resource_path=path,
        collection=collection,
        backfill=entry.backfill,
        state_key=state_key(path, entry.backfill),
    )
    return SelectedTable(name, binding, tuple(entry.text_columns), _key_columns(found, key))


def _key_columns(found: DiscoveredBinding, key: Sequence[str]) -> tuple[str, ...]:
    columns = [column_of(place) for place in key]
    if all(columns):
        return tuple(column for column in columns if column is not None)
    # A key inside _meta is no column of the table. The table may still have key columns that no collection can have.
    named = found.document_schema.get(KEY_COLUMNS)
    return tuple(map(str, named)) if isinstance(named, list) else ()


def _projections(schema: dict[str, Any], key: Sequence[str]) -> list[Projection]:
    """A projection for each part of the key, in the order of their names, as Flow's connectors require."""
    properties = schema.get("properties")
    made = []
    for place in sorted(set(key)):
        part = properties.get(column_of(place)) if isinstance(properties, dict) else None
        types = part.get("type", []) if isinstance(part, dict) else []
        inference = Inference(types=[types] if isinstance(types, str) else types)
        made.append(Projection(ptr=place, field=place[1:], is_primary_key=True, inference=inference))
    return made


def template_name(name: str) -> str:
    """The name of a template, as Flow's connectors require: 4 to 512 characters of a limited set."""
    return f"tidemark/{quote(name, safe='/-_+.=')}"[:512]


def _check_columns(name: str, found: DiscoveredBinding, entry: TableEntry, key: Sequence[str]) -> None:
    problems = []
    columns = found.document_schema.get("properties")
    # A pattern's columns need not be in every table that it covers.
    if isinstance(columns, dict) and not entry.is_pattern:
        policies = entry.on_bad_value if isinstance(entry.on_bad_value, dict) else {}
        named = {"exclude": entry.exclude, "hash": entry.hash, "key": entry.key, "text": entry.text}
        for option, given in {**named, "on_bad_value": list(policies)}.items():
            for column in given:
                if column not in columns:
                    problems.append(f"{option}: there is no column {column}{near(column, list(columns))}")
    excluded = [column for column in entry.exclude if pointer(column) in key]
    if excluded:
        problems.append(f"exclude: {', '.join(excluded)} is part of the key")
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


def _texts(schema: dict[str, Any], columns: Sequence[str]) -> dict[str, Any]:
    """A document's schema with some of its columns as text: hashes, and columns with the policy ``text``."""
    known = schema.get("properties")
    if not columns or not isinstance(known, dict):
        return schema
    texts: dict[str, Any] = {name: {"type": ["string", "null"]} for name in columns if name in known}
    return {**schema, "properties": {**known, **texts}}
