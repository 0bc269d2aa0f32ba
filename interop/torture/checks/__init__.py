"""Judges of histories: pure functions that yield an anomaly for each promise that was broken."""
