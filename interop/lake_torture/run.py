"""One run: servers, writers and jobs under the kills of a seed; then each table is compared with the topic's log.

A run has eras. Each has a topic of the same name, made anew, and new tables. At its end the kills stop, jobs read
everything, and their tables are judged; then the topic is made anew under the running jobs, which must end.
"""

from __future__ import annotations

import json
import re
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from typing import Any

from interop.committed import has_open_transaction, read_committed
from interop.fault_schedule import Fault, schedule
from interop.lake_torture import account, jobs
from interop.lake_torture.account import Counts, Finding, Name
from interop.lake_torture.fault_rules import KILLS, RULES, Kind
from interop.lake_torture.gate import POINTS, WRITER, owner_of
from interop.lake_torture.jobs import PARTITIONS, TOPIC, Job, Program
from interop.lake_torture.readers import NoTable, Row
from interop.lake_torture.services import Services, end
from interop.process import descendants
from kohort.sync import Admin

SETTLING_S = 5
"""After every job has stored something, before the first kill."""

START_S = 1500
STARTS_BROKEN = 0.05
"""The share of kills of jobs that may fall into their starts."""

REST_S = 240
"""How long tables may stand still after the last kill before jobs count as hung."""

REST_LOOK_S = 4

ANEW_S = 240
"""How long jobs may run on after their topic was made anew: longer than a session and a look at metadata."""

PROGRESS_S = 10
READ_S = 25
ERA_S = 1200
OF_KOHORT, ANY = re.compile(r"kohort(\.\w+)+: "), re.compile(r"[A-Za-z_][\w.]*(: |$)")
"""How the last line of a Python error begins: one of kohort, which Spark prints more lines after, or any."""

WRITERS = (("kohort", True), ("librdkafka", True), ("librdkafka", False))
"""Libraries of the writers, and whether they write in transactions, of which they abort some."""


