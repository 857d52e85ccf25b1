#!/usr/bin/env python3
"""What a call costs through Tollgate and through its peers: one run, one client, one echo server behind all of them.

Usage: peers.py --tollgate BINARY --echo BINARY --cargo BINARY --pypi BINARY --fastmcp BINARY --contextforge BINARY
                [--rounds N] [--seconds S] [--starts N] [--folder DIR] [--out FILE]

`bench/peers/run` installs, builds and calls this. Each round measures every subject in turn, so that what the machine does
meanwhile falls on all of them; a figure is the median of the rounds. The data of everything lies below --folder, and the
cost of a fdatasync is measured there in every round.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import subjects
import table
import wire
from subjects import CARGO, FASTMCP, PYPI, TOLLGATE

WARM_SECONDS = 0.1
CALLERS = 8
SYNCS = 100
RECORD_BYTES = 900
PAUSE_SECONDS = 0.0003


def options():
    """The words of the command line."""
    parser = argparse.ArgumentParser()
    for name in ("tollgate", "echo", "cargo", "pypi", "fastmcp", "contextforge"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.8)
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--folder", default=".")
    parser.add_argument("--out")
    return parser.parse_args()


@dataclasses.dataclass
class Series:
    """One subject, asked for one tool: a figure for each round."""

    subject: subjects.Subject
    upstream: str
    tool: str
    kind: str = ""
    calls: int = 0
    idle_mb: float = 0.0
    after_mb: float = 0.0
    times: list = dataclasses.field(default_factory=list)
    p50: list = dataclasses.field(default_factory=list)
    cpu: list = dataclasses.field(default_factory=list)
    rate: list = dataclasses.field(default_factory=list)
    busy_cpu: list = dataclasses.field(default_factory=list)

    def one(self, seconds):
        """A round of one caller."""
        caller = self.subject.callers(1, self.tool)[0]
        self.calls += len(wire.one_caller(caller, WARM_SECONDS))
        before = self.subject.cpu_seconds()
        times = wire.one_caller(caller, seconds)
        self.cpu.append((self.subject.cpu_seconds() - before) / len(times))
        self.p50.append(statistics.median(times))
        self.times += times
        self.calls += len(times)
        caller.connection.close()

    def many(self, seconds):
        """A round of several callers at once. What speaks through pipes has one client."""
        if self.subject.is_piped():
            return
        callers = self.subject.callers(CALLERS, self.tool)
        self.calls += len(wire.many_callers(callers, WARM_SECONDS)[0])
        before = self.subject.cpu_seconds()
        times, took = wire.many_callers(callers, seconds)
        self.busy_cpu.append((self.subject.cpu_seconds() - before) / len(times))
        self.rate.append(len(times) / took)
        self.calls += len(times)
        for caller in callers:
            caller.connection.close()


def sync_seconds(folder):
    """What one write of a record's length and its fdatasync take on this disk, with a pause before, as calls leave it:
    syncs in close succession are cheaper than those that stand alone."""
    times = []
    with open(folder / "bare", "ab", buffering=0) as bare:
        for _ in range(SYNCS):
            time.sleep(PAUSE_SECONDS)
            began = time.perf_counter()
            bare.write(b"x" * RECORD_BYTES)
            os.fdatasync(bare.fileno())
            times.append(time.perf_counter() - began)
    return statistics.median(times)


class Run:
    """Everything that is started, asked and ended in one run."""

    def __init__(self, options, scratch):
        """Nothing is started yet."""
        programs = subjects.Programs(*(str(pathlib.Path(getattr(options, field.name)).absolute()) for field in
                                       dataclasses.fields(subjects.Programs)))
        self.options, self.scratch, self.programs = options, scratch, programs
        self.makers = subjects.Makers(programs, scratch)
        self.callers = CALLERS
        self.running, self.series, self.syncs, self.starts = [], [], [], {}

    def add(self, subject, upstream):
        """Takes a subject in, once it gives the echo server's tools."""
        self.running.append(subject)
        subject.ready()
        idle_mb = subject.memory_mb()
        kinds = {"look": "read", "change": "write"} if subject.name.startswith(TOLLGATE) else {"look": ""}
        for tool, kind in kinds.items():
            self.series.append(Series(subject, upstream, subject.named(tool), kind, idle_mb=idle_mb))

    def start(self):
        """Everything, in front of the echo server over stdio, and again over HTTP."""
        echo, url = self.makers.echo_http()
        self.add(self.makers.echo(), "stdio")
        self.add(echo, "http")
        self.add(self.makers.bare(), "stdio")
        for upstream, address in (("stdio", None), ("http", url)):
            makers = self.makers
            for make in (makers.cargo, makers.pypi, makers.fastmcp, makers.contextforge, makers.reduced, makers.tollgate):
                self.add(make(address), upstream)

    def measure(self):
        """The rounds."""
        for number in range(self.options.rounds):
            say(f"round {number + 1} of {self.options.rounds}")
            self.syncs.append(sync_seconds(self.scratch))
            for series in self.series:
                series.one(self.options.seconds)
                series.many(self.options.seconds)
        for series in self.series:
            series.after_mb = series.subject.memory_mb()

    def stop(self):
        """Ends what runs."""
        for subject in self.running:
            subject.stop()
        stopped, self.running = self.running, []
        return stopped

    def check_ledgers(self, stopped):
        """Every call that was made is in Tollgate's ledger, once, as done; and the chain is whole."""
        records = calls = 0
        for subject in stopped:
            if not subject.name.startswith(TOLLGATE):
                continue
            made = sum(series.calls for series in self.series if series.subject is subject)
            command = [self.programs.tollgate, "audit", "verify", "--format", "json"]
            verified = subprocess.run(command, cwd=subject.folder, capture_output=True, text=True, timeout=120)
            report = json.loads(verified.stdout)
            events = count_events(subject.folder)
            if not report["ok"] or events != {"received": made, "decided": made, "started": made, "finished": made}:
                raise wire.Broken(f"{made} calls were made, and the ledger says {events} and {report}")
            if report["records"] != 4 * made:
                raise wire.Broken(f"{made} calls make {4 * made} records, and {report['records']} were verified")
            records, calls = records + report["records"], calls + made
        return calls, records

    def measure_starts(self):
        """From the start of the process until it listens, and until it has answered a handshake."""
        again = self.makers.folder()
        makers = {
            f"{TOLLGATE}, the first start in a folder": self.makers.tollgate,
            f"{TOLLGATE}, later": lambda: self.makers.tollgate(folder=again),
            CARGO: self.makers.cargo,
            PYPI: self.makers.pypi,
            FASTMCP: self.makers.fastmcp,
        }
        self.makers.tollgate(folder=again).ready().stop()
        for number in range(self.options.starts):
            say(f"start {number + 1} of {self.options.starts}")
            for name, make in makers.items():
                began = time.perf_counter()
                subject = make()
                self.running = [subject]
                listening = subject.until(subject.listens)
                answered = subject.until(subject.greeted)
                self.stop()
                self.starts.setdefault(name, []).append((listening - began, answered - began))


def count_events(folder):
    """How often each event stands in a ledger, calls that did not end well aside."""
    events = {}
    for segment in sorted((folder / ".tollgate/audit").glob("*.jsonl")):
        for line in segment.read_text().splitlines():
            record = json.loads(line)
            event = record["event"]
            if event == "finished" and record["outcome"]["status"] != "done":
                event = f"finished {record['outcome']}"
            events[event] = events.get(event, 0) + 1
    return events


def say(text):
    """Tells how far it is."""
    print(text, file=sys.stderr, flush=True)


def main():
    """The run."""
    chosen = options()
    with tempfile.TemporaryDirectory(dir=chosen.folder, prefix="peers-") as name:
        run = Run(chosen, pathlib.Path(name).resolve())
        try:
            run.start()
            run.measure()
            ledger = run.check_ledgers(run.stop())
            run.measure_starts()
        finally:
            run.stop()
    page = table.page(run, ledger)
    if chosen.out:
        pathlib.Path(chosen.out).write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()
