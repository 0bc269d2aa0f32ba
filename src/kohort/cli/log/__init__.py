"""The command `kohort log`: files of logs are verified and repaired, logs of groups checked and exported.

`log_files` has the former, `group_logs` the latter.
"""

from kohort.cli.log.log_files import register

__all__ = ["register"]
