#!/usr/bin/env python3
"""A minute of churn: ten clients that come, go and break off, in front of ten servers of which six misbehave and some are
killed. The well-behaved ones must answer every call, and at the end no child, zombie, descriptor or session may be left.

Usage: churn.py TOLLGATE [SECONDS]
"""

import contextlib
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

import serving
from serving import Server, Tally, children, descriptors, wait_for, working_in

TOLLGATE = str(pathlib.Path(sys.argv[1]).resolve())
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 60.0
DOUBLE = pathlib.Path(__file__).resolve().parent.parent / "crates/tollgate-testkit/src/servers/hostile.py"
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


def config():
    text = '[tools."mcp__silent__*"]\nexecution = { timeout_ms = 300 }\n'
    for name, (character, _) in SERVERS.items():
        args = json.dumps([str(DOUBLE), *character])
        text += f'[mcp.{name}]\ncommand = "python3"\nargs = {args}\n'
        text += f'[mcp.{name}.tools."*"]\nrisk = "read"\npermission = "read"\n'
    return text


class Clients:
    """Ten clients of one server, each with its own habit."""

    def __init__(self, server, tally):
        self.server, self.tally = server, tally
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

    def choose(self, dice):
        """A server, and arguments that make it do what it is there for."""
        name = dice.choice(list(SERVERS))
        do = SERVERS[name][1]
        return name, {"do": do} if do not in (None, "killed") and dice.random() < 0.5 else {"n": dice.randrange(10**9)}

    def judge(self, name, arguments, text, seconds):
        """A reliable server has answered with what was sent, in time."""
        if name in RELIABLE:
            self.tally.took("reliable", seconds)
            if text is None or json.loads(text) != arguments or seconds > PATIENCE_SECONDS:
                self.tally.fault(f"{name} answered {text!r} to {arguments} after {seconds:.1f} s")

    def rest(self, dice):
        name, arguments = self.choose(dice)
        began = time.monotonic()
        outcome = self.server.call(f"mcp__{name}__echo", arguments)
        text = outcome["result"]["content"][0]["text"] if outcome["result"] else None
        self.judge(name, arguments, text, time.monotonic() - began)
        self.tally.end(f"rest {name} {outcome['error']['error'] if outcome['error'] else 'done'}")

    def over_mcp(self, dice, session):
        name, arguments = self.choose(dice)
        began = time.monotonic()
        result = self.server.call_over_mcp(dice.randrange(10**9), f"mcp__{name}__echo", arguments, session)
        text = None if result.get("isError") else result["content"][0]["text"]
        self.judge(name, arguments, text, time.monotonic() - began)
        self.tally.end(f"mcp {name} {result['structuredContent']['error'] if result.get('isError') else 'done'}")

    def stateless(self, dice):
        self.over_mcp(dice, None)

    def close_session(self, session):
        self.server.close_session(session)
        self.tally.end("session")

    def sessions(self, dice):
        session = self.server.open_session()
        for _ in range(dice.randrange(1, 5)):
            self.over_mcp(dice, session)
        self.close_session(session)

    def abandon(self, dice):
        """Asks in a session, hangs up, and closes the session while the call is under way."""
        session = self.server.open_session()
        self.hang_up(dice, "/mcp", session, {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}, "params", "name")
        self.close_session(session)

    def breaks_off(self, dice):
        self.hang_up(dice, "/api/v1/calls", {}, {}, None, "tool")

    def hang_up(self, dice, path, headers, body, within, name_key):
        name, arguments = self.choose(dice)
        call = {name_key: f"mcp__{name}__echo", "arguments": arguments}
        text = json.dumps({**body, within: call} if within else call).encode()
        lines = {"Authorization": f"Bearer {self.server.key}", **headers, "Host": f"127.0.0.1:{self.server.port}"}
        lines |= {"Content-Type": "application/json"}
        lines |= {"Accept": "application/json, text/event-stream", "Content-Length": str(len(text))}
        head = f"POST {path} HTTP/1.1\r\n" + "".join(f"{key}: {value}\r\n" for key, value in lines.items()) + "\r\n"
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=30) as connection:
            cut = dice.choice([len(text), len(text), len(text) // 2])
            connection.sendall(head.encode() + text[:cut])
            time.sleep(dice.random() * 0.05)
        self.tally.end("hung up")

    def stdio(self, dice):
        """A process of its own on the same data folder, which ends in good order or is killed."""
        command = [TOLLGATE, "--quiet", "serve", "--stdio", "--tools", "calculate,mcp__plain__echo"]
        with subprocess.Popen(command, cwd=self.server.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            call = {"name": "mcp__plain__echo", "arguments": {"n": 1}}
            for message in [serving.initialize(1), {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}]:
                process.stdin.write(json.dumps(message).encode() + b"\n")
                process.stdin.flush()
                answer = json.loads(process.stdout.readline())
            assert answer["result"]["content"][0]["text"] == '{"n": 1}', answer
            if dice.random() < 0.5:
                process.kill()
        self.tally.end("stdio")


def kill_victims(server, until, tally):
    """From time to time one server's process dies by somebody else's hand."""
    while time.monotonic() < until:
        time.sleep(0.7)
        for pid, _ in children(server.pid):
            with contextlib.suppress(OSError):
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if b"killable" in words:
                    os.kill(pid, signal.SIGKILL)
                    tally.end("killed a server")


def warm(server):
    """Every server was asked once, so that what is there at rest can be counted."""
    for name in SERVERS:
        server.call(f"mcp__{name}__echo", {}, timeout=90)


def churn(server, operator):
    tally = Tally()
    warm(server)
    clients = Clients(server, tally)
    at_rest, at_work = len(descriptors(server.pid)), len(children(server.pid))
    killer = threading.Thread(target=kill_victims, args=(server, clients.until, tally))
    for thread in [*clients.threads, killer]:
        thread.start()
    for thread in [*clients.threads, killer]:
        thread.join()
    print(tally.shown())
    print(f"slowest answer of a server that behaves: {tally.slowest['reliable'] * 1000:.0f} ms")
    assert not tally.faults, f"{len(tally.faults)} faults, the first: {tally.faults[:5]}"
    assert tally.ends["killed a server"] > 0 and tally.ends["session"] > 0 and tally.ends["stdio"] > 0

    wait_for("no call is under way", lambda: server.metric(operator, "tollgate_calls_in_flight") == 0)
    assert server.metric(operator, "tollgate_mcp_sessions") == 0, "sessions are left"
    warm(server)
    wait_for("only this server's own processes", lambda: set(working_in(server.folder)) <= {server.pid, *own(server)})
    living = children(server.pid)
    assert len(living) <= at_work and all(state != "Z" for _, state in living), living
    wait_for(f"{at_rest} descriptors", lambda: len(descriptors(server.pid)) <= at_rest)
    left = f"{len(living)} of {at_work} processes, {len(descriptors(server.pid))} of {at_rest} descriptors, no session"
    print(f"left: {left}")

    server.stop()
    code, report = serving.run(TOLLGATE, server.folder, "audit", "verify")
    assert code == 0, report
    print(f"went down in good order; {report['records']} records, verified")


def own(server):
    return [pid for pid, _ in children(server.pid)]


def main():
    SERVERS["victim"] = (["legacy", "killable"], None)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        (folder / "tollgate.toml").write_text(config())
        operator = serving.new_key(TOLLGATE, folder, "operator", "--operator")
        server = Server(TOLLGATE, folder, serving.new_key(TOLLGATE, folder, "client", "--role", "reader"))
        try:
            churn(server, operator)
        finally:
            server.kill()


main()
