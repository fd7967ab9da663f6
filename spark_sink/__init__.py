"""Change logs in Spark: the ``tidemark`` data source, and tables kept from a log."""

from __future__ import annotations

from tidemark.protocol.error_codes import register
from tidemark.spark_sink.error_codes import CODES

register(CODES)
