"""The command `kohort keda-scaler`: an external scaler for KEDA.

It samples groups, decides how many members each shall have, and answers KEDA's calls.
"""

from kohort.cli.keda_scaler.scaler_run import register

__all__ = ["register"]
