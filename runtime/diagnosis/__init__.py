"""Looks at everything that a capture consists of and needs: for ``tidemark check`` and ``tidemark doctor``."""
