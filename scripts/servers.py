#!/usr/bin/env python3
"""Tollgate in front of MCP servers that somebody else wrote, from npm and PyPI.

Usage: TOLLGATE=BINARY servers.py NPM_BIN PYPI_BIN
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

TOLLGATE = os.environ["TOLLGATE"]
NPM, PYPI = sys.argv[1:]
ROOT = pathlib.Path(__file__).resolve().parent.parent
DOUBLE = str(ROOT / "crates/tollgate-testkit/src/servers/hostile.py")

READ = 'risk = "read"\npermission = "read"\n'
SERVERS = {
    # name: (program, arguments, globs that the operator calls harmless)
    "files": (f"{NPM}/mcp-server-filesystem", ["."], ["read_*", "list_*"]),
    "everything": (f"{NPM}/mcp-server-everything", [], ["*"]),
    "memory": (f"{NPM}/mcp-server-memory", [], ["read_graph"]),
    "time": (f"{PYPI}/mcp-server-time", [], ["*"]),
    "git": (f"{PYPI}/mcp-server-git", [], ["git_status"]),
    "fetch": (f"{PYPI}/mcp-server-fetch", [], []),
    "gone": ("no-such-server", [], []),
}


def config():
    text = ""
    for name, (program, arguments, harmless) in SERVERS.items():
        text += f"[mcp.{name}]\ncommand = {json.dumps(program)}\nargs = {json.dumps(arguments)}\n"
        for glob in harmless:
            text += f"[mcp.{name}.tools.{json.dumps(glob)}]\n{READ}"
    return text


def tollgate(folder, *words, code=0):
    done = subprocess.run([TOLLGATE, *words], cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, (words, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return json.loads(done.stdout)


def call(folder, tool, arguments, code=0):
    return tollgate(folder, "call", tool, json.dumps(arguments), code=code)


def text(outcome):
    return outcome["result"]["content"][0]["text"]


def offspring(folder):
    """The processes that run in this folder."""
    found = []
    for process in pathlib.Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                if os.readlink(process / "cwd") == str(folder):
                    found.append(process.name)
            except OSError:
                continue
    return found


def all_gone(folder):
    for _ in range(100):
        if not offspring(folder):
            return
        time.sleep(0.1)
    raise AssertionError(f"still there: {offspring(folder)}")


def list_changes(folder):
    """A server that gets a second tool while it is served: whoever lists again sees it, and it can be called."""
    inner = folder / "changing"
    inner.mkdir()
    (inner / "tollgate.toml").write_text(
        f'[mcp.x]\ncommand = "python3"\nargs = {json.dumps([DOUBLE, "change"])}\n[mcp.x.tools."*"]\n{READ}'
    )
    with subprocess.Popen(
        [TOLLGATE, "--quiet", "serve", "--stdio"],
        cwd=inner,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as serving:
        def ask(method, params):
            meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
            meta["io.modelcontextprotocol/clientCapabilities"] = {}
            message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
            serving.stdin.write(json.dumps(message) + "\n")
            serving.stdin.flush()
            return json.loads(serving.stdout.readline())["result"]

        def upstream_tools():
            return [tool["name"] for tool in ask("tools/list", {})["tools"] if tool["name"].startswith("mcp__")]

        assert upstream_tools() == ["mcp__x__grow"]
        assert not ask("tools/call", {"name": "mcp__x__grow", "arguments": {}}).get("isError")
        until = time.monotonic() + 20
        while upstream_tools() != ["mcp__x__grow", "mcp__x__grown"]:
            assert time.monotonic() < until, upstream_tools()
            time.sleep(0.02)
        assert not ask("tools/call", {"name": "mcp__x__grown", "arguments": {}}).get("isError")
        serving.stdin.close()


def asked_before_its_server_is_up(folder):
    """A call is in the ledger while its server starts, and a process that dies in that wait leaves its record."""
    inner = folder / "starting"
    inner.mkdir()
    args = json.dumps([DOUBLE, "slow", "30"])
    (inner / "tollgate.toml").write_text(f'[mcp.x]\ncommand = "python3"\nargs = {args}\n[mcp.x.tools."*"]\n{READ}')
    with subprocess.Popen([TOLLGATE, "call", "mcp__x__echo", "{}"], cwd=inner, stderr=subprocess.DEVNULL) as asking:
        until = time.monotonic() + 20
        while subprocess.run([TOLLGATE, "audit", "tail"], cwd=inner, capture_output=True).stdout.count(b"received") < 1:
            assert time.monotonic() < until, "no record"
            time.sleep(0.02)
        asking.kill()
    call(inner, "calculate", {"expression": "1 + 1"})
    done = subprocess.run([TOLLGATE, "audit", "tail"], cwd=inner, capture_output=True, text=True)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    attempt = next(event["attempt"] for event in events if (event.get("tool") or {}).get("name") == "mcp__x__echo")
    assert [e["event"] for e in events if e.get("attempt") == attempt][-1] == "finished", events


def started_for_those_who_ask(folder):
    """A server that starts at once is started by what serves, not by a command that is over in a moment."""
    inner = folder / "eager"
    inner.mkdir()
    args = json.dumps(["-c", "touch started; exec cat"])
    (inner / "tollgate.toml").write_text(f'[mcp.x]\ncommand = "sh"\nargs = {args}\nstart = "eager"\n')
    call(inner, "calculate", {"expression": "1 + 1"})
    tollgate(inner, "approvals", "list")
    assert not (inner / "started").exists()
    with subprocess.Popen([TOLLGATE, "--quiet", "serve", "--stdio"], cwd=inner, stdin=subprocess.PIPE) as serving:
        until = time.monotonic() + 20
        while not (inner / "started").exists():
            assert time.monotonic() < until, "an eager server was not started"
            time.sleep(0.02)
        serving.stdin.close()


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        (folder / "tollgate.toml").write_text(config())
        (folder / "a.txt").write_text("你好, tollgate\n")
        subprocess.run(["git", "init", "--quiet", "repo"], cwd=folder, check=True)

        servers = {server["name"]: server for server in tollgate(folder, "mcp", "list", code=1)}
        for server in SERVERS:
            state = "down" if server == "gone" else "ready"
            assert servers[server]["state"] == state, servers[server]
            assert bool(servers[server]["tools"]) == (state == "ready"), servers[server]
            assert not servers[server]["quarantined"], servers[server]
        assert "no-such-server" in servers["gone"]["last_error"], servers["gone"]
        all_gone(folder)
        print("listed:", ", ".join(f"{s['name']} {len(s['tools'])} ({s['era']})" for s in servers.values()))

        outcome = call(folder, "mcp__files__read_text_file", {"path": "a.txt"})
        assert text(outcome) == "你好, tollgate\n", outcome
        outcome = call(folder, "mcp__files__read_text_file", {"path": "/etc/passwd"}, code=1)
        assert outcome["error"]["error"] == "tool_error", outcome
        assert text(call(folder, "mcp__everything__echo", {"message": "hi"})) == "Echo: hi"
        assert "5" in text(call(folder, "mcp__everything__get-sum", {"a": 2, "b": 3}))
        assert "Asia/Shanghai" in text(call(folder, "mcp__time__get_current_time", {"timezone": "Asia/Shanghai"}))
        assert "branch" in text(call(folder, "mcp__git__git_status", {"repo_path": "repo"}))
        call(folder, "mcp__memory__read_graph", {})
        print("called: filesystem, everything, time, git, memory")

        # What the operator said nothing about is dangerous: a human is asked.
        write = {"path": "b.txt", "content": "written"}
        outcome = call(folder, "mcp__files__write_file", write, code=4)
        assert not (folder / "b.txt").exists()
        tollgate(folder, "approvals", "approve", outcome["waiting"]["id"])
        call(folder, "mcp__files__write_file", write)
        assert (folder / "b.txt").read_text() == "written"
        outcome = call(folder, "mcp__files__read_text_file", {"pth": "a.txt"}, code=3)
        assert outcome["error"]["error"] == "invalid_arguments", outcome
        outcome = call(folder, "mcp__gone__anything", {}, code=3)
        assert outcome["error"]["error"] == "unknown_tool", outcome
        print("asked, approved, refused")

        list_changes(folder)
        print("changed: a server's new tool is listed and called")
        started_for_those_who_ask(folder)
        asked_before_its_server_is_up(folder)
        print("recorded: a call that waits for its server, also when its process is killed")

        serving = subprocess.Popen(
            [TOLLGATE, "serve", "--stdio", "--role", "developer"],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        def send(message):
            serving.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            serving.stdin.flush()
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        send({"id": 1, "method": "initialize", "params": hello})
        assert json.loads(serving.stdout.readline())["id"] == 1
        send({"method": "notifications/initialized"})
        send({"id": 2, "method": "tools/list"})
        # That lists change while the servers come up is said in between.
        answers = (json.loads(line) for line in serving.stdout)
        listed = next(answer for answer in answers if answer.get("id") == 2)
        names = {tool["name"] for tool in listed["result"]["tools"]}
        assert {"read_file", "mcp__files__read_text_file", "mcp__everything__echo"} <= names, names
        assert len(offspring(folder)) > 5
        serving.send_signal(signal.SIGKILL)
        serving.wait()
        all_gone(folder)
        print("killed: nothing is left")
        assert tollgate(folder, "audit", "verify")["ok"]


main()
