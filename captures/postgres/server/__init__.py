"""The configured server: sessions on it, its slot and publication, and what must hold of it."""
