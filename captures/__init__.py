"""The capture engine, and one package per database that it drives."""

from __future__ import annotations

from tidemark.captures.error_codes import CODES
from tidemark.protocol.error_codes import register

register(CODES)
