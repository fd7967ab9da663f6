"""Environment variables by which a runtime tells a connector what the messages have no place for."""

from __future__ import annotations

import os

RUNTIME = "TIDEMARK_RUNTIME"
"""Set by our runtime, so that a connector knows that events unknown to Flow are supported."""

BATCHES = "TIDEMARK_BATCHES"
"""``arrow``: the runtime takes events as batches of columns, too: ``tidemark.protocol.batches``."""

REQUEST = "TIDEMARK_REQUEST"
"""The kind of the first request that a process will be sent: it may import what that takes before the request comes."""

LOG_ID = "TIDEMARK_LOG"
"""The id of the change log that a capture goes into. Set by our runtime."""

STOP_WHEN_CAUGHT_UP = "TIDEMARK_STOP_WHEN_CAUGHT_UP"
"""A connector ends once every backfill is done and the log is read to where the server was."""

KNOWN_STATE = "TIDEMARK_STATE"
"""``validate`` gets the capture's position in it, as JSON of the small members of the state."""

CHECK = "TIDEMARK_CHECK"
"""``validate`` also reports what ``open`` would report. ``running``: while the capture runs."""

RETAINED = "TIDEMARK_RETAINED"
"""``validate`` only tells, by a status line, what log the source retains for the capture, and by lines of the level
error, why the capture could not resume. ``running``: its process exists, and may read the log."""

REMOVE = "TIDEMARK_REMOVE"
"""``validate`` only tells what the capture made at the source, and ``apply`` removes it: see
``tidemark.protocol.answers.removal``."""

PLAN = "TIDEMARK_PLAN"
"""The answer to ``validate`` also has a plan: see ``tidemark.protocol.answers.plan``."""


def is_on(name: str) -> bool:
    """Whether a variable is set, to anything but nothing and 0."""
    return os.environ.get(name, "") not in ("", "0")
