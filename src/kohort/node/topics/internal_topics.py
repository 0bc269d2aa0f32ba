"""What may be altered of the topics that hold the state of groups and transactions.

On Kafka, a client that may alter topics can take away the state of all groups: with `cleanup.policy=delete` and a short
retention, or with batches so small that no record of a group fits.
"""

from __future__ import annotations

from kohort.model.setting import SettingsError
from kohort.node.configuration.config import TopicConfig

COORDINATED = frozenset({"__consumer_offsets", "__transaction_state"})

SMALLEST_BATCH = 1_048_588
"""The least `max.message.bytes`: a group of some thousand members is one record."""
SMALLEST_SEGMENT = 2 * SMALLEST_BATCH

_REFUSED = ("retention.ms", "retention.bytes", "message.timestamp.type")


def check_internal(name: str, config: TopicConfig) -> None:
    """Raise SettingsError where the settings of a topic would take away what its coordinator needs."""
    if name not in COORDINATED:
        return
    if config.cleanup_policy != ("compact",):
        policy = ",".join(config.cleanup_policy)
        raise SettingsError(
            f"cleanup.policy={policy} of {name} would delete the state of its coordinator: it is compact"
        )
    for refused in _REFUSED:
        if refused in config.texts:
            raise SettingsError(
                f"{refused} of {name} cannot be set: the topic is compacted, and keeps its coordinator's state"
            )
    for setting, least in (("max.message.bytes", SMALLEST_BATCH), ("segment.bytes", SMALLEST_SEGMENT)):
        if setting in config.texts and config.get(setting) < least:
            raise SettingsError(
                f"{setting}={config.get(setting)} of {name} is less than its coordinator needs, {least}"
            )
