"""Group members as programs: one per client library, all with the same arguments and the same output.

    python -m interop.members.LIBRARY BOOTSTRAP GROUP TOPIC [KEY=VALUE …]

KEY is `assignor` (a name, or several with commas), `instance`, `session_ms` or `heartbeat_ms`; `auto=1` lets the
library commit by itself, at default settings, and only `report=1` then prints what is read. Where the library has
KIP-848 also `protocol` (`classic` or `consumer`), `remote_assignor`, and `regex`, which is subscribed to instead of
TOPIC. Settings that brokers decide in the consumer protocol (session, heartbeats) are not passed to it.

Each prints JSON lines with their time: `starting` first; `owns` with its partitions after an assignment, and at a
revocation before its callback returns; `read` before and `committed` after it commits what it read; `refused` when a
commit is refused, `troubled` when a poll raises, `timed_out` when a request is abandoned, as far as the library says
so; `leaving` and `left` around its close, which SIGTERM requests. SIGKILL is a crash. SIGHUP asks it to close its
consumer and to go on with a new one of the other protocol, which it prints as `turning` and `turned`.
"""
