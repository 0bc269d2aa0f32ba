"""What clients may do: the rules (ACLs), the authorizer that answers questions by them, and what each API asks.

It has no connection and reads no request: `kohort.node.apis` asks with the principal and the host of a connection.
"""