class Run:
    """Everything that runs. `tried` counts what was done, `findings` are the promises that were broken."""

    def __init__(
        self,
        stack: ExitStack,
        folder: Path,
        seed: int,
        minutes: float,
        kinds: list[str],
        say: Callable[[str], None],
        *,
        is_apache: bool = False,
    ) -> None:
        self.tried: Counter[str] = Counter()
        self.endings: Counter[str] = Counter()
        self.findings: list[Finding] = []
        self.counts: dict[str, Counts] = {}
        self.minutes = 0.0  # for how long there were kills
        self.jobs: list[Job] = []
        self.writers: list[Program] = []
        self._folder = folder
        self._seed = seed
        self._duration_s = 60 * minutes
        self._kinds = kinds
        self._say = say
        self._random = Random(f"{seed} choices")
        self._mends: list[tuple[float, Callable[[], object]]] = []
        self._down: set[str] = set()
        self._is_over = threading.Event()
        stack.callback(self._end_all)
        self._services = Services(
            stack, folder, self._kill_owner, is_apache=is_apache, has_cluster=f"delta-{jobs.CLUSTER}" in kinds
        )

    @property
    def kills(self) -> int:
        """How many processes and sessions were killed."""
        return sum(self.tried[each] for each in KILLS)

    # --- an era

    def go(self) -> None:
        """Run all eras; a KeyboardInterrupt ends the kills early, what was done until then is judged."""
        eras = max(1, round(self._duration_s / ERA_S))
        faults = schedule(RULES, self._seed, self._duration_s)
        for era in range(eras):
            from_s, until_s = self._duration_s * era / eras, self._duration_s * (era + 1) / eras
            self._begin(era)
            is_interrupted = False
            try:
                self._torment([each for each in faults if from_s <= each.at_s < until_s], from_s, until_s)
            except KeyboardInterrupt:
                is_interrupted = True
                self._say("interrupted: no more kills; what was done until now is judged. Once more to end at once")
            log = self._rest()
            self._judge(log)
            self._make_anew(era, log)
            if is_interrupted:
                return

    def _begin(self, era: int) -> None:
        """Make the topic, then start writers and jobs, and wait until each job has stored something."""
        if era == 0:
            with Admin(self._services.broker.bootstrap) as admin:
                admin.create_topic(TOPIC, partitions=PARTITIONS)
        self.writers = []
        for number, (library, is_transactional) in enumerate(WRITERS):
            name = f"{WRITER}{library}-{number}-{era}"
            command = [
                sys.executable,
                "-m",
                f"interop.torture.writers.{library}",
                self._services.bootstrap,
                name,
                TOPIC,
            ]
            command += ["--partitions", str(PARTITIONS), "--seed", str(self._seed + 100 * era + number), "--idempotent"]
            command += ["--transactional-id", name] * is_transactional
            self.writers.append(Program(name, command, self._services.environment, self._folder))
        make = jobs.make
        self.jobs = [make(kind, self._services, self._folder, str(era), self._seed + era) for kind in self._kinds]
        for each in self._all_programs():
            each.start()
        deadline = time.monotonic() + START_S
        while waiting := [job.name for job in self.jobs if not self._has_begun(job)]:
            self._supervise()
            if time.monotonic() > deadline:
                raise RuntimeError(f"{', '.join(waiting)} stored nothing within {START_S} s: see {self._folder}")
            time.sleep(1)
        self._say(f"topic {TOPIC}, number {era + 1}: {len(self.jobs)} jobs store rows")
        time.sleep(SETTLING_S)

    def _has_begun(self, job: Job) -> bool:
        """Whether a job has stored a row; ours print a line for each round."""
        job.tend()
        return any(each.lines() for each in job.programs) if job.is_ours else bool(self._rows(job))

    def _all_programs(self) -> Iterator[Program]:
        yield from self.writers
        for job in self.jobs:
            yield from job.programs
            if job.upkeep is not None:
                yield job.upkeep

    # --- kills

    def _torment(self, faults: list[Fault[Kind]], from_s: float, until_s: float) -> None:
        left = faults[::-1]
        began_s = time.monotonic() - from_s
        reported_s = read_s = time.monotonic()
        while (passed_s := time.monotonic() - began_s) < until_s:
            self.minutes = passed_s / 60
            if left and left[-1].at_s <= passed_s:
                fault = left.pop()
                if self._carry_out(fault):
                    self.tried[fault.kind] += 1
                continue
            self._mend()
            self._supervise()
            if time.monotonic() - reported_s > PROGRESS_S:
                reported_s = time.monotonic()
                self._report(passed_s)
                for job in self.jobs:
                    job.tend()
            if time.monotonic() - read_s > READ_S and not self._down:
                self._look()
                read_s = time.monotonic()
            time.sleep(0.02)

    def _carry_out(self, fault: Fault[Kind]) -> bool:
        """Begin one fault; return whether it took effect."""
        services, choice, over_s = self._services, fault.choice, time.monotonic() + fault.lasts_s
        match fault.kind:
            case Kind.DRIVER | Kind.JAVA | Kind.TASK | Kind.STOP:
                program = self._chosen(choice)
                return program is not None and self._strike(fault.kind, program, over_s)
            case Kind.EXECUTOR:
                found = services.executors()
                return bool(found) and end(found[int(choice * len(found))])
            case Kind.UPKEEP:
                upkeeps = [each.upkeep for each in self.jobs if each.upkeep is not None]
                return bool(upkeeps) and upkeeps[int(choice * len(upkeeps))].crash()
            case Kind.POINT:
                self._arm(choice)
                return False  # it is counted when it springs
            case Kind.BROKER:
                return self._kill_server("broker", services.broker.kill, services.broker.start_again, over_s)
            case Kind.STORE:
                return self._kill_server("store", services.store.kill, services.store.start, over_s)
            case Kind.POSTGRES:
                return self._kill_server("postgres", services.postgres.crash, services.postgres.start, over_s)
            case Kind.SESSIONS:
                return self._end_sessions(choice)
        gate = {Kind.CUT_BROKER: "broker", Kind.CUT_STORE: "store", Kind.CUT_POSTGRES: "postgres"}[fault.kind]
        return services.gates[gate].cut(choice, self._random) > 0

    def _chosen(self, choice: float) -> Program | None:
        """Return the program that a fault strikes: one that has stored something since its start, if there is any.

        A share of the faults strikes any; else a slow machine would do nothing but start.
        """
        programs = [each for job in self.jobs for each in job.programs]
        if self._random.random() > STARTS_BROKEN:
            programs = [each for each in programs if each.has_worked]
        return programs[int(choice * len(programs))] if programs else None

    def _strike(self, kind: Kind, program: Program, over_s: float) -> bool:
        """Kill a program or some of its processes, or stop it; return whether there was what is struck."""
        match kind:
            case Kind.JAVA:
                program.expect_end()
                return self._kill_some(program, b"java")
            case Kind.TASK:
                return self._kill_some(program, b"pyspark.daemon")
            case Kind.STOP:
                return self._stop(program, over_s)
        return program.crash()

    def _kill_some(self, program: Program, name: bytes) -> bool:
        """Kill the processes of a program whose command has a name, but not the program itself."""
        found = False
        for pid in program.pids()[1:]:
            with suppress(OSError):
                if name in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found |= end(pid)
        return found

    def _kill_server(self, name: str, kill: Callable[[], object], start: Callable[[], object], over_s: float) -> bool:
        if name in self._down:
            return False
        kill()
        self._down.add(name)

        def mend() -> None:
            start()
            self._down.discard(name)

        self._mends.append((over_s, mend))
        return True

    def _stop(self, program: Program, over_s: float) -> bool:
        if program.child is None or not program.is_running:
            return False
        child = program.child
        child.signal(signal.SIGSTOP)
        self._mends.append((over_s, lambda: child.signal(signal.SIGCONT)))
        return True

    def _end_sessions(self, choice: float) -> bool:
        """Have the database end the process of one session, as its administrator would."""
        from interop.lake_torture.readers import query

        if "postgres" in self._down:
            return False
        listed = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        try:
            pids = query(self._services.postgres.conninfo, f"{listed} ORDER BY pid")
            if pids:
                query(
                    self._services.postgres.conninfo, f"SELECT pg_terminate_backend({pids[int(choice * len(pids))][0]})"
                )
        except Exception as error:  # its server has just come back
            self._say(f"sessions were not ended: {error}")
            return False
        return bool(pids)

    def _arm(self, choice: float) -> None:
        point = POINTS[int(choice * len(POINTS))]
        for name, gate in self._services.gates.items():
            gate.arm(point if name == point.service else None)

    def _kill_owner(self, port: int) -> bool:
        """Kill the job, or the executor, that has a socket; called by the gates, in threads of their own."""
        for pid in self._services.executors():
            if owner_of(port, [pid, *descendants(pid)]) is not None:
                return end(pid)
        for job in self.jobs:
            for program in job.programs:
                if owner_of(port, program.pids()) is not None:
                    return program.crash()
        return False

    # --- between kills

    def _mend(self, *, all_of_it: bool = False) -> None:
        now_s = time.monotonic()
        due = [each for each in self._mends if all_of_it or each[0] <= now_s]
        self._mends = [each for each in self._mends if each not in due]
        for _, mend in due:
            mend()

    def _supervise(self) -> None:
        """Start again what has ended, and note how our own jobs ended themselves."""
        for job in self.jobs:
            for program in job.programs:
                if program.has_ended_itself:
                    self._note_end(job, program)
        for program in self._all_programs():
            if program not in self.writers or not self._is_over.is_set():
                program.start()

    def _note_end(self, job: Job, program: Program) -> None:
        ending = sentence(program.complaint())
        self.endings[f"{job.name.partition('_')[0]}: {ending.partition(':')[0][:120]}"] += 1
        with (self._folder / "endings.jsonl").open("a") as lines:
            lines.write(json.dumps({"program": program.name, "start": program.starts, "ending": ending}) + "\n")

    def _look(self) -> None:
        """Let one reader read one table while jobs run."""
        job = self._random.choice(self.jobs)
        name, reader = self._random.choice(sorted(job.readers.items()))
        try:
            job.seen.append((name, job.landing.noted(reader())))
            self.tried["reads while jobs run"] += 1
        except Exception as error:  # upkeep, or a kill, was faster; a read that fails shows nothing wrong
            self.tried[f"reads that failed: {type(error).__name__}"] += 1

    def _count_points(self) -> None:
        sprung = [str(point) for gate in self._services.gates.values() for point in gate.sprung]
        self.tried[Kind.POINT] = len(sprung)
        for name, count in Counter(sprung).items():
            self.tried[f"  {name}"] = count

    def _report(self, passed_s: float) -> None:
        self._count_points()
        stored = ", ".join(f"{job.name} {sum(each.lines() for each in job.programs):,}" for job in self.jobs)
        running = sum(each.is_running for each in self._all_programs())
        self._say(
            f"{passed_s:5.0f} s  {self.kills} kills; rounds: {stored}; {running} programs run,"
            f" {self.endings.total()} ended themselves"
        )

    # --- the end of an era

    def _rest(self) -> account.Log:
        """End all faults and the writers, wait until every table has all rows, and return the log."""
        self._say("no more kills: the writers end, the jobs read to the end")
        for gate in self._services.gates.values():
            gate.arm(None)
        self._mend(all_of_it=True)
        self._count_points()
        self._is_over.set()
        for writer in self.writers:
            if writer.child is not None:
                writer.child.stop(60)
        broker = self._services.broker.bootstrap
        while has_open_transaction(broker, TOPIC, PARTITIONS):
            self._supervise()
            time.sleep(0.5)
        log: dict[int, dict[int, str]] = {partition: {} for partition in range(PARTITIONS)}
        for record in read_committed(broker, TOPIC, PARTITIONS):
            log[record.partition][record.offset] = record.value
        due = sum(map(len, log.values()))
        self._say(f"the topic has {due:,} rows")
        seen: dict[str, tuple[set[Row], int]] = {}
        deadline = time.monotonic() + REST_S
        while late := {job.name: rows for job in self.jobs if (rows := self._rest_of(job, log))}:
            # Of a merged table all rows may be others than those that are due, until its last round.
            rounds = {job.name: sum(each.lines() for each in job.programs) for job in self.jobs}
            if (now := {name: (rows, rounds[name]) for name, rows in late.items()}) != seen:
                seen, deadline = now, time.monotonic() + REST_S
                self._say("  left: " + ", ".join(f"{name} {len(rows):,} rows" for name, rows in late.items()))
            elif time.monotonic() > deadline:
                for name, rows in late.items():
                    self.findings.append(Finding(Name.NO_END, name, len(rows), f"the first of them: {min(rows)}"))
                break
            self._supervise()
            for job in self.jobs:
                job.tend()
            time.sleep(REST_LOOK_S)
        return log

    def _rest_of(self, job: Job, log: account.Log) -> set[Row]:
        """Return which rows a table still lacks."""
        whole = job.landing.whole(log)
        due = {(partition, offset, text) for partition, texts in whole.items() for offset, text in texts.items()}
        return due.difference(self._rows(job))

    def _rows(self, job: Job) -> list[Row]:
        """Return what the first reader of a job sees, nothing where it cannot read."""
        with suppress(NoTable, OSError):
            return next(iter(job.readers.values()))()
        return []

    def _judge(self, log: account.Log) -> None:
        for job in self.jobs:
            for name, read in job.readers.items():
                counts, found = account.judged(job.name, name, read(), job.landing.whole(log))
                self.findings += found
                self.counts[f"{job.name}, by {name}"] = counts
            for name, seen in job.seen:
                self.findings += job.landing.wrong(job.name, name, seen, log)

    def _make_anew(self, era: int, log: account.Log) -> None:
        """Delete the topic and make it again, with more rows than before or fewer; each job must end with a sentence.

        One program of each job is dead then, and is started afterwards.
        """
        is_longer = Random(f"{self._seed} anew {era}").random() < 0.5
        self._say(f"the topic is made anew, {'longer' if is_longer else 'shorter'} than before")
        before = {job.name: sorted(self._rows(job)) for job in self.jobs}
        for job in self.jobs:
            if job.upkeep is not None:
                job.upkeep.crash()
            self._random.choice(job.programs).crash()
        fresh = self._write_anew(log, is_longer)
        programs = [program for job in self.jobs for program in job.programs]
        for each in programs:
            each.start()
        deadline = time.monotonic() + ANEW_S
        while time.monotonic() < deadline and any(each.is_running for each in programs):
            time.sleep(0.2)
        self.tried["topics made anew"] += 1
        for job in self.jobs:
            self._judge_anew(job, before[job.name], fresh)
            for program in job.programs:
                program.crash()
        self._is_over.clear()

    def _write_anew(self, log: account.Log, is_longer: bool) -> list[Row]:
        """Make the topic anew and return its rows."""
        from confluent_kafka import Producer

        broker = self._services.broker.bootstrap
        ends = {partition: max(texts, default=0) + 1 for partition, texts in log.items()}
        with Admin(broker) as admin:
            admin.delete_topic(TOPIC)
            admin.create_topic(TOPIC, partitions=PARTITIONS)
        fresh = [
            (partition, offset, f"anew:{partition}:{offset}")
            for partition, stop in ends.items()
            for offset in range(stop + 50 if is_longer else stop // 2)
        ]
        producer = Producer({"bootstrap.servers": broker})
        for partition, _, text in fresh:
            producer.produce(TOPIC, text.encode(), partition=partition)
            producer.poll(0)
        producer.flush()
        return fresh

    def _judge_anew(self, job: Job, before: list[Row], fresh: list[Row]) -> None:
        alive = [each.name for each in job.programs if each.is_running]
        after = Counter(self._rows(job))
        if after != Counter(before):
            added = after - Counter(before)
            text = f"{len(before):,} rows before, {after.total():,} after; {sum(row in added for row in fresh):,} of"
            text += f" {len(fresh):,} rows of the new topic"
            self.findings.append(Finding(Name.CHANGED, job.name, added.total(), text))
        if alive:
            self.findings.append(Finding(Name.ALIVE, job.name, len(alive), f"{', '.join(alive)} after {ANEW_S} s"))
        for program in job.programs:
            if program.has_ended_itself:
                ending = sentence(program.complaint())
                self.endings[f"{job.name.partition('_')[0]}, topic made anew: {ending.partition(':')[0][:120]}"] += 1
                if job.is_ours and TOPIC not in ending:
                    self.findings.append(Finding(Name.NO_SENTENCE, program.name, 1, ending[:500] or "no output"))

    def _end_all(self) -> None:
        for program in self._all_programs():
            program.crash()


def sentence(complaint: str) -> str:
    """Return the last error that a program wrote: the line of its kind and text, with what follows it."""
    lines = [line for line in complaint.splitlines() if line.strip()]
    for pattern in (OF_KOHORT, ANY):
        for number in range(len(lines) - 1, -1, -1):
            if pattern.match(lines[number]):
                return "\n".join(lines[number:])
    return "\n".join(lines[-3:])


def summary(run: Run) -> dict[str, Any]:
    """Return what a run has tried and found, for JSON."""
    return {
        "minutes": round(run.minutes, 1),
        "kills": run.kills,
        "tried": dict(run.tried),
        "endings": dict(run.endings),
        "tables": {name: {f: getattr(each, f) for f in each.__slots__} for name, each in run.counts.items()},
        "findings": [{**each._asdict()} for each in run.findings],
    }
