"""Partial updates of JSON columns (``binlog_row_value_options = PARTIAL_JSON``; MySQL's ``Json_diff_vector``).

Instead of the new value the log has a list of changes to the old one: an operation, a path, and a value.
"""

from __future__ import annotations

import json
import re

from tidemark.captures.mysql.terms.event_bytes import lenenc
from tidemark.captures.mysql.values.json_binary import Tree, read_tree

_REPLACE, _INSERT, _REMOVE = range(3)

_LEG = re.compile(r'\.("(?:[^"\\]|\\.)*"|[^.\[]+)|\[(\d+)\]')


def apply_changes(tree: Tree, changes: bytes) -> Tree:
    """The value after the changes. Raises ValueError, LookupError or struct.error when they do not fit."""
    at = 0
    while at < len(changes):
        operation = changes[at]
        size, start = lenenc(changes, at + 1)
        at = start + size
        path = _legs(changes[start:at].decode("latin-1"))
        value: Tree = "null"
        if operation != _REMOVE:
            size, start = lenenc(changes, at)
            at = start + size
            value = read_tree(changes[start:at])
        tree = _changed(tree, operation, path, value)
    return tree


def _legs(path: str) -> list[str | int]:
    """The steps of a path: member names and array positions."""
    legs: list[str | int] = []
    at = 1
    if not path.startswith("$"):
        raise ValueError("not a path")
    while at < len(path):
        match = _LEG.match(path, at)
        if match is None:
            raise ValueError("not a path")
        at = match.end()
        name, place = match.groups()
        if place is not None:
            legs.append(int(place))
        elif name.startswith('"'):
            text: str = json.loads(name.encode("latin-1"))
            legs.append(text.encode().decode("latin-1"))
        else:
            legs.append(name)
    return legs


def _changed(tree: Tree, operation: int, path: list[str | int], value: Tree) -> Tree:
    if operation not in (_REPLACE, _INSERT, _REMOVE):
        raise ValueError("an unknown operation")
    if not path:
        if operation != _REPLACE:
            raise ValueError("the whole value can only be replaced")
        return value
    parent = tree
    for leg in path[:-1]:
        parent = _child(parent, leg)
    last = path[-1]
    if operation != _INSERT:
        _child(parent, last)  # Raises if there is none.
    if isinstance(parent, dict) and isinstance(last, str):
        if operation == _REMOVE:
            del parent[last]
        else:
            parent[last] = value
        if operation == _INSERT:
            # The server keeps members by the length of their names, then by their bytes.
            members = sorted(parent.items(), key=lambda member: (len(member[0]), member[0]))
            parent.clear()
            parent.update(members)
    elif isinstance(parent, list) and isinstance(last, int):
        # A slice takes the place of one element, or of none.
        parent[last : last + (operation != _INSERT)] = [] if operation == _REMOVE else [value]
    else:
        raise ValueError("a path that does not match the value")
    return tree


def _child(parent: Tree, leg: str | int) -> Tree:
    if isinstance(parent, dict) and isinstance(leg, str):
        return parent[leg]
    if isinstance(parent, list) and isinstance(leg, int):
        return parent[leg]
    raise ValueError("a path that does not match the value")
