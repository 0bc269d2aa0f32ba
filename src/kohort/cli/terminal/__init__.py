"""What every command shares: options, output to a terminal or a pipe, exit statuses and signals.

It knows no cluster, and of the verbs `contexts` alone.
"""
