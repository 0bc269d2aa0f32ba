"""How clients prove who they are: the server's side of SASL, and names in certificates.

Nothing here knows of connections. Randomness and the verification of tokens come in as arguments.
"""
