"""Group members as programs: one per client library, all with the same arguments and the same output.

    python -m interop.members.LIBRARY BOOTSTRAP GROUP TOPIC [assignor=NAME] [instance=ID] [session_ms=N]

Each prints JSON lines: `owns` after every change of its assignment, `read` before and `committed` after it commits
what it read, `refused` when a commit is refused, `left` at its clean end, which SIGTERM asks for. SIGKILL is a crash.
"""
