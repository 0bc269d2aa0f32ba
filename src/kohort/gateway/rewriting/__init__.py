"""Addresses of brokers in their answers, replaced by the gateway's: bytes in and bytes out.

`address_relay` is one connection; `broker_addresses` changes an answer, `offered_apis` the list of APIs.
"""
