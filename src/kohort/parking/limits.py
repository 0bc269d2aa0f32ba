"""Every limit of parking: its unit, its reason, and the client that made it necessary.

Which client is of which kind stands in `client_software`. The broker's own settings for heartbeats with a member epoch
(`kohort.group.consumer.heartbeat.park.ms`) and the policy column `commit_delay_ms` are for users; nothing here is.
"""

from __future__ import annotations

from kohort.parking.client_software import JAVA, KOHORT

# Heartbeats of classic members, at the broker and behind the gateway

FAST_INTERVAL_MS = 100
"""Heartbeats at shorter intervals are answered at once: their senders learn of everything soon enough."""

USUAL_INTERVAL_MS = 3_000
"""The interval of a member of which nothing is known: the default of every client."""

SLACK_MS = 250
"""How much longer than the interval a heartbeat is parked, for senders that are a little late (Java's by 100 ms)."""

ANSWER_MARGIN_MS = 100
"""How long before the next heartbeat the last one is answered, for senders that need the answer first: librdkafka skips
a heartbeat while one is unanswered, kafka-python polls without pause."""

LONGEST_PARKED_MS = 5_000
"""No heartbeat is parked longer: every client abandons a request at some time, after 10 s or more by default."""

LONGEST_WHOLE_MS = 7_000
"""The same where a heartbeat is parked for whole intervals (kgo): two of the usual ones, each a little longer."""

NO_COMMIT_MS = 6_000
"""A member that has committed nothing for so long does not commit by itself: by default clients do every 5 s. Then a
member of kgo is parked, whose next heartbeat a commit would make late."""

LEAST_REPEATED_MS = 1_000
"""Members of shorter intervals are back in reach soon enough by themselves."""

NEXT_IS_NEAR_MS = 400
"""A heartbeat that a commit ends is answered as any other if the next one is due so soon: Java sends it again after 100
ms or more."""

FLOOD_MS = 20
"""A member that sends a heartbeat again sooner than this is not made to do so any more: Java and kgo wait for 80."""

LATE_INTERVALS = 2
"""A member that sends nothing for so many intervals of an announced round is taken to be dead, and not late."""

MOST_WEIGHED = 50
"""Of more members that commit each batch (aiokafka, kafka-python, kgo) the best time to learn of a round is not
searched for, which takes the square of their number: each learns by its next heartbeat, as on Kafka."""

# Answers to commits that are delayed behind a parked heartbeat

LEAST_PERIOD_MS = 1_000
"""Commits at shorter gaps are those of programs that commit each batch, and not of a timer."""

EARLY_COMMIT_MS = 20
"""How much earlier than its time a commit of a timer comes, where the one before was late."""

LATE_PART = 25
"""A commit of a timer comes late by less than one part in so many of its period."""

TRIAL_PART = 10
"""The first answer that is delayed is so for one part in so many of the period: a program may be waiting for it."""

USUAL_COMMIT_DELAY_MS = 3_000
"""For how long an answer is delayed by default, if its client's habits allow it: the usual interval of heartbeats."""

DELAYED_PART = 0.6
"""For which part of its period an answer may be delayed: well before aiokafka's next commit, which waits for it, is
due."""

MOST_COMMIT_DELAY_MS = 5_000
"""The longest that a policy may delay the answer to a commit: the interval of auto-commit, by default, of clients."""

# Heartbeats with a member epoch, at the broker and behind the gateway

EPOCH_MARGIN_MS = {KOHORT: 0, "unknown": 0, JAVA: 50}
"""How long before its next heartbeat is due a client of a consumer or streams group must have the last answer.

0 where it does not matter. Java's client polls without pause until it is answered.
"""

OTHERS_MARGIN_MS = 200
"""The same for all others. librdkafka, under many names, abandons a heartbeat when the next one is due."""

DELAYS_IN_MARGIN = 4
"""How many times the longest of its last delays a client has at least. On a busy machine librdkafka abandoned so many
heartbeats that its group never settled: it then drops the connection, and the coordinator fences it if the lost answer
had an update."""

LONGEST_DELAY_MS = 1_250
"""The longest delay that counts: four times it is the interval that Kafka's members have, and nothing is parked."""

FAST_EPOCH_MS = 20
"""Heartbeats without an update that arrive at shorter intervals are answered at once."""

NEXT_MS = 50
"""The interval requested where heartbeats are parked: without an update one is then nearly always parked."""

OWED_MS = 1_000
"""The same for a member that takes longer than this for its assignment: none of its heartbeats is parked meanwhile."""

WARMING_MS = 100
"""The same for a member with warm-ups: none of its heartbeats is parked, as one reports that a copy has caught up."""

ACK_MS = 5_000
"""How long a member may take to acknowledge an assignment before its heartbeats are parked all the same."""

RECENT_MS, RECENT_WAIT_MS = 1_000, 50
"""An update seldom comes alone. For so long after one, a client that sends its next heartbeat no sooner than requested
(librdkafka) has each of them parked for this time only, and is requested to send the next one soon."""

WAITING_MS = 10_000
"""The same for a member that waits for partitions of others, for so long."""

STABLE_AFTER_MS = 30_000
"""After so long without an update a member is stable."""

# Behind the gateway alone

GATEWAY_PARK_MS = 1_000
"""How long a heartbeat with an epoch is parked, so that a steady member costs one request a second."""

GATEWAY_STABLE_PARK_MS = 2_500
"""The same for a member without an update for half a minute: half the interval that Kafka's members have."""

GATEWAY_SETTLING_MS = 5_000
"""For how long after a change a group is taken to be settling: Kafka's coordinator may compute its target later."""

RELEASE_MS = 3
"""How long after a change heartbeats are forwarded: the request that made it must reach the coordinator first."""

ASSUMED_SESSION_MS = 45_000
"""The session timeout of a member whose own was not seen: the default of Kafka's broker, and of Java's client."""

SENDER_FORGOTTEN_MS = 600_000
"""After so long without a heartbeat a member with an epoch is forgotten."""

LATE_ANSWER_MS = 500
"""An answer to a classic heartbeat that took so long was parked by its coordinator, as our broker does: it is parked
once more only while its group learns of a round together."""

FIRST_REPEAT_MS = 4
"""When to repeat a request after its round was predicted: requests of two connections may overtake each other."""

REPEATS_MS = (20, 100, 400)
"""When to repeat it again where the coordinator answers that there is no round."""

WITHHELD_SYNC_MS = 1_000
"""How long answers to SyncGroup are withheld until the members that must revoke have joined again (KIP-429)."""
