"""Makes ``.format("tidemark")`` known to every Spark session in whose Python environment tidemark is installed.

PySpark imports the top-level modules named ``pyspark_…`` when it first looks for a data source, and registers their
``DefaultSource``.
"""

from tidemark.spark_sink.data_source import TidemarkSource as DefaultSource

__all__ = ["DefaultSource"]
