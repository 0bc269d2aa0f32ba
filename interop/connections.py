"""To which ports a process is connected, as the kernel shows it."""

from __future__ import annotations

import os
from pathlib import Path


def remote_ports(pid: int) -> set[int]:
    """Return the remote ports of a process's TCP connections; none of a process that has ended."""
    own: set[str] = set()
    ports: set[int] = set()
    process = Path(f"/proc/{pid}")
    try:
        for descriptor in (process / "fd").iterdir():
            try:
                own.add(os.readlink(descriptor))
            except OSError:  # closed meanwhile
                continue
        for table in ("tcp", "tcp6"):
            for line in (process / "net" / table).read_text().splitlines()[1:]:
                fields = line.split()
                if f"socket:[{fields[9]}]" in own:
                    ports.add(int(fields[2].rpartition(":")[2], 16))
    except (FileNotFoundError, ProcessLookupError):
        return set()
    return ports
