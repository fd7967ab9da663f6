"""What the engine asks of a database. The engine owns interleaving, windows, checkpoints, acknowledgement and
resumption; a database owns SQL, wire formats and types.
"""
