"""A real file system with faults on demand: FUSE over a directory, in a process of its own.

python -m interop.faulty_disk BACKING MOUNT    reads faults: an operation and an errno (or `hang`) on each line
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

from interop.unavailable import Unavailable

HOW = "faults of real disks need Linux's FUSE: root, /dev/fuse, libfuse (on Debian: libfuse3-3) and the package mfusepy"


class FaultyDisk:
    """A mounted directory whose operations fail or hang on request."""

    def __init__(self, root: Path, process: subprocess.Popen[str]) -> None:
        self.root = root
        self._process = process

    def fail(self, operation: str, code: int) -> None:
        """Have an operation of FUSE (`write`, `read`, `fsync`, `open`, `create`, `rename`…) fail with an errno."""
        self._send(f"{operation} {code}")

    def hang(self, operation: str) -> None:
        """Have an operation not return until `heal`."""
        self._send(f"{operation} hang")

    def heal(self) -> None:
        """End all faults."""
        self._send("heal")

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(line, file=self._process.stdin, flush=True)
        assert self._process.stdout.readline() == "ok\n"


@contextmanager
def faulty_disk(folder: Path) -> Iterator[FaultyDisk]:
    """Mount a disk below a folder until the block ends. Raises Unavailable."""
    backing, mount = folder / "backing", folder / "mount"
    backing.mkdir()
    mount.mkdir()
    if not os.access("/dev/fuse", os.R_OK | os.W_OK) or os.geteuid() != 0:
        raise Unavailable(HOW)
    command = [sys.executable, "-m", "interop.faulty_disk", str(backing), str(mount)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            if process.stdout.readline() != "ok\n":
                raise Unavailable(HOW)
            disk = FaultyDisk(mount, process)
            yield disk
            disk.heal()
        finally:
            subprocess.run(["umount", "--lazy", str(mount)], check=False, capture_output=True)
            process.kill()


class _Faults:
    """Which operations fail or hang now."""

    def __init__(self) -> None:
        self._of: dict[str, str] = {}
        self._healed = Event()

    def follow(self, lines: Iterator[str]) -> None:
        """Take orders until they end."""
        for line in lines:
            if line.strip() == "heal":
                self._of.clear()
                self._healed.set()
            else:
                operation, fault = line.split()
                self._healed.clear()
                self._of[operation] = fault
            print("ok", flush=True)

    def meet(self, operation: str) -> None:
        """Let an operation fail, or wait, if it is to."""
        fault = self._of.get(operation)
        if fault == "hang":
            self._healed.wait()
        elif fault is not None:
            raise OSError(int(fault), os.strerror(int(fault)))


class _Directory:
    """The operations of FUSE on a directory; paths are those below it, but for the second of `rename`."""

    def __init__(self, backing: str) -> None:
        self._backing = backing

    def getattr(self, path: str, _handle: int | None = None) -> dict[str, int]:
        found = os.lstat(path)
        names = "st_mode", "st_nlink", "st_size", "st_uid", "st_gid", "st_ino"
        return {name: getattr(found, name) for name in names}

    def readdir(self, path: str, _handle: int) -> list[str]:
        return [".", "..", *os.listdir(path)]

    def statfs(self, path: str) -> dict[str, int]:
        found = os.statvfs(path)
        return {name: getattr(found, name) for name in ("f_bavail", "f_bfree", "f_blocks", "f_bsize", "f_frsize")}

    def create(self, path: str, mode: int, _info: Any = None) -> int:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, mode)

    def open(self, path: str, flags: int) -> int:
        return os.open(path, flags)

    def read(self, _path: str, size: int, offset: int, handle: int) -> bytes:
        return os.pread(handle, size, offset)

    def write(self, _path: str, content: bytes, offset: int, handle: int) -> int:
        return os.pwrite(handle, content, offset)

    def truncate(self, path: str, length: int, _handle: int | None = None) -> None:
        os.truncate(path, length)

    def fsync(self, _path: str, _only_data: int, _handle: int) -> None:
        """Flush nothing: the machine below does not lose its power."""

    def release(self, _path: str, handle: int) -> None:
        os.close(handle)

    def mkdir(self, path: str, mode: int) -> None:
        os.mkdir(path, mode)

    def rename(self, path: str, new_path: str) -> None:
        os.rename(path, self._backing + new_path)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def rmdir(self, path: str) -> None:
        os.rmdir(path)


def _operations(backing: str, faults: _Faults) -> Any:
    """Return mfusepy's operations over a directory."""
    import mfusepy

    directory = _Directory(backing)

    def served(name: str) -> Callable[..., Any]:
        def serve(_: Any, path: str, *arguments: Any) -> Any:
            faults.meet(name)
            return getattr(directory, name)(backing + path, *arguments)

        return serve

    members: dict[str, Any] = {name: served(name) for name in vars(_Directory) if not name.startswith("_")}
    members["init"] = lambda _self, _path: print("ok", flush=True)
    members["use_ns"] = True
    return type("Operations", (mfusepy.Operations,), members)()


def main(backing: str, mount: str) -> None:
    """Serve a mount until it is unmounted."""
    import mfusepy

    faults = _Faults()
    Thread(target=faults.follow, args=(sys.stdin,), daemon=True).start()
    mfusepy.FUSE(_operations(backing, faults), mount, foreground=True, nothreads=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
