"""The web console: what a cluster shows of its groups, followed over time, and the pages that show it.

`history` is pure; the modules here request and run commands; `web` needs the extra `console`.
"""
