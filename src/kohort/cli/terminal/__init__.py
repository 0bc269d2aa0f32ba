"""What every command shares: options, output to a terminal or a pipe, exit statuses and signals.

It knows no verb and no cluster.
"""
