"""A captured table: how it is bound, what must hold of it, its documents, what a scan selects."""
