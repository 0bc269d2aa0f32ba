"""A proxy in front of Apache Kafka's group coordinators: heartbeats that are parked, and causes of rebalances.

`gateway.Gateway` is the proxy without sockets; `server` connects it to the network and to the cluster.
"""
