"""Other instances of the gateway: what they exchange, so that all of them know the same groups.

It knows messages and no sockets.
"""
