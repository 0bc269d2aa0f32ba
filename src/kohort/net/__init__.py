"""The network: TCP server and client connections, TLS, SASL, the event loop and the clock.

Only this package and those above it await.
"""
