"""Statements that change no table's rows, although they may name tables."""

from __future__ import annotations

_OBJECTS = """
    VIEW TRIGGER FUNCTION PROCEDURE EVENT AGGREGATE PACKAGE LIBRARY DEFINER ALGORITHM SQL USER ROLE SERVER DATABASE
    SCHEMA SEQUENCE TABLESPACE LOGFILE UNDO INSTANCE RESOURCE REFERENCE JSON PREPARE CATALOG MATERIALIZED
"""
"""What is created, altered and dropped besides tables and indexes. Views, triggers and routines may begin with the
words of how they are carried out."""

_OTHERS = frozenset(_OBJECTS.split())

OTHER_OBJECTS = {"CREATE": _OTHERS, "ALTER": _OTHERS, "DROP": _OTHERS - {"DATABASE", "SCHEMA"}, "RENAME": {"USER"}}
"""By the verb, the words after it of statements that change no table: they may name some, or use their names."""

_VERBS = """
    GRANT REVOKE SHOW DESCRIBE DESC EXPLAIN HELP USE TABLE HANDLER CHECK CHECKSUM OPTIMIZE FLUSH CACHE KILL LOCK UNLOCK
    INSTALL UNINSTALL PREPARE DEALLOCATE PURGE RESET CHANGE START STOP SHUTDOWN RESTART CLONE BACKUP BINLOG BEGIN COMMIT
    ROLLBACK SAVEPOINT RELEASE XA SIGNAL RESIGNAL GET
"""

NO_TABLES = {"", *_VERBS.split()}
"""Verbs of statements about accounts, the server, sessions and transactions, and of those that read tables or rebuild
them as they are. What they carry out besides, such as the rows of BINLOG, is in the log on its own."""
