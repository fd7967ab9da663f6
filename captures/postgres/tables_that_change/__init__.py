"""Captured tables while they are altered and republished: what the log shows, what is compared, what follows."""
