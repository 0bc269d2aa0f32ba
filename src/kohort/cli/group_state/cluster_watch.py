"""What `console` and `top` watch a cluster with: one poller, of the cluster that the options name."""

from __future__ import annotations

import argparse
from functools import partial

from kohort.cli.cluster import sentence_of, unreachable
from kohort.cli.group_state.group_events import event_consumer, now_ms
from kohort.client.settings import ClientConfig
from kohort.console.cluster_poller import ClusterPoller
from kohort.console.history.watched_cluster import WatchedCluster
from kohort.model.errors import KafkaError

REQUEST_MS = 5_000


def cluster_poller(args: argparse.Namespace, client_id: str, open_s: float | None = None) -> ClusterPoller:
    """Return a poller that does not run yet; `open_s` is how long it waits between two looks, where that was chosen."""
    bootstrap, security = args.bootstrap_server, args.security
    config = ClientConfig(bootstrap_servers=bootstrap, request_timeout_ms=REQUEST_MS, client_id=client_id, **security)
    cluster = config.cluster(start_timeout_ms=REQUEST_MS)
    cluster.track_all()

    def sentence(error: BaseException) -> str:
        return sentence_of(error, bootstrap) if isinstance(error, KafkaError) else unreachable(bootstrap, error)

    new_consumer = partial(event_consumer, bootstrap, security)
    return ClusterPoller(cluster, WatchedCluster(), new_consumer, now_ms, sentence, open_s)
