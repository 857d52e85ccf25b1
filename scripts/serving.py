"""A `tollgate serve` under test, as scripts see it: started on a port that the system gives, asked over HTTP, and counted from
outside. churn.py, kills.py and soak.py share it."""

import collections
import contextlib
import http.client
import json
import os
import pathlib
import signal
import subprocess
import threading
import time

# What a client of MCP sends along in a call without a session.
STATELESS = "2026-07-28"
SESSIONS = "2025-11-25"


def run(tollgate, folder, *args):
    """A command's exit status, and what it printed as JSON."""
    done = subprocess.run([tollgate, "--format", "json", *args], cwd=folder, capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout or "null")


def new_key(tollgate, folder, name, *options):
    return run(tollgate, folder, "keys", "create", name, *options)[1]["key"]


class Server:
    """`tollgate serve` in a folder; its clients hold `key`."""

    def __init__(self, tollgate, folder, key, **env):
        self.tollgate, self.folder, self.key = tollgate, folder, key
        self.process = subprocess.Popen(
            [tollgate, "serve", "--bind", "127.0.0.1:0"],
            cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
            env={**os.environ, **env},
        )
        # It may first tell what was left unfinished.
        said = []
        for line in iter(self.process.stderr.readline, ""):
            said.append(line)
            if "http://" in line:
                break
        else:
            raise SystemExit(f"FAIL  a server did not start, and ended with {self.process.wait()}\n{''.join(said)}")
        self.port = int(line.split("http://")[1].split(" ")[0].rsplit(":", 1)[1])
        # Its log must not fill the pipe.
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    @property
    def pid(self):
        return self.process.pid

    def send(self, method, path, body=None, headers=None, timeout=60):
        """The answer to one request on a connection of its own, read to its end."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        with contextlib.closing(connection):
            connection.request(method, path, body, {"Authorization": f"Bearer {self.key}", **(headers or {})})
            response = connection.getresponse()
            return response, response.read()

    def post(self, path, body, headers=None, timeout=60):
        accept = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        response, text = self.send("POST", path, json.dumps(body), {**accept, **(headers or {})}, timeout)
        if response.getheader("Content-Type") == "text/event-stream":
            # What takes long is answered by a stream, whose last event is the answer.
            events = [line for line in text.splitlines() if line.startswith(b"data:")]
            text = events[-1].removeprefix(b"data:")
        return response, json.loads(text) if text else None

    def call(self, tool, arguments, timeout=60, **more):
        """The outcome of one call over REST."""
        return self.post("/api/v1/calls", {"tool": tool, "arguments": arguments, **more}, timeout=timeout)[1]

    def call_over_mcp(self, id, tool, arguments, session=None, timeout=60):
        """The result of one call over MCP, in a session or without one."""
        params = {"name": tool, "arguments": arguments}
        headers = session
        if session is None:
            keys = {"io.modelcontextprotocol/protocolVersion": STATELESS, "io.modelcontextprotocol/clientCapabilities": {}}
            params["_meta"] = keys
            headers = {"MCP-Protocol-Version": STATELESS, "Mcp-Method": "tools/call", "Mcp-Name": tool}
        message = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}
        return self.post("/mcp", message, headers, timeout)[1]["result"]

    def open_session(self):
        response, _ = self.post("/mcp", initialize(0))
        return {"Mcp-Session-Id": response.getheader("Mcp-Session-Id"), "MCP-Protocol-Version": SESSIONS}

    def close_session(self, session):
        response, _ = self.send("DELETE", "/mcp", headers=session)
        assert response.status == 204, response.status

    def metric(self, key, name):
        text = self.send("GET", "/metrics", headers={"Authorization": f"Bearer {key}"})[1].decode()
        return sum(float(line.split()[-1]) for line in text.splitlines() if line.split(" ")[0].split("{")[0] == name)

    def stop(self):
        """Ends it as an operator does; everything that it started is gone then."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(30) == 0, "the server did not go down in good order"
        wait_for("no process is left", lambda: not working_in(self.folder))

    def kill(self):
        self.process.kill()
        self.process.wait()


def initialize(id):
    params = {"protocolVersion": SESSIONS, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    return {"jsonrpc": "2.0", "id": id, "method": "initialize", "params": params}


class Tally:
    """What happened, by kind; shared by all clients."""

    def __init__(self):
        self.lock = threading.Lock()
        self.ends = collections.Counter()
        self.faults = []
        self.slowest = collections.Counter()

    def end(self, kind):
        with self.lock:
            self.ends[kind] += 1

    def fault(self, text):
        with self.lock:
            self.faults.append(text)

    def took(self, what, seconds):
        with self.lock:
            self.slowest[what] = max(self.slowest[what], seconds)

    def shown(self):
        return ", ".join(f"{count} × {kind}" for kind, count in sorted(self.ends.items()))


def records(folder):
    """Whole records; a writer may be in the middle of one."""
    for segment in sorted((pathlib.Path(folder) / ".tollgate/audit").glob("segment-*.jsonl")):
        with segment.open("rb") as lines:
            for line in lines:
                if line.endswith(b"\n"):
                    yield json.loads(line)


def status(pid, key):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return line.split()[1]
    return None


def pids():
    return [int(entry.name) for entry in pathlib.Path("/proc").iterdir() if entry.name.isdigit()]


def working_in(folder):
    """The processes whose working folder this is."""
    found = []
    for pid in pids():
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{pid}/cwd") == str(folder):
                found.append(pid)
    return found


def children(parent):
    """The processes that another one started, and their states; `Z` is one that nobody waited for."""
    found = []
    for pid in pids():
        with contextlib.suppress(OSError):
            if int(status(pid, "PPid")) == parent:
                found.append((pid, status(pid, "State")))
    return found


def descriptors(pid):
    """What its descriptors point to."""
    found = []
    for entry in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            found.append(os.readlink(f"/proc/{pid}/fd/{entry}"))
    return found


def wait_for(what, fact, seconds=20):
    end = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.05)
