#!/usr/bin/env python3
"""`kill -9` at any moment, under load: two servers share a data folder, eight clients keep both busy, and again and again one
of the two is killed and started anew. At the end nothing that was acknowledged may be missing, no write may have happened
twice under its key, each start without an end must have been reported, and the chain must verify by our verifier and by
examples/verify_ledger.py.

Usage: kills.py TOLLGATE [KILLS [SECONDS]]      50 kills, however long they take; `TOLLGATE_SEED` says the dice's seed
"""

import collections
import http.client
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import threading
import time

import serving
from serving import Server, records

TOLLGATE = str(pathlib.Path(sys.argv[1]).resolve())
KILLS = int(sys.argv[2]) if len(sys.argv) > 2 else 50
SECONDS = float(sys.argv[3]) if len(sys.argv) > 3 else float("inf")
SEED = int(os.environ.get("TOLLGATE_SEED", time.time_ns() % 1_000_000))
VERIFIER = pathlib.Path(__file__).resolve().parent.parent / "examples/verify_ledger.py"
# How long a server may live before it is killed.
LIFE_SECONDS = 0.4
# How often what a dead server left is compared with what the next one reports.
LOOK_EVERY = max(1, KILLS // 20)
CONFIG = """
role = "clerk"
[roles.clerk]
tools = ["*"]
risk = "dangerous"
permission = "system"
ask = "never"
[[tool]]
name = "append"
description = "Puts a line at the end of a file."
command = ["sh", "-c", "read -r line; echo \\"$line\\" >> effects"]
input_schema = { type = "object", properties = { n = { type = "integer" } }, required = ["n"] }
risk = "write"
permission = "write"
"""


class Clients:
    """Ask for writes under keys, for some of them again, and for reads, of whichever server answers."""

    def __init__(self, servers):
        self.servers = servers
        self.lock, self.next, self.over = threading.Lock(), 0, False
        # By attempt, what was told; the key's numbers that were asked for and not answered.
        self.told, self.open, self.faults = {}, [], []
        self.threads = [threading.Thread(target=self.work, args=(place,)) for place in range(8)]
        for thread in self.threads:
            thread.start()

    def work(self, place):
        dice = random.Random(SEED * 100 + place)
        while not self.over:
            with self.lock:
                again = self.open and dice.random() < 0.3
                number = self.open.pop(dice.randrange(len(self.open))) if again else self.next
                self.next += not again
            if not again and dice.random() < 0.2:
                body = {"tool": "calculate", "arguments": {"expression": f"{number} + 1"}}
            else:
                body = {"tool": "append", "arguments": {"n": number}, "idempotency_key": f"key-{number}"}
            outcome = self.ask(self.servers[dice.randrange(2)], body)
            with self.lock:
                if outcome is None or outcome["attempt"] is None:
                    self.open += [number] * ("idempotency_key" in body)
                else:
                    self.told[outcome["attempt"]] = outcome["status"]
                    if outcome["status"] not in ("done", "unknown") and not outcome["error"]["retryable"]:
                        self.faults.append(f"{body}: {outcome}")

    def ask(self, server, body):
        try:
            response, outcome = server.post("/api/v1/calls", body)
            return outcome if response.status == 200 else None
        except (OSError, http.client.HTTPException, ValueError):
            return None

    def end(self):
        self.over = True
        for thread in self.threads:
            thread.join()


def run(folder, *args):
    return serving.run(TOLLGATE, folder, *args)


class Lives:
    """What the ledger says of each attempt."""

    def __init__(self, folder):
        self.received, self.started, self.ended = {}, {}, {}
        places = {"received": self.received, "started": self.started, "finished": self.ended, "waiting": self.ended}
        for record in records(folder):
            if record["event"] in places:
                arguments = record.get("arguments")
                kept = {
                    "boot": record["boot"], "tool": record["tool"]["name"], "outcome": record.get("outcome"),
                    "note": record.get("note", ""), "n": arguments.get("n") if isinstance(arguments, dict) else None,
                }
                places[record["event"]].setdefault(record["attempt"], []).append(kept)

    def open_of(self, boot):
        """The attempts that a process left without an end, started or not."""
        left = [attempt for attempt, found in self.received.items() if found[0]["boot"] == boot]
        return {attempt: attempt in self.started for attempt in left if attempt not in self.ended}


def boots(folder):
    return {path.stem for path in (folder / ".tollgate/boot").glob("*.lock")}


def unknown_of(lives):
    """The attempts that were started by a process that died."""
    return {attempt for attempt, found in lives.ended.items() if found[0]["note"].startswith("the process ended while")}


def faults(folder, clients, reported):
    """Everything that is not as it must be."""
    lives = Lives(folder)
    # A server that died before it had told its program everything leaves half a line, or none.
    lines = (folder / "effects").read_text().splitlines()
    effects = [json.loads(line)["n"] for line in lines if line.endswith("}")]
    for attempt, found in lives.received.items():
        counts = (len(found), len(lives.started.get(attempt, [])), len(lives.ended.get(attempt, [])))
        if counts not in ((1, 0, 1), (1, 1, 1)):
            yield f"{attempt}: received, started and ended {counts} times"
    for attempt, status in clients.told.items():
        end = lives.ended.get(attempt, [{"outcome": None}])[0]["outcome"]
        if not end or end["status"] != status:
            yield f"{attempt} was told `{status}`, and the record says {end}"
    for number, times in collections.Counter(effects).items():
        if times > 1:
            yield f"key-{number} happened {times} times"
    asked = {attempt: found[0]["n"] for attempt, found in lives.received.items() if found[0]["tool"] == "append"}
    started = {number for attempt, number in asked.items() if attempt in lives.started}
    if not set(effects) <= started:
        yield f"happened without `started`: {set(effects) - started}"
    done = {asked[attempt] for attempt, status in clients.told.items() if status == "done" and attempt in asked}
    if not done <= set(effects):
        yield f"told as done and did not happen: {done - set(effects)}"
    unknown = unknown_of(lives)
    listed = {one["attempt"] for one in run(folder, "audit", "settle")[1]}
    if unknown != listed or not reported <= unknown:
        yield f"unfinished starts: {len(reported)} were left, {len(unknown)} are unknown, {len(listed)} are listed"
    yield from clients.faults
    code, report = run(folder, "audit", "verify")
    if code != 0:
        yield f"the ledger does not verify: {report}"
    check = subprocess.run([sys.executable, VERIFIER, folder / ".tollgate"], capture_output=True, text=True)
    if check.returncode != 0:
        yield f"examples/verify_ledger.py: {check.stdout}{check.stderr}"


def main():
    dice, began = random.Random(SEED), time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "tollgate.toml").write_text(CONFIG)
        key = serving.new_key(TOLLGATE, folder, "clerk", "--role", "clerk")
        servers = [Server(TOLLGATE, folder, key), Server(TOLLGATE, folder, key)]
        clients = Clients(servers)
        kills, reported = 0, set()
        try:
            while kills < KILLS and time.monotonic() - began < SECONDS:
                time.sleep(dice.random() * LIFE_SECONDS)
                victim, before = dice.randrange(2), boots(folder)
                servers[victim].kill()
                kills += 1
                if kills % LOOK_EVERY == 0:
                    # Who of the two it was is seen by whose mark the next one takes away.
                    left = {boot: Lives(folder).open_of(boot) for boot in before}
                servers[victim] = Server(TOLLGATE, folder, key)
                if kills % LOOK_EVERY == 0:
                    dead = before - boots(folder)
                    reported |= {attempt for boot in dead for attempt, started in left[boot].items() if started}
                if sys.stdout.isatty():
                    print(f"\r{kills} kills", end="", flush=True)
        finally:
            clients.end()
            for server in servers:
                server.kill()
        # The last opening ends what the last two left; a program that outlived its server is done by then.
        run(folder, "call", "append", '{"n": -1}', "--idempotency-key", "last")
        time.sleep(1)
        found = list(faults(folder, clients, reported))
        ends = list(clients.told.values())
        unknown = len(unknown_of(Lives(folder)))
    for fault in found[:20]:
        print(f"FAIL  {fault}")
    print(json.dumps({
        "kills": kills, "seconds": round(time.monotonic() - began), "seed": SEED, "acknowledged": len(ends),
        "done": ends.count("done"), "unknown": unknown, "faults": len(found),
    }))
    raise SystemExit(1 if found or not ends else 0)


if __name__ == "__main__":
    main()
