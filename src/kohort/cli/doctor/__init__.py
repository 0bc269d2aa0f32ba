"""`kohort doctor`: what is installed, what the cluster offers, and what becomes of each group with KIP-848."""

from kohort.cli.doctor.doctor_run import register

__all__ = ["register"]
