"""One run: starts everything, carries out the faults of a seed, heals, waits for rest, and judges the histories."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random

from interop import java_member
from interop.committed import has_open_transaction, read_to_end
from interop.fault_schedule import schedule
from interop.group import Group, Member
from interop.torture import clients
from interop.torture.checks.anomaly import Anomaly, Name
from interop.torture.cut_connections import CuttingProxy
from interop.torture.evidence import OFFSETS, Clients, Evidence, GroupFiles, WriterFile
from interop.torture.fault_rules import RULES, Kind
from interop.torture.faulty_broker import FaultyBroker
from interop.torture.history import GroupHistory, Logged, Place
from interop.torture.hostile_bytes import TOPIC as TRAMPLED
from interop.torture.hostile_bytes import HostileBytes
from interop.torture.offset_watch import OffsetWatch
from interop.torture.small_disk import SmallDisk
from interop.unavailable import Unavailable
from kohort.sync import Admin

SETTLING_S = 15
"""Without faults at first, so that every client has begun."""

REST_S = 120
"""How long groups may make no progress after the last fault before they have read everything; longer than an abandoned
transaction lives."""

PROGRESS_S = 5

STARTS_BROKEN = 0.2
"""The share of kills and stops that may fall into a start of the broker."""


class Run:
    """Everything that runs. `tried` counts what was done, `anomalies` are what was found so far."""

    def __init__(self, stack: ExitStack, folder: Path, seed: int, minutes: float, say: Callable[[str], None]) -> None:
        self.tried: Counter[str] = Counter()
        self.anomalies: list[Anomaly] = []
        self._replaced: list[clients.Program] = []
        self.without: list[str] = []  # what this machine does not have, and why
        self.groups: list[GroupHistory] = []
        self._stack = stack
        self._folder = folder
        self._seed = seed
        self._duration_s = 60 * minutes
        self._say = say
        self._random = Random(f"{seed} choices")
        self._disk = self._make_disk(minutes)
        self._data = folder / "disk" / "data" if self._disk else folder / "data"
        self.broker = FaultyBroker(folder, self._data, self._disk)
        self._proxy = stack.enter_context(CuttingProxy(self.broker.behind_proxy))
        self._hostile = HostileBytes(self.broker.port, Random(f"{seed} bytes"))
        self._restart_s = self._go_on_s = self._free_s = 0.0  # when what is broken is mended; 0: it is not broken
        self._acknowledged = _LineCounter(folder, b'"event": "appended"')
        self._commits = _LineCounter(folder, b'"committed"')

    def _make_disk(self, minutes: float) -> SmallDisk | None:
        try:
            disk = SmallDisk(self._folder / "disk", int(256 + 12 * minutes) << 20)
        except (Unavailable, OSError) as error:
            self.without.append(f"full disk: {error}")
            return None
        self._stack.callback(disk.close)
        return disk

    def start(self) -> None:
        """Start the broker, then all clients."""
        broker, folder, stack = self.broker, self._folder, self._stack
        broker.start(self._proxy.port)
        stack.callback(lambda: broker.child.kill())  # noqa: PLW0108 - the one that runs then
        broker.wait_until_ready()
        names = [*clients.TOPICS, *map(clients.copied, clients.COPIERS), TRAMPLED]
        through = f"127.0.0.1:{self._proxy.port}"
        bootstraps = (through, broker.bootstrap)
        self.services = clients.services(bootstraps, folder)
        names += map(clients.letters, self.services)
        with Admin(broker.bootstrap) as admin:
            for name in names:
                admin.create_topic(name, partitions=clients.PARTITIONS)
        self.writers = clients.writers(bootstraps, self._seed, folder)
        self.copiers = clients.copiers(bootstraps, folder)
        self.members: list[tuple[Group, clients.GroupPlan]] = []
        self._start_members(bootstraps)
        self._supervised = self.programs
        for program in self._supervised:
            program.start()
            stack.callback(program.kill)
        self.groups = [GroupHistory(group.name, plan.topic) for group, plan in self.members]
        names = [*self.services, *(each.name for each in self.copiers)]
        self.groups += [GroupHistory(name, clients.ONCE) for name in names]
        stack.enter_context(OffsetWatch(broker.bootstrap, self.groups, folder / OFFSETS))

    def _start_members(self, bootstraps: tuple[str, str]) -> None:
        number = 0
        for name, plan in clients.GROUPS.items():
            members = list(plan.members)
            if plan.topic == clients.MOVED:
                try:
                    java_member.command()
                    members.append(clients.JAVA)
                except Unavailable as error:
                    self.without.append(f"java: {error}")
            group = self._stack.enter_context(
                Group(self.broker.bootstrap, name, plan.topic, clients.PARTITIONS, self._folder)
            )
            for library, settings in members:
                group.bootstrap = bootstraps[number % 2]
                group.start(library, **settings)
                number += 1
            self.members.append((group, plan))

    @property
    def programs(self) -> list[clients.Program]:
        """Writers, copiers and services."""
        return [program for program, *_ in self.writers] + self.copiers + self.served

    @property
    def served(self) -> list[clients.Program]:
        """The services of all groups."""
        return [each for of_group in self.services.values() for each in of_group]

    # --- faults

    def torment(self) -> None:
        """Carry out the schedule; a KeyboardInterrupt ends it early."""
        faults = schedule(RULES, self._seed, self._duration_s)[::-1]
        began_s, reported_s = time.monotonic() + SETTLING_S, 0.0
        while (passed_s := time.monotonic() - began_s) < self._duration_s:
            if faults and faults[-1].at_s <= passed_s:
                fault = faults.pop()
                if self._carry_out(fault.kind, time.monotonic() + fault.lasts_s, fault.choice):
                    self.tried[fault.kind] += 1
                continue
            self._mend(time.monotonic())
            self._supervise()
            if time.monotonic() - reported_s > PROGRESS_S:
                reported_s = time.monotonic()
                self._report(passed_s)
            time.sleep(0.02)

    def _carry_out(self, kind: Kind, until_s: float, choice: float) -> bool:
        """Begin one fault; return whether it took effect."""
        match kind:
            case Kind.KILL if not self._restart_s and self._may_break(choice):
                self.broker.kill()
                self._restart_s, self._go_on_s = until_s, 0.0
            case Kind.STOP if self.broker.child.is_running and self._may_break(choice):
                self.broker.stop()
                self._go_on_s = until_s
            case Kind.FULL if self._disk is not None:
                self._disk.fill()
                self._free_s = until_s
            case Kind.CUT:
                return self._proxy.cut(choice, self._random) > 0
            case Kind.HOSTILE if not self.broker.is_stopped:
                before = self._hostile.connections
                self._hostile.burst(1 + int(8 * choice))
                return self._hostile.connections > before
            case Kind.MEMBER:
                self._replace_member(choice)
            case Kind.SERVICE:
                number, is_killed = divmod(int(choice * 2 * len(self.served)), 2)
                self.served[number].replace(is_killed=bool(is_killed))
            case _:
                return False
        return True

    def _may_break(self, choice: float) -> bool:
        """Whether the broker serves clients: only a share of the faults may strike its starts."""
        return self.broker.is_ready or choice < STARTS_BROKEN

    def _replace_member(self, choice: float) -> None:
        everyone = [(group, member) for group, _ in self.members for member in group.members]
        group, member = everyone[int(choice * len(everyone))]
        group.kill(member)
        self._start_like(group, member)

    def _start_like(self, group: Group, member: Member) -> None:
        plan = clients.GROUPS[group.name]
        settings = clients.JAVA[1] if member.library == "java" else dict(plan.members)[member.library]
        group.bootstrap = self._random.choice((f"127.0.0.1:{self._proxy.port}", self.broker.bootstrap))
        group.start(member.library, **settings)

    def _mend(self, now_s: float) -> None:
        """End the faults whose time is over."""
        if self._go_on_s and now_s >= self._go_on_s:
            self.broker.go_on()
            self._go_on_s = 0.0
        if self._free_s and now_s >= self._free_s and self._disk is not None:
            self._disk.free()
            self._free_s = 0.0
        if self._restart_s and now_s >= self._restart_s:
            self.broker.start_again()
            self._restart_s = 0.0

    def _supervise(self) -> None:
        """Start again what ended by itself; of our own programs that is an anomaly, unless the broker has no disk."""
        if not self._restart_s and not self.broker.child.is_running:
            if self._free_s:
                self.tried["starts refused by a full disk"] += 1
            else:
                self.anomalies.append(Anomaly(Name.BROKER_ENDED, "broker", self.broker.child.text()[-1500:]))
            self._restart_s = time.monotonic() + 1
        for program in self._supervised:
            if not program.child.is_running:
                self._ended(program.library, program.name, program.complaint())
                program.start()
        for group, _ in self.members:
            for member in [each for each in group.members if not each.child.is_running]:
                self._ended(member.library, member.name, member.complaint())
                group.kill(member)
                self._start_like(group, member)

    def _ended(self, library: str, name: str, complaint: str) -> None:
        # Without a broker for the whole of its start, a client of ours gives up, as it documents.
        if library == "kohort" and "BrokerUnreachable" not in complaint:
            self.anomalies.append(Anomaly(Name.CLIENT_ENDED, name, complaint))
        else:
            self.tried[f"{library} ended by itself"] += 1

    def _report(self, passed_s: float) -> None:
        memory_mib, descriptors = self.broker.use()
        self._say(
            f"{max(passed_s, 0):5.0f} s  "
            + ", ".join(f"{kind} {self.tried[kind]}" for kind in Kind)
            + f" ({self._hostile.sent / 1e3:,.0f} kB); acknowledged {self._acknowledged.count():,} records,"
            f" {self._commits.count():,} commits; broker {memory_mib:.0f} MiB, {descriptors} descriptors"
        )

    # --- afterwards

    def heal(self) -> None:
        """End all faults, the last by one more kill, and let the writers finish."""
        self._say("no more faults: the writers end, the groups read to the end")
        self._restart_s = self._go_on_s = self._free_s = 0.0
        if self._disk is not None:
            self._disk.free()
        self._hostile.close()
        self._kill_and_start()
        self._supervised = self.copiers + self.served
        for program, *_ in self.writers:
            program.child.stop(90)

    def _kill_and_start(self) -> None:
        self.broker.kill()
        self.tried[Kind.KILL] += 1
        self.broker.start_again()
        self.broker.wait_until_ready()

    def rest(self) -> None:
        """Wait until no transaction is open and every group has committed the end of what it can read."""
        self._wait(lambda: [f"open transaction on {name}" for name in self._open_transactions()])
        log = self.log(clients.TOPICS)
        self._wait(lambda: list(self._lags(log)))

    def _wait(self, missing: Callable[[], list[str]]) -> None:
        seen: list[str] = []
        while left := missing():
            if left != seen:
                seen, deadline = left, time.monotonic() + REST_S
            elif time.monotonic() > deadline and self._replace_hung(left):
                seen = []
            elif time.monotonic() > deadline:
                self.anomalies += (Anomaly(Name.NO_CONVERGENCE, "after all faults", each) for each in left)
                return
            self._supervise()
            time.sleep(0.5)

    def _replace_hung(self, left: list[str]) -> bool:
        """Kill and replace copiers of others that move no more, each once; return whether there were any.

        In which call they hang is printed. If the broker is the reason, the next ones hang too.
        """
        hung = [
            each
            for each in self.copiers
            if each.library != "kohort" and each not in self._replaced and any(each.name in text for text in left)
        ]
        for program in hung:
            program.child.signal(signal.SIGUSR1)
            time.sleep(1)
            self._say(f"{program.name} hangs and is replaced; it wrote last:\n{program.complaint()}")
            program.kill()
            program.start()
            self.tried[f"{program.library} hung"] += 1
        self._replaced += hung
        return bool(hung)

    def _open_transactions(self) -> Iterator[str]:
        for name in (clients.MOVED, *map(clients.copied, clients.COPIERS)):
            if has_open_transaction(self.broker.bootstrap, name, clients.PARTITIONS):
                yield name

    def _lags(self, log: dict[Place, list[Logged]]) -> Iterator[str]:
        for group in self.groups:
            is_read_committed = group.topic == clients.MOVED or group.name in {each.name for each in self.copiers}
            final = group.final
            for (topic, partition), records in log.items():
                due = [each for each in records if each.is_committed or not is_read_committed]
                if topic == group.topic and due and final.get(partition, -1) <= due[-1].offset:
                    yield f"{group.name} committed {final.get(partition)} of {topic}-{partition}, last is {due[-1]}"

    def log(self, topics: tuple[str, ...] | list[str]) -> dict[Place, list[Logged]]:
        """Read topics to the end."""
        found: dict[Place, list[Logged]] = {}
        for topic in topics:
            every, committed = (
                read_to_end(self.broker.bootstrap, topic, clients.PARTITIONS, isolation)
                for isolation in ("read_uncommitted", "read_committed")
            )
            visible = {(each.partition, each.offset) for each in committed}
            for partition in range(clients.PARTITIONS):
                found[topic, partition] = [
                    Logged(each.offset, each.value, (partition, each.offset) in visible)
                    for each in every
                    if each.partition == partition
                ]
        return found

    def stop(self) -> dict[Place, list[Logged]]:
        """Stop all clients, kill the broker once more, read its log, stop it cleanly and verify its files."""
        self._supervised = []
        for program in self.copiers + self.served:
            program.stop(60)
        for group, _ in self.members:
            for member in list(group.members):
                with suppress(AssertionError):  # another's library may hang; its history is whole all the same
                    group.leave(member)
        self._kill_and_start()
        log = self.log([*clients.TOPICS, *map(clients.copied, clients.COPIERS), *map(clients.letters, self.services)])
        if code := self.broker.child.stop(60):
            self.anomalies.append(Anomaly(Name.BROKER_ENDED, "broker", f"exit code {code} after SIGTERM"))
        self.anomalies += (Anomaly(Name.TRACEBACK, "broker", text) for text in self.broker.tracebacks())
        self._verify()
        return log

    def _verify(self) -> None:
        path = self._disk.path / "data" if self._disk is not None else self._data
        command = [str(Path(sys.executable).parent / "kohort"), "log", "verify", str(path), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        findings = json.loads(done.stdout)["findings"] if done.stdout else [done.stderr]
        if done.returncode:
            self.anomalies += (Anomaly(Name.DAMAGED_LOG, "log verify", str(each)) for each in findings)

    def judge(self, log: dict[Place, list[Logged]]) -> None:
        """Write down whose history is which, and check the histories against the log."""
        writers = [
            WriterFile(child.output.name, topic, is_exact, is_transactional)
            for program, topic, is_exact, is_transactional in self.writers
            for child in program.children
        ]
        groups = [
            GroupFiles(
                group.name,
                plan.topic,
                plan.topic == clients.MOVED,
                [member.child.output.name for member in group.gone + group.members],
            )
            for group, plan in self.members
        ]
        groups += [
            GroupFiles(
                name,
                clients.ONCE,
                False,
                [child.output.name for program in programs for child in program.children],
                letters=clients.letters(name),
            )
            for name, programs in self.services.items()
        ]
        groups += [GroupFiles(each.name, clients.ONCE, True, [], clients.copied(each.library)) for each in self.copiers]
        Clients(writers, groups).write(self._folder, log)
        evidence = Evidence.read(self._folder)
        self.anomalies += evidence.judge()
        self.tried |= evidence.counts()
        self.tried |= {
            "hostile connections": self._hostile.connections,
            "hostile bytes sent": self._hostile.sent,
            "starts of the broker": self.broker.starts,
        }
        self.errors = clients.errors_of([child for program in self.programs for child in program.children])

    def keep_data(self) -> None:
        """Copy the broker's files beside the histories, where they are on a disk that goes with this process."""
        if self._disk is not None:
            subprocess.run(["cp", "-r", str(self._disk.path / "data"), str(self._folder / "data")], check=False)


class _LineCounter:
    """How many lines of all histories in a folder hold a text; counts only what was written since the last time."""

    def __init__(self, folder: Path, text: bytes) -> None:
        self._folder = folder
        self._text = text
        self._taken: dict[Path, int] = {}
        self._found = 0

    def count(self) -> int:
        """Return the number until now."""
        for history in self._folder.glob("*.jsonl"):
            with history.open("rb") as lines:
                lines.seek(self._taken.get(history, 0))
                fresh = lines.read()
            end = fresh.rfind(b"\n") + 1
            self._found += fresh.count(self._text, 0, end)
            self._taken[history] = self._taken.get(history, 0) + end
        return self._found
