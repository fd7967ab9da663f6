"""Codes of Spark: the source, and the tables kept from a log."""

from __future__ import annotations

from tidemark.protocol.error_codes import manual, retry

CODES = (
    manual(
        "TM-SPK-001",
        "Spark needs Java 17 or later",
        "Install a Java 17 or 21 runtime (openjdk-17-jre-headless), and let JAVA_HOME or PATH point to it.",
    ),
    manual(
        "TM-SPK-002",
        "PySpark or deltalake is missing, or its version is unsupported",
        "Run pip install 'tidemark[spark]': it installs pyspark 4.0 to 4.3, and deltalake 1.6.6 or later.",
    ),
    manual(
        "TM-SPK-003",
        "An option of the Spark source is missing or wrong",
        "Options: path, table, startingOffset (earliest, latest, an offset, a time), endingOffset, "
        "maxEventsPerBatch, maxBytesPerBatch, minPartitions; or state (events, current), asOf, warehouse.",
    ),
    manual(
        "TM-SPK-004",
        "The change log has no such table",
        "Write the table as schema.table, with the source's case. A table appears in the log with its first event: "
        "tidemark status lists the tables.",
    ),
    manual(
        "TM-SPK-005",
        "A column changed to a type that its values cannot be cast to",
        "For a read, give the reader a schema with a type that both have, or read the two parts by offsets. For a kept "
        "table, move its directory away: it is rebuilt with the newest schema.",
    ),
    manual(
        "TM-SPK-006",
        "An offset is not in the change log",
        "The log was replaced, or is not the one that this query read before. Give the right path, or start with a new "
        "checkpoint.",
    ),
    manual(
        "TM-SPK-007",
        "A table without a key has no current state",
        "Keep its history instead, or give it a key: a primary key in the source, or key in its resource config.",
    ),
    # TM-SPK-008 is retired: the capture file has only kinds and formats of tables that there are.
    manual(
        "TM-SPK-009",
        "The directory holds a table that was not kept from this change log",
        "Choose another warehouse, or move the named directory away.",
    ),
    retry(
        "TM-SPK-010",
        "Another process writes the same table",
        "Run one materialize per warehouse at a time, and one tidemark log export per log. Nothing was lost or applied "
        "twice.",
    ),
    manual(
        "TM-SPK-011",
        "A table format cannot hold these column names",
        "Only logs of version 2 have such columns. Have the table read again from the start: tidemark backfill FILE "
        "--table TABLE --truncate. The log then stores them under other names.",
    ),
    manual(
        "TM-SPK-012",
        "The key of a table changed",
        "Only logs of version 2 have two keys for a table's rows. Have the table read again from the start: tidemark "
        "backfill FILE --table TABLE --truncate. Its events then have the new key.",
    ),
    retry(
        "TM-SPK-013",
        "Spark failed",
        "The message holds the first line of Spark's error, or the exception that Python raised on an executor; Spark's "
        "log says more. What was applied stays applied, and the next run resumes from there.",
    ),
    manual(
        "TM-SPK-015",
        "A Delta table cannot be read or written",
        "Check the named directory: its space, permissions and files. If the table is damaged, move the directory away: "
        "the next run rebuilds it from the log.",
    ),
    manual(
        "TM-SPK-016",
        "Another program changed rows or columns of a kept table",
        "Run tidemark materialize FILE --rebuild TABLE to rebuild the table from the log. Or undo the change with a "
        "Delta RESTORE to the version before it. Kept tables are for reading; compacting them is allowed.",
    ),
    manual(
        "TM-SPK-017",
        "A kept table is a copy of another one",
        "Move the named directory away, or run tidemark materialize FILE --rebuild TABLE.",
    ),
    manual(
        "TM-SPK-018",
        "A kept table uses a Delta feature that tidemark does not write",
        "Give the Spark session Delta Lake for Spark, which then writes the table (see docs/spark.md). Or let the "
        "program that added deletion vectors purge them (REORG TABLE … APPLY (PURGE)) and turn the feature off. Or run "
        "tidemark materialize FILE --rebuild TABLE.",
    ),
    manual(
        "TM-SPK-019",
        "The columns of a table changed under a query",
        "Start the query again with its checkpoint: it resumes with the newest schema. To choose the columns yourself, "
        "give the reader a schema (.schema(…)): it then reads those columns, whatever changes.",
    ),
    manual(
        "TM-SPK-020",
        "An executor lacks what the work needs",
        "Every worker needs the driver's version of Python, with pyarrow 18 or later and tidemark. Install them there, "
        "and let PYSPARK_PYTHON or spark.pyspark.python point to that Python. tidemark itself may come with --py-files.",
    ),
    manual(
        "TM-SPK-021",
        "The active Spark session differs from the requested one",
        "Stop that session first, or leave out the master and the setting to run the job on it as it is.",
    ),
    manual(
        "TM-SPK-022",
        "The Spark session has no engine that merges into tables",
        "Give the session Delta Lake for its version of Spark with the settings spark.jars.packages, "
        "spark.sql.extensions and spark.sql.catalog.spark_catalog (see docs/spark.md). Or leave --way sql out: the "
        "other ways need no engine.",
    ),
    manual(
        "TM-SPK-023",
        "The Spark session cannot be opened",
        "Correct the master, the setting or the variable that the message names: --master and --conf, spark.master and "
        "spark.conf in the capture file, Spark's own configuration, or the environment. LOG_LEVEL=debug shows all that "
        "Java says. Nothing was changed.",
    ),
    manual(
        "TM-SPK-024",
        "A table changed at the source, and on_schema_change is stop",
        "Build the table again with the new columns: tidemark materialize FILE --rebuild TABLE. Or set on_schema_change "
        "to evolve in the capture file, and run again with --retry TABLE.",
    ),
    manual(
        "TM-SPK-025",
        "The Spark session has no connector for an object store",
        "Only the session's own engine needs one, for --way sql and for tables with deletion vectors. Give the session "
        "Hadoop's connector: for s3:// the package org.apache.hadoop:hadoop-aws in the version of Spark's Hadoop, by "
        "spark.jars.packages, and its settings spark.hadoop.fs.s3a.… (see docs/spark.md). Or leave --way sql out.",
    ),
    retry(
        "TM-SPK-026",
        "The object store of a kept table does not answer",
        "Check that its endpoint can be reached from here and from the executors. It was asked again for a minute. What "
        "was applied stays applied, and the next run resumes from there.",
    ),
    manual(
        "TM-SPK-027",
        "The events of a table cannot be one Delta table without a copy",
        "A Delta table has one name and one type for each column, and the segments have others from before the table "
        "changed. Read the table with tidemark (the tidemark source in Spark, or tidemark tail), or keep its history: "
        "kinds: [history] under spark.tables in the capture file. Or have the table read again: tidemark backfill FILE "
        "--table TABLE. Its new generation can be exported once it is whole.",
    ),
)
