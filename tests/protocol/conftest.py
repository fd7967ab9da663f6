"""Settings of the property tests."""

from hypothesis import settings

# On a machine that others use too, any single example may take long: the whole test has a timeout, and that is enough.
settings.register_profile("tidemark", deadline=None)
settings.load_profile("tidemark")
