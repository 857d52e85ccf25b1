#!/usr/bin/env python3
"""A minute of churn: ten clients that come, go and break off, in front of ten servers of which six misbehave and some are
killed. The well-behaved ones must answer every call, and at the end no child, zombie, descriptor or session may be left.

Usage: churn.py TOLLGATE [SECONDS]
"""

import collections
import contextlib
import http.client
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

TOLLGATE = str(pathlib.Path(sys.argv[1]).resolve())
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 60.0
DOUBLE = pathlib.Path(__file__).resolve().parent.parent / "crates/tollgate-mcp/tests/it/upstream/double.py"
# Name: the double's character, and what it is asked to do. The first four must answer whatever the others do.
SERVERS = {
    "plain": (["legacy"], None),
    "modern": (["modern"], None),
    "noisy": (["noise"], None),
    "victim": (["legacy"], "killed"),
    "mortal": (["legacy"], "die"),
    "halfway": (["legacy"], "die halfway"),
    "silent": (["legacy"], "never"),
    "huge": (["legacy"], "huge"),
    "confused": (["legacy"], "wrong ids"),
    "slow": (["slow", "15"], None),
}
RELIABLE = ["plain", "modern", "noisy"]
# What one answer may take while everything else goes wrong.
PATIENCE_SECONDS = 10.0
MODERN = "2026-07-28"


def config():
    text = '[tools."mcp__silent__*"]\nexecution = { timeout_ms = 300 }\n'
    for name, (character, _) in SERVERS.items():
        args = json.dumps([str(DOUBLE), *character])
        text += f'[mcp.{name}]\ncommand = "python3"\nargs = {args}\n'
        text += f'[mcp.{name}.tools."*"]\nrisk = "read"\npermission = "read"\n'
    return text


class Tally:
    """What happened, by kind; shared by all clients."""

    def __init__(self):
        self.lock = threading.Lock()
        self.ends = collections.Counter()
        self.faults = []
        self.slowest = 0.0

    def end(self, kind):
        with self.lock:
            self.ends[kind] += 1

    def fault(self, text):
        with self.lock:
            self.faults.append(text)

    def took(self, seconds):
        with self.lock:
            self.slowest = max(self.slowest, seconds)


