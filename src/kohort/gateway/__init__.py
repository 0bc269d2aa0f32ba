"""A proxy in front of Apache Kafka's group coordinators: heartbeats that wait for news, and causes of rebalances.

`core` is the proxy without sockets; the modules beside it connect it to the network and to the cluster.
"""
