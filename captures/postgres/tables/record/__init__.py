"""What a captured table depends on: its record, the fingerprint that the state keeps, and what changes of it mean."""
