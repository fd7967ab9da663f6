"""Servers for tests, benchmarks and the demo: databases, object stores, clusters of Spark, and what breaks networks.

Each is a real one. What a machine lacks is said by ``missing``. Modules here may change in any release.
"""

from __future__ import annotations

from tidemark.protocol.error_codes import register
from tidemark.testing.error_codes import CODES

register(CODES)
