"""The capture engine, and one package per database that it drives."""
