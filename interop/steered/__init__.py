"""Group members that a test steers: they read no records, and do what stands in a file of commands.

    python -m interop.steered.LIBRARY BOOTSTRAP GROUP COMMANDS KEY=VALUE …

KEY is `client`, `topics` (with commas) or `pattern`, `assignor` (a name, or several with commas), `instance`,
`protocol` (`classic` or `consumer`), `session_ms`, `poll_ms` (the poll timeout) or `failing` (a file: as long as it is
there, the assignor raises, where the library takes assignors of its user).

COMMANDS is a file to which lines are appended: `subscribe TOPIC,TOPIC`, `enforce REASON`, `stall` (no poll any more;
the topic must have records). SIGTERM asks for a clean end. Each program prints what it owns as JSON, whenever that has
changed.
"""
