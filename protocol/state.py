"""Connector state: JSON that only the connector understands, kept by the runtime through RFC 7396 merge patches."""

from __future__ import annotations

from tidemark.protocol.messages import Json


def merge_patch(target: Json, patch: Json) -> Json:
    """Applies ``patch`` to ``target`` (RFC 7396, section 2) without changing either.

    Null removes a member, objects merge member by member, anything else replaces.
    """
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged


def difference(old: Json, new: Json) -> Json | None:
    """The merge patch that turns ``old`` into ``new``, or None where no patch can (RFC 7396 cannot write a null).

    Patches are not closed under composition (removing a member and then setting it merges differently from setting
    it), so what several checkpoints did is written down as the difference of the states, not as their patches joined.
    """
    if not isinstance(old, dict) or not isinstance(new, dict) or _holds_null(new):
        return None
    patch: dict[str, Json] = {name: None for name in old if name not in new}
    for name, value in new.items():
        if name not in old:
            patch[name] = value
        elif not _same(old[name], value):
            both_objects = isinstance(old[name], dict) and isinstance(value, dict)
            patch[name] = difference(old[name], value) if both_objects else value
    return patch


def _same(old: Json, new: Json) -> bool:
    """Whether two values are the same JSON. In Python ``True == 1 == 1.0``, which are three different texts."""
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() == new.keys() and all(_same(part, new[name]) for name, part in old.items())
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(_same, old, new))
    return type(old) is type(new) and bool(old == new)


def _holds_null(value: Json) -> bool:
    """Whether an object inside ``value`` has a null member; arrays are replaced whole, so theirs do no harm."""
    return isinstance(value, dict) and any(part is None or _holds_null(part) for part in value.values())
