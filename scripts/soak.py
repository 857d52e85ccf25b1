#!/usr/bin/env python3
"""Ten agents in front of upstreams that fail in every way: four `tollgate run` with scripted models, three clients over MCP and
three over REST of one `tollgate serve`. The MCP servers, HTTP tools and programs behind it delay, hang, drip, reset, answer
by halves, flood, lie, refuse and die. From time to time everybody pauses and what the server holds is counted; of the three
thirds of the time the last must hold no more memory, descriptors, sockets, threads and children than the middle one. Every
call must end in its time, every attempt in the ledger once, and no process may be left.

Usage: soak.py TOLLGATE [SECONDS]      60 unless said; `TOLLGATE_SEED` says the dice's seed
"""

import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import faulty
import serving
from serving import Server, Tally, children, descriptors, wait_for, working_in

TOLLGATE = str(pathlib.Path(sys.argv[1]).resolve())
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 60.0
SEED = int(os.environ.get("TOLLGATE_SEED", time.time_ns() % 1_000_000))
ROOT = pathlib.Path(__file__).resolve().parent.parent
DOUBLE = ROOT / "crates/tollgate-testkit/src/servers/hostile.py"
MODEL = pathlib.Path(TOLLGATE).parent / "examples/model_server"
# How long everybody works between two counts.
WORK_SECONDS = max(2.0, SECONDS / 30)
# The configuration lets no call take longer than this: for its turn, its tries, its fallback, and the grace of a program.
CAP_SECONDS = 1.5 + 3.0 + 0.75
# What a machine under load may add to it.
PATIENCE_SECONDS = 15.0
# What one MCP server that runs takes: itself and what watches over it; two handles of processes, four pipes.
SERVER_PROCESSES, SERVER_DESCRIPTORS = 2, 6
# What the last third may hold beyond the middle one: memory is given back in pieces, and connections and threads are kept
# for a while. What leaks with each call comes to hundreds.
SLACK = {"memory": 6 << 20, "descriptors": 4, "sockets": 4, "threads": 4, "connections": 4}
# glibc keeps the room of large answers for the next ones, the more the longer it runs. Told so it gives each back, and what is
# counted is what the server holds.
GIVES_BACK = {"MALLOC_MMAP_THRESHOLD_": "262144", "MALLOC_TRIM_THRESHOLD_": "262144"}
PROGRAM = r"""
read -r line
case "$line" in
    *fine*) echo "$line";;
    *hang*) sleep 60 & sleep 60;;
    *stubborn*) trap '' TERM; while :; do sleep 0.05; done;;
    *drip*) while :; do echo drip; sleep 0.05; done;;
    *flood*) yes "a line of many";;
    *die*) kill -9 $$;;
    *half*) printf '{"a": [1, 2';;
    *binary*) printf '\377\376';;
    *) echo "\033[31mno such order\033[0m" >&2; exit 3;;
esac
"""
# What each tool can be asked to do. An MCP server's process is the double that its own tests know.
DOUBLE_FAULTS = ["fine", "never", "huge", "wrong ids", "deep", "big", "fail", "refuse", "ask", "progress"]
PROGRAM_FAULTS = ["fine", "hang", "stubborn", "drip", "flood", "die", "half", "binary", "fail"]
TOOLS = {
    "ask_http": faulty.FAULTS, "post_http": faulty.FAULTS, "mcp__remote__echo": faulty.FAULTS,
    "mcp__double__echo": DOUBLE_FAULTS, "mcp__mortal__echo": ["fine", "die", "die halfway"], "run_program": PROGRAM_FAULTS,
}


def config(port):
    """Short times, so that much goes wrong in a minute; a breaker that opens, and shuts again soon."""
    asks = 'input_schema = { type = "object", properties = { do = { type = "string" } }, required = ["do"] }'
    times = "{ timeout_ms = 500, idle_timeout_ms = 300, queue_timeout_ms = 1500, total_timeout_ms = 3000 }"
    text = f"""
role = "clerk"
[roles.clerk]
tools = ["*"]
risk = "dangerous"
permission = "system"
ask = "never"
repeats = 1000000000
[resilience]
breaker = {{ failures = 20, open_ms = 200 }}
on_error = {{ default = {{}}, network_error = {{ retry = {{ max = 2, pause_ms = 20 }} }} }}
[results]
bytes_max = 67108864
[[tool]]
name = "ask_http"
description = "Asks a server."
http = {{ method = "GET", url = "http://127.0.0.1:{port}/{{do}}" }}
risk = "read"
execution = {times}
{asks}
[[tool]]
name = "post_http"
description = "Changes something at a server."
http = {{ method = "POST", url = "http://127.0.0.1:{port}/{{do}}" }}
risk = "write"
execution = {times}
on_error = {{ default = {{ fallback = {{ tool = "ask_http" }} }} }}
{asks}
[[tool]]
name = "run_program"
description = "Runs a program."
command = ["sh", "-c", {json.dumps(PROGRAM)}]
risk = "read"
execution = {times}
{asks}
[tools."mcp__*"]
risk = "read"
execution = {times}
[mcp.remote]
url = "http://127.0.0.1:{port}/mcp"
"""
    for name in ("double", "mortal"):
        text += f'[mcp.{name}]\ncommand = "python3"\nargs = {json.dumps([str(DOUBLE), "legacy", name])}\n'
    return text


