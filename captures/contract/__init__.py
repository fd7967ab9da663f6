"""The contract between the engine and a database. The engine owns interleaving, windows, checkpoints, acknowledgement
and resumption; a database owns SQL, wire formats and types. The room imports nothing else of captures.
"""
