"""Heartbeats that are parked until there is an update of their group: which ones, how long, when they are answered.

Timers, decisions and answers are given to it; it knows no broker.
"""
