"""Throwaway database servers: each in a directory of its own, none outlives the process that started it."""
