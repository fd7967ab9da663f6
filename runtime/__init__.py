"""Runs and supervises any capture connector, writes the change log and shows progress: the ``tidemark`` command."""

from __future__ import annotations

from tidemark.protocol.error_codes import register
from tidemark.runtime.error_codes import CODES

register(CODES)
