"""The names of slot and publication if the configuration has none."""

from __future__ import annotations

import hashlib
import re

from tidemark.protocol.messages import JsonObject

WITHOUT_A_NAME = "tidemark"

LONGEST = 63


def default_name(capture: str) -> str:
    """``tidemark_`` and the capture's name, in the characters that a slot may have. No two captures have the same."""
    if not capture:
        return WITHOUT_A_NAME
    fit = re.sub(r"[^a-z0-9_]", "_", capture.lower())
    name = f"{WITHOUT_A_NAME}_{fit}"
    if fit == capture and len(name) <= LONGEST:
        return name
    mark = hashlib.sha256(capture.encode()).hexdigest()[:8]
    return f"{name[: LONGEST - 9]}_{mark}"


def with_names(config: JsonObject, capture: str, state: JsonObject) -> JsonObject:
    """The configuration with ``slot`` and ``publication``, which a capture that has begun takes from ``state``."""
    source = state.get("source")
    source = source if isinstance(source, dict) else {}
    slot = config.get("slot") or source.get("slot") or default_name(capture)
    publication = config.get("publication") or source.get("publication")
    if not publication:
        # Before captures had names at the server, this was the publication of all of them.
        publication = WITHOUT_A_NAME if source.get("slot") else slot
    return {**config, "slot": slot, "publication": publication}
