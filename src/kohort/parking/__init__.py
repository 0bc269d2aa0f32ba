"""Heartbeats that wait for news of their group: which ones, for how long, and when they are answered.

Timers, decisions and answers are given to it; it knows no broker.
"""