class Clients:
    """Ten clients of one server, each with its own habit."""

    def __init__(self, folder, port, key, tally):
        self.folder, self.port, self.tally = folder, port, tally
        self.key = {"Authorization": f"Bearer {key}"}
        self.until = time.monotonic() + SECONDS
        habits = [self.rest, self.rest, self.stateless, self.stateless, self.sessions, self.sessions]
        habits += [self.abandon, self.breaks_off, self.stdio, self.stdio]
        self.threads = [threading.Thread(target=self.live, args=(habit, seed)) for seed, habit in enumerate(habits)]

    def live(self, habit, seed):
        dice = random.Random(seed)
        while time.monotonic() < self.until:
            try:
                habit(dice)
            except Exception as error:  # a fault of any kind is what this test is about
                self.tally.fault(f"{habit.__name__}: {error!r}")

    def post(self, path, body, headers=None, timeout=60):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        with contextlib.closing(connection):
            accept = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
            connection.request("POST", path, json.dumps(body), {**self.key, **accept, **(headers or {})})
            response = connection.getresponse()
            text = response.read()
            return response, json.loads(text) if text else None

    def choose(self, dice):
        """A server, and arguments that make it do what it is there for."""
        name = dice.choice(list(SERVERS))
        do = SERVERS[name][1]
        return name, {"do": do} if do not in (None, "killed") and dice.random() < 0.5 else {"n": dice.randrange(10**9)}

    def judge(self, name, arguments, text, seconds):
        """A reliable server has answered with what was sent, in time."""
        if name in RELIABLE:
            self.tally.took(seconds)
            if text is None or json.loads(text) != arguments or seconds > PATIENCE_SECONDS:
                self.tally.fault(f"{name} answered {text!r} to {arguments} after {seconds:.1f} s")

    def rest(self, dice):
        name, arguments = self.choose(dice)
        began = time.monotonic()
        _, outcome = self.post("/api/v1/calls", {"tool": f"mcp__{name}__echo", "arguments": arguments})
        text = outcome["result"]["content"][0]["text"] if outcome["result"] else None
        self.judge(name, arguments, text, time.monotonic() - began)
        self.tally.end(f"rest {name} {outcome['error']['error'] if outcome['error'] else 'done'}")

    def call_over_mcp(self, dice, meta, headers):
        name, arguments = self.choose(dice)
        tool = f"mcp__{name}__echo"
        params = {"name": tool, "arguments": arguments, **meta}
        if meta:
            headers = {**headers, "Mcp-Method": "tools/call", "Mcp-Name": tool}
        began = time.monotonic()
        message = {"jsonrpc": "2.0", "id": dice.randrange(10**9), "method": "tools/call", "params": params}
        _, answer = self.post("/mcp", message, headers)
        result = answer["result"]
        text = None if result["isError"] else result["content"][0]["text"]
        self.judge(name, arguments, text, time.monotonic() - began)
        self.tally.end(f"mcp {name} {result['structuredContent']['error'] if result['isError'] else 'done'}")

    def stateless(self, dice):
        keys = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
        self.call_over_mcp(dice, {"_meta": keys}, {"MCP-Protocol-Version": MODERN})

    def open_session(self):
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        response, _ = self.post("/mcp", {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        return {"Mcp-Session-Id": response.getheader("Mcp-Session-Id"), "MCP-Protocol-Version": "2025-11-25"}

    def close_session(self, session):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        with contextlib.closing(connection):
            connection.request("DELETE", "/mcp", headers={**self.key, **session})
            assert connection.getresponse().status == 204
        self.tally.end("session")

    def sessions(self, dice):
        session = self.open_session()
        for _ in range(dice.randrange(1, 5)):
            self.call_over_mcp(dice, {}, session)
        self.close_session(session)

    def abandon(self, dice):
        """Asks in a session, hangs up, and closes the session while the call is under way."""
        session = self.open_session()
        self.hang_up(dice, "/mcp", session, {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}, "params", "name")
        self.close_session(session)

    def breaks_off(self, dice):
        self.hang_up(dice, "/api/v1/calls", {}, {}, None, "tool")

    def hang_up(self, dice, path, headers, body, within, name_key):
        name, arguments = self.choose(dice)
        call = {name_key: f"mcp__{name}__echo", "arguments": arguments}
        text = json.dumps({**body, within: call} if within else call).encode()
        lines = {**self.key, **headers, "Host": f"127.0.0.1:{self.port}", "Content-Type": "application/json"}
        lines |= {"Accept": "application/json, text/event-stream", "Content-Length": str(len(text))}
        head = f"POST {path} HTTP/1.1\r\n" + "".join(f"{key}: {value}\r\n" for key, value in lines.items()) + "\r\n"
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            cut = dice.choice([len(text), len(text), len(text) // 2])
            connection.sendall(head.encode() + text[:cut])
            time.sleep(dice.random() * 0.05)
        self.tally.end("hung up")

    def stdio(self, dice):
        """A process of its own on the same data folder, which ends in good order or is killed."""
        command = [TOLLGATE, "--quiet", "serve", "--stdio", "--tools", "calculate,mcp__plain__echo"]
        with subprocess.Popen(command, cwd=self.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
            call = {"name": "mcp__plain__echo", "arguments": {"n": 1}}
            for id, method, params in [(1, "initialize", params), (2, "tools/call", call)]:
                message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
                process.stdin.write(json.dumps(message).encode() + b"\n")
                process.stdin.flush()
                answer = json.loads(process.stdout.readline())
            assert answer["result"]["content"][0]["text"] == '{"n": 1}', answer
            if dice.random() < 0.5:
                process.kill()
        self.tally.end("stdio")


def status(pid, key):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return line.split()[1]
    return None


def processes(folder):
    """The processes that work in the folder or are zombies of one that does, with their parents and states."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            if os.readlink(entry / "cwd") == str(folder):
                found[int(entry.name)] = (int(status(entry.name, "PPid")), status(entry.name, "State"))
    return found


def children(parent):
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if int(status(entry.name, "PPid")) == parent:
                    found.append((int(entry.name), status(entry.name, "State")))
    return found


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def metric(port, key, name):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.closing(connection):
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {key}"})
        text = connection.getresponse().read().decode()
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.split(" ")[0].split("{")[0] == name)


def wait_for(what, fact, seconds=20):
    end = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.05)


def start(folder):
    command = [TOLLGATE, "serve", "--bind", "127.0.0.1:0"]
    server = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
    found = {}
    while len(found) < 3:
        words = server.stderr.readline().split()
        assert words or server.poll() is None, "the server did not start"
        if words[:1] and words[0] in ("MCP", "client", "operator"):
            found[words[0]] = words[1]
    threading.Thread(target=server.stderr.read, daemon=True).start()
    return server, int(found["MCP"].split(":")[2].split("/")[0]), found["client"], found["operator"]


def kill_victims(folder, server, until, tally):
    """From time to time one server's process dies by somebody else's hand."""
    while time.monotonic() < until:
        time.sleep(0.7)
        for pid, _ in children(server.pid):
            with contextlib.suppress(OSError):
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if b"killable" in words:
                    os.kill(pid, signal.SIGKILL)
                    tally.end("killed a server")


def warm(clients):
    """Every server was asked once, so that what is there at rest can be counted."""
    for name in SERVERS:
        clients.post("/api/v1/calls", {"tool": f"mcp__{name}__echo", "arguments": {}}, timeout=90)


def churn(folder, server, port, key, operator):
    tally = Tally()
    clients = Clients(folder, port, key, tally)
    warm(clients)
    at_rest, at_work = descriptors(server.pid), len(children(server.pid))
    clients.until = time.monotonic() + SECONDS
    killer = threading.Thread(target=kill_victims, args=(folder, server, clients.until, tally))
    for thread in [*clients.threads, killer]:
        thread.start()
    for thread in [*clients.threads, killer]:
        thread.join()
    print(", ".join(f"{count} × {kind}" for kind, count in sorted(tally.ends.items())))
    print(f"slowest answer of a server that behaves: {tally.slowest * 1000:.0f} ms")
    assert not tally.faults, f"{len(tally.faults)} faults, the first: {tally.faults[:5]}"
    assert tally.ends["killed a server"] > 0 and tally.ends["session"] > 0 and tally.ends["stdio"] > 0

    wait_for("no call is under way", lambda: metric(port, operator, "tollgate_calls_in_flight") == 0)
    assert metric(port, operator, "tollgate_mcp_sessions") == 0, "sessions are left"
    warm(clients)
    wait_for("only this server's own processes", lambda: set(processes(folder)) <= {server.pid, *own(server)})
    living = children(server.pid)
    assert len(living) <= at_work and all(state != "Z" for _, state in living), living
    wait_for(f"{at_rest} descriptors", lambda: descriptors(server.pid) <= at_rest)
    print(f"left: {len(living)} of {at_work} processes, {descriptors(server.pid)} of {at_rest} descriptors, no session")

    server.send_signal(signal.SIGTERM)
    assert server.wait(30) == 0
    wait_for("no process is left", lambda: not processes(folder))
    verified = subprocess.run([TOLLGATE, "audit", "verify"], cwd=folder, capture_output=True, text=True)
    assert verified.returncode == 0, verified.stdout
    print(f"went down in good order; {json.loads(verified.stdout)['records']} records, verified")


def main():
    SERVERS["victim"] = (["legacy", "killable"], None)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        (folder / "tollgate.toml").write_text(config())
        server, port, key, operator = start(folder)
        try:
            churn(folder, server, port, key, operator)
        finally:
            server.kill()


def own(server):
    return [pid for pid, _ in children(server.pid)]


main()
