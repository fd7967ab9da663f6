"""Error codes: what one is, and the codes of the rooms that are imported.

Each room has its codes in a module ``error_codes``, beside what raises them, and registers them when it is imported.
Those that several rooms raise belong to the room on which these stand. A code is stable: it may be retired, never
reused. ``docs/errors.md`` is generated from the codes of all rooms (``python -m tests.house.protocol_documents``), and
tests keep the codes, and what the sources raise, in step.
"""

from __future__ import annotations

from tidemark.protocol.error_codes.model import REGISTERED, ErrorCode, Policy, manual, register, retry
from tidemark.protocol.error_codes.protocol import CODES

__all__ = ["CODES", "REGISTERED", "ErrorCode", "Policy", "manual", "register", "retry"]

register(CODES)