class Upstream:
    """faulty.py, which is killed and comes back at the same place."""

    def __init__(self):
        self.port, self.process = 0, None
        self.start()

    def start(self):
        command = [sys.executable, str(ROOT / "scripts/faulty.py"), str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def open_connections(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/open", timeout=10) as response:
            return int(response.read())


class Agents:
    """Ten of them, who all stop between two lives when they are told to pause."""

    def __init__(self, server, tally):
        self.server, self.tally = server, tally
        self.over, self.go = False, threading.Event()
        self.lock, self.at_work = threading.Lock(), 0
        self.told = {}
        habits = [self.model] * 4 + [self.rest, self.rest, self.hangs_up] + [self.session, self.session, self.stateless]
        self.threads = [threading.Thread(target=self.live, args=(habit, place)) for place, habit in enumerate(habits)]

    def live(self, habit, place):
        dice = random.Random(SEED * 100 + place)
        while self.go.wait() and not self.over:
            with self.lock:
                self.at_work += 1
            try:
                habit(dice, place)
            except Exception as error:  # whatever it is, it is what this test is about
                self.tally.fault(f"{habit.__name__}: {error!r}")
            with self.lock:
                self.at_work -= 1

    def work(self, seconds):
        self.go.set()
        time.sleep(seconds)
        self.go.clear()
        wait_for("everybody pauses", lambda: self.at_work == 0, 120)

    def end(self):
        self.over = True
        self.go.set()
        for thread in self.threads:
            thread.join()

    def choose(self, dice):
        tool = dice.choice(list(TOOLS))
        return tool, {"do": "fine" if dice.random() < 0.3 else dice.choice(TOOLS[tool])}

    def count(self, way, tool, arguments, error, seconds):
        self.tally.took(way, seconds)
        self.tally.end(f"{tool} {error or 'done'}")
        if seconds > CAP_SECONDS + PATIENCE_SECONDS:
            self.tally.fault(f"{tool} {arguments} over {way} took {seconds:.1f} s")

    def rest(self, dice, _):
        tool, arguments = self.choose(dice)
        began = time.monotonic()
        outcome = self.server.call(tool, arguments)
        error = outcome["error"]["error"] if outcome["error"] else None
        self.count("rest", tool, arguments, error, time.monotonic() - began)
        self.told[outcome["attempt"]] = outcome["status"]

    def hangs_up(self, dice, _):
        """Goes away before it has its answer."""
        tool, arguments = self.choose(dice)
        with contextlib.suppress(OSError):
            self.server.call(tool, arguments, timeout=dice.random() * 0.3 + 0.001)
        self.tally.end("hung up")

    def over_mcp(self, dice, session):
        tool, arguments = self.choose(dice)
        began = time.monotonic()
        result = self.server.call_over_mcp(dice.randrange(10**9), tool, arguments, session)
        error = result["structuredContent"]["error"] if result.get("isError") else None
        self.count("mcp", tool, arguments, error, time.monotonic() - began)

    def stateless(self, dice, _):
        self.over_mcp(dice, None)

    def session(self, dice, _):
        session = self.server.open_session()
        for _ in range(dice.randrange(1, 4)):
            self.over_mcp(dice, session)
        self.server.close_session(session)

    def model(self, dice, place):
        """A `tollgate run` of its own, whose model asks for calls side by side and then has an answer."""
        folder = self.server.folder
        script, file = folder / f"script-{place}.jsonl", folder / f"agent-{place}.toml"
        script.write_text("".join(f"{json.dumps({'turn': turn})}\n" for turn in self.turns(dice)))
        with subprocess.Popen([MODEL, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as model:
            url = model.stdout.readline().strip()
            text = (folder / "tollgate.toml").read_text()
            file.write_text(f'{text}[models.default]\nbase_url = "{url}"\nmodel = "scripted"\n')
            began = time.monotonic()
            command = [TOLLGATE, "--config", file, "run", "go on", "--json"]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
            model.send_signal(signal.SIGTERM)
            _, said = model.communicate(timeout=30)
        self.tally.took("run", time.monotonic() - began)
        self.tally.end(f"run {done.returncode}")
        if done.returncode != 0 or model.returncode != 0:
            self.tally.fault(f"a run ended with {done.returncode}: {done.stdout[-500:]} {done.stderr} {said}")

    def turns(self, dice):
        for turn in range(2):
            asked = [self.choose(dice) for _ in range(3)]
            yield {"calls": [{"id": f"call_{turn}_{place}", "name": tool, "arguments": arguments}
                             for place, (tool, arguments) in enumerate(asked)]}
        yield {"text": "done"}


def kills(server, upstream, is_over, tally):
    """From time to time an upstream dies by somebody else's hand."""
    while not is_over.wait(2):
        upstream.kill()
        tally.end("killed an HTTP server")
        upstream.start()
        for pid, _ in children(server.pid):
            with contextlib.suppress(OSError):
                if b"mortal" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                    os.kill(pid, signal.SIGKILL)
                    tally.end("killed an MCP server")


def is_server(pid):
    """Whether a child is an MCP server itself, and not what watches over one."""
    with contextlib.suppress(OSError):
        return b"legacy" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return False


def held(server, upstream, operator):
    """What the server holds while nobody asks, beyond what the MCP servers take that are up: of two that it starts, one dies all
    the time and may have to wait for its next start."""
    wait_for("no call is under way", lambda: server.metric(operator, "tollgate_calls_in_flight") == 0)
    for tool in TOOLS:
        server.call(tool, {"do": "fine"})
    own = lambda: {pid for pid, _ in children(server.pid)}
    wait_for("no process of others", lambda: set(working_in(server.folder)) <= {server.pid, *own()})
    places, held_by = descriptors(server.pid), children(server.pid)
    up = sum(is_server(pid) for pid, _ in held_by)
    return {
        "memory": int(serving.status(server.pid, "RssAnon")) * 1024,
        "descriptors": len(places) - up * SERVER_DESCRIPTORS,
        "sockets": sum(place.startswith("socket:") for place in places),
        "threads": int(serving.status(server.pid, "Threads")),
        "children": len(held_by) - up * SERVER_PROCESSES,
        "zombies": sum(state == "Z" for _, state in held_by),
        "sessions": int(server.metric(operator, "tollgate_mcp_sessions")),
        "connections": upstream.open_connections(),
    }


def growth(counts):
    """What the last third holds beyond the middle one. The least of a third counts: what leaks is never given back."""
    third = len(counts) // 3
    middle, last = counts[third:2 * third], counts[2 * third:]
    for what in counts[0]:
        before, after = (min(one[what] for one in part) for part in (middle, last))
        if after > before + SLACK.get(what, 0):
            yield f"{what} grew from {before} to {after}: {[one[what] for one in counts]}"
    for what in ("zombies", "sessions"):
        if any(one[what] for one in counts):
            yield f"{what} are left: {[one[what] for one in counts]}"


def ledger_faults(folder, told):
    """Each attempt was received once, started at most once, and ended once, as its asker was told."""
    lives, ends = {}, {}
    places = {"received": 1, "started": 10, "finished": 100, "waiting": 100}
    for record in serving.records(folder):
        if record["event"] in places:
            attempt = record["attempt"]
            lives[attempt] = lives.get(attempt, 0) + places[record["event"]]
            if places[record["event"]] == 100 and attempt in told:
                ends[attempt] = record["outcome"]["status"]
    wrong = {attempt: life for attempt, life in lives.items() if life not in (101, 111)}
    if wrong:
        yield f"{len(wrong)} attempts without one end: {list(wrong.items())[:5]}"
    differ = [attempt for attempt, status in told.items() if ends.get(attempt) != status]
    if differ:
        yield f"{len(differ)} were told what the record does not say: {differ[:5]}"
    code, report = serving.run(TOLLGATE, folder, "audit", "verify")
    if code != 0:
        yield f"the ledger does not verify: {report}"


def soak(server, upstream, operator, tally):
    """What was counted, and what was told to whom."""
    agents, is_over, counts = Agents(server, tally), threading.Event(), []
    for thread in agents.threads:
        thread.start()
    try:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end or len(counts) < 6:
            is_over.clear()
            killer = threading.Thread(target=kills, args=(server, upstream, is_over, tally))
            killer.start()
            agents.work(WORK_SECONDS)
            is_over.set()
            killer.join()
            counts.append(held(server, upstream, operator))
    finally:
        is_over.set()
        agents.end()
    return counts, agents.told


def main():
    if not MODEL.exists():
        sys.exit(f"{MODEL} is not there: cargo build -p tollgate-testkit --example model_server (with --release beside a release)")
    began, tally, upstream = time.monotonic(), Tally(), Upstream()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        (folder / "tollgate.toml").write_text(config(upstream.port))
        operator = serving.new_key(TOLLGATE, folder, "operator", "--operator")
        server = Server(TOLLGATE, folder, serving.new_key(TOLLGATE, folder, "clerk", "--role", "clerk"), **GIVES_BACK)
        try:
            counts, told = soak(server, upstream, operator, tally)
            server.stop()
            faults = [*tally.faults, *growth(counts), *ledger_faults(folder, told)]
        finally:
            server.kill()
            upstream.kill()
    print(tally.shown())
    for fault in faults[:20]:
        print(f"FAIL  {fault}")
    last = counts[-1]
    print(json.dumps({
        "seconds": round(time.monotonic() - began), "seed": SEED, "calls": sum(tally.ends.values()), "counts": len(counts),
        "slowest": {way: round(seconds, 1) for way, seconds in tally.slowest.items()},
        "memory_mib": [round(one["memory"] / (1 << 20)) for one in counts], "descriptors": last["descriptors"], "children": last["children"],
        "faults": len(faults),
    }))
    raise SystemExit(1 if faults else 0)


if __name__ == "__main__":
    main()
