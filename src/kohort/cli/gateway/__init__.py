"""The commands `kohort gateway`, `kohort gateway plan` and `kohort gateway measure`.

The first runs the proxy; the others look at a cluster before one decides.
"""

from kohort.cli.gateway.gateway_run import register

__all__ = ["register"]
