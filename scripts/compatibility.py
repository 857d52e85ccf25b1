#!/usr/bin/env python3
"""Who Tollgate works with: servers that others wrote behind it, clients that others wrote in front of it, each by every
transport and in every era that it has. Every cell of the two tables of docs/compatibility.md is a run of this script: a
client lists and calls, a server is listed and called, and the revision is read off the wire.

Usage: compatibility.py TOLLGATE CACHE NODE RMCP [--write PAGE]    CACHE: where scripts/test installs; RMCP: what it builds of
examples/rmcp; --write: the page
"""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WAIT = 90
ANSWER = "10201381"
CALL = {"expression": "34817 * 293"}


# --- what is on the wire ------------------------------------------------------------------------------------------

class Recorder:
    """A way to the server that remembers what the client sent, or where that is masked what the server did. It gives a key
    to clients that can send none."""

    def __init__(self, port, key=None, is_masked=False):
        self.port, self.heard, self.is_masked = port, bytearray(), is_masked
        self.key = f" HTTP/1.1\r\nAuthorization: Bearer {key}\r\n".encode() if key else None
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                server = socket.create_connection(("127.0.0.1", self.port))
                for one, other, key in [(client, server, self.key), (server, client, None)]:
                    is_heard = (one is server) == self.is_masked
                    threading.Thread(target=self.pump, args=(one, other, key, is_heard), daemon=True).start()

    def pump(self, one, other, key, is_heard):
        with contextlib.suppress(OSError):
            while piece := one.recv(65536):
                if is_heard:
                    self.heard.extend(piece)
                piece = piece.replace(b" HTTP/1.1\r\n", key) if key else piece
                other.sendall(piece)
            other.shutdown(socket.SHUT_WR)

    def revision(self):
        return revision(bytes(self.heard).decode(errors="replace"))


def revision(heard):
    """The revision in which a client called: its header, else what its messages say."""
    called = heard[heard.rfind("tools/call") - 2000 :] if "tools/call" in heard else heard
    if "io.modelcontextprotocol/protocolVersion" in called:
        return "2026-07-28"
    headers = re.findall(r"(?im)^mcp-protocol-version:\s*(\S+)", heard)
    asked = re.findall(r'"protocolVersion"\s*:\s*"([0-9-]+)"', heard)
    found = headers or asked
    return found[-1] if found else "?"


# --- Tollgate -----------------------------------------------------------------------------------------------------

class Tollgate:
    def __init__(self, binary, folder):
        self.binary, self.folder = binary, folder

    def run(self, *words, code=0):
        done = subprocess.run([self.binary, *words], cwd=self.folder, capture_output=True, text=True, timeout=WAIT)
        assert code is None or done.returncode == code, (words, done.returncode, done.stdout[-1500:], done.stderr[-1500:])
        return json.loads(done.stdout)

    @contextlib.contextmanager
    def served(self):
        command = [self.binary, "serve", "--bind", "127.0.0.1:0"]
        with subprocess.Popen(command, cwd=self.folder, stderr=subprocess.PIPE, text=True) as server:
            port = key = None
            while not (port and key):
                line = server.stderr.readline()
                assert line, "the server did not start"
                words = line.split()
                if words[:1] == ["MCP"]:
                    port = int(words[1].removesuffix("/mcp").rsplit(":", 1)[1])
                elif words[:1] == ["client"]:
                    key = words[1]
            drain = subprocess.Popen(["cat"], stdin=server.stderr, stdout=subprocess.DEVNULL)
            try:
                yield port, key
            finally:
                server.send_signal(signal.SIGTERM)
                server.wait(20)
                drain.wait(5)


def npm(folder, package):
    """The name and version of a package as it is installed."""
    about = json.loads((folder / "node_modules" / package / "package.json").read_text())
    return f"`{package}` {about['version']} (npm)"


def crate(name):
    lock = (ROOT / "examples/rmcp/Cargo.lock").read_text()
    version = re.search(rf'name = "{name}"\nversion = "(.*)"', lock)[1]
    return f"`{name}` {version} (crates.io)"


def pypi(environment, package):
    stem = package.replace("-", "_")
    about = next(environment.glob(f"lib/python3*/site-packages/{stem}-*.dist-info"))
    return f"`{package}` {about.name.removesuffix('.dist-info').rsplit('-', 1)[1]} (PyPI)"


# --- servers behind Tollgate --------------------------------------------------------------------------------------

FASTMCP = """
import sys
from fastmcp import FastMCP
m = FastMCP("fixture")
@m.tool
def add(a: int, b: int) -> int:
    return a + b
@m.prompt
def greet(name: str) -> str:
    return f"Greet {name}"
@m.resource("data://greeting")
def greeting() -> str:
    return "hello"
if len(sys.argv) > 1:
    m.run(transport=sys.argv[1], host="127.0.0.1", port=int(sys.argv[2]), show_banner=False)
else:
    m.run(show_banner=False)
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@contextlib.contextmanager
def listening(command, environment, port):
    """A server that others start: it is there when its port is."""
    environment = {**os.environ, **environment}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, env=environment, start_new_session=True, **quiet)
    try:
        until = time.monotonic() + WAIT
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            assert process.poll() is None and time.monotonic() < until, f"{command} does not listen"
            time.sleep(0.1)
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def servers(cache, node, rmcp, folder):
    """Name, who wrote it, transport, how it is reached, a call and what its answer has; and what must be started first."""
    bin, of_npm, of_pypi = cache / "npm/node_modules/.bin", cache / "npm", cache / "servers"
    (folder / "fixture.py").write_text(FASTMCP)
    python = cache / "clients/bin/python"
    program = lambda *words: {"command": str(words[0]), "args": [str(word) for word in words[1:]]}
    everything = [node, of_npm / "node_modules/@modelcontextprotocol/server-everything/dist/index.js"]
    names = ["everything_http", "everything_sse", "fastmcp_http", "fastmcp_sse", "rmcp_http"]
    ports = {name: free_port() for name in names}
    address = lambda name, path: {"url": f"http://127.0.0.1:{ports[name]}/{path}"}
    add = ("add", {"a": 2, "b": 3}, "5")
    echo = ("echo", {"message": "hi"}, "Echo: hi")
    rows = [
        ("everything", npm(of_npm, "@modelcontextprotocol/server-everything"), "stdio", program(bin / "mcp-server-everything"), echo),
        ("everything_http", npm(of_npm, "@modelcontextprotocol/server-everything"), "HTTP", address("everything_http", "mcp"), echo),
        ("everything_sse", npm(of_npm, "@modelcontextprotocol/server-everything"), "HTTP+SSE", address("everything_sse", "sse"), echo),
        ("files", npm(of_npm, "@modelcontextprotocol/server-filesystem"), "stdio", program(bin / "mcp-server-filesystem", "."),
         ("read_text_file", {"path": "a.txt"}, "你好")),
        ("memory", npm(of_npm, "@modelcontextprotocol/server-memory"), "stdio", program(bin / "mcp-server-memory"), ("read_graph", {}, "entities")),
        ("thinking", npm(of_npm, "@modelcontextprotocol/server-sequential-thinking"), "stdio", program(bin / "mcp-server-sequential-thinking"),
         ("sequentialthinking", {"thought": "x", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}, "1")),
        ("playwright", npm(of_npm, "@playwright/mcp"), "stdio", program(bin / "playwright-mcp", "--headless"), None),
        ("time", pypi(of_pypi, "mcp-server-time"), "stdio", program(of_pypi / "bin/mcp-server-time", "--local-timezone", "UTC"),
         ("get_current_time", {"timezone": "Asia/Shanghai"}, "Asia/Shanghai")),
        ("git", pypi(of_pypi, "mcp-server-git"), "stdio", program(of_pypi / "bin/mcp-server-git"),
         ("git_status", {"repo_path": "repo"}, "branch")),
        ("fetch", pypi(of_pypi, "mcp-server-fetch"), "stdio", program(of_pypi / "bin/mcp-server-fetch"), None),
        ("sqlite", pypi(cache / "sqlite", "mcp-server-sqlite") + " with mcp 1", "stdio",
         program(cache / "sqlite/bin/mcp-server-sqlite", "--db-path", "db.sqlite"), ("list_tables", {}, "[")),
        ("fastmcp", "a server of " + pypi(cache / "clients", "fastmcp"), "stdio", program(python, "fixture.py"), add),
        ("fastmcp_http", "a server of " + pypi(cache / "clients", "fastmcp"), "HTTP", address("fastmcp_http", "mcp"), add),
        ("rmcp", "a server of " + crate("rmcp"), "stdio", program(rmcp, "server"), add),
        ("rmcp_http", "a server of " + crate("rmcp"), "HTTP", address("rmcp_http", "mcp"), add),
        ("fastmcp_sse", "a server of " + pypi(cache / "clients", "fastmcp"), "HTTP+SSE", address("fastmcp_sse", "sse"), add),
    ]
    started = [
        ([str(rmcp), "server", str(ports["rmcp_http"])], {}, ports["rmcp_http"]),
        ([*map(str, everything), "streamableHttp"], {"PORT": str(ports["everything_http"])}, ports["everything_http"]),
        ([*map(str, everything), "sse"], {"PORT": str(ports["everything_sse"])}, ports["everything_sse"]),
        ([str(python), str(folder / "fixture.py"), "http", str(ports["fastmcp_http"])], {}, ports["fastmcp_http"]),
        ([str(python), str(folder / "fixture.py"), "sse", str(ports["fastmcp_sse"])], {}, ports["fastmcp_sse"]),
    ]
    return rows, started


def configuration(rows):
    text = '[roles.all]\ntools = ["*"]\nrisk = "dangerous"\npermission = "network"\nask = "never"\n'
    for name, _, _, reached, _ in rows:
        text += f"[mcp.{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in reached.items())
    return text


def behind(binary, cache, node, rmcp, folder):
    """The table of servers."""
    rows, started = servers(cache, node, rmcp, folder)
    (folder / "tollgate.toml").write_text(configuration(rows))
    (folder / "a.txt").write_text("你好, tollgate\n")
    subprocess.run(["git", "init", "--quiet", "repo"], cwd=folder, check=True)
    tollgate = Tollgate(binary, folder)
    with contextlib.ExitStack() as stack:
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for opened in pool.map(lambda it: (it, listening(*it))[1], started):
                stack.enter_context(opened)
        statuses = {status["name"]: status for status in tollgate.run("mcp", "list", code=None)}

        def called(row):
            name, _, _, _, call = row
            if statuses[name]["state"] != "ready" or call is None:
                return "–"
            tool, arguments, part = call
            outcome = tollgate.run("--role", "all", "call", f"mcp__{name}__{tool}", json.dumps(arguments), code=None)
            assert outcome["status"] == "done" and part in json.dumps(outcome, ensure_ascii=False), outcome
            return f"`{tool}`"

        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            calls = list(pool.map(called, rows))
    table = []
    for (name, title, transport, _, _), call in zip(rows, calls):
        status = statuses[name]
        assert status["state"] == "ready", status
        count = lambda key: str(len(status.get(key, [])))
        table.append([title, transport, status["era"], count("tools"), count("resources"), count("prompts"), call])
        print("ok    behind:", *table[-1], flush=True)
    return table


# --- clients in front of Tollgate ---------------------------------------------------------------------------------

async def python_client(library, mode, transport, target, key):
    """Runs in the environment of the clients: lists, calls, and says what came."""
    headers = {"Authorization": f"Bearer {key}"}
    if library == "fastmcp":
        import fastmcp
        from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport

        ways = {
            "stdio": lambda: StdioTransport(target[0], target[1:], env=dict(os.environ)),
            "HTTP": lambda: StreamableHttpTransport(target[0], headers=headers),
            "HTTP+SSE": lambda: SSETransport(target[0], headers=headers),
        }
        client = fastmcp.Client(ways[transport](), timeout=60)
    else:
        import httpx2
        import mcp
        from mcp.client.sse import sse_client
        from mcp.client.stdio import StdioServerParameters, stdio_client
        from mcp.client.streamable_http import streamable_http_client

        ways = {
            "stdio": lambda: stdio_client(StdioServerParameters(command=target[0], args=target[1:])),
            "HTTP": lambda: streamable_http_client(target[0], http_client=httpx2.AsyncClient(headers=headers, timeout=60)),
            "HTTP+SSE": lambda: sse_client(target[0], headers=headers),
        }
        client = mcp.Client(ways[transport](), mode=mode)
    async with client:
        listed = await client.list_tools()
        names = {tool.name for tool in getattr(listed, "tools", listed)}
        assert "calculate" in names and "write_file" not in names, names
        result = await client.call_tool("calculate", CALL)
        print(result.content[0].text)


def clients(cache, node, rmcp):
    """Name, era that is asked for, transport, and the command for a target and a key."""
    python, typescript = cache / "clients/bin/python", cache / "typescript"
    own = pathlib.Path(__file__).resolve()

    def of_python(library, mode, transport):
        return lambda target, key: [python, own, "--client", library, mode, transport, key, *target]

    def of_typescript(version, mode, transport):
        script = typescript / "compatibility_clients.mjs"
        shutil.copy(ROOT / "scripts/compatibility_clients.mjs", script)
        return lambda target, key: [node, script, version, mode, transport, key, *target]

    def of_rmcp(mode, transport):
        return lambda target, key: [rmcp, "client", mode, transport, key, *target]

    def inspector(program, transport, knows_headers=True):
        call = ["--method", "tools/call", "--tool-name", "calculate", "--tool-arg", f"expression={CALL['expression']}"]
        if transport == "stdio":
            return lambda target, key: [*program, "--cli", *target, *call]
        header = lambda key: ["--header", f"Authorization: Bearer {key}"] if knows_headers else []
        return lambda target, key: [*program, "--cli", *target, "--transport", "http", *header(key), *call]

    def bridge(target, key):
        # The bridge splits its arguments at spaces: its own advice is a variable.
        words = [typescript / "node_modules/.bin/mcp-remote", target[0], "--allow-http", "--transport", "http-only"]
        return [python, own, "--client", "fastmcp", "legacy", "stdio", key, *words, "--header", "Authorization:${AUTH}"]

    old, new = cache / "npm/node_modules/.bin/mcp-inspector", typescript / "node_modules/.bin/mcp-inspector"
    name = "@modelcontextprotocol/inspector"
    rows = [(npm(cache / "npm", name), "", transport, inspector([old], transport, False)) for transport in ["stdio", "HTTP"]]
    rows += [(npm(typescript, name), "", transport, inspector([node, new], transport)) for transport in ["stdio", "HTTP"]]
    rows.append((npm(typescript, "mcp-remote"), "", "HTTP", bridge))
    rows.append((npm(typescript, "@modelcontextprotocol/sdk"), "", "WebSocket", of_typescript("1", "legacy", "WebSocket")))
    for transport, mode in [("stdio", "legacy"), ("stdio", "auto"), ("HTTP", "legacy"), ("HTTP", "auto")]:
        rows.append((crate("rmcp"), mode, transport, of_rmcp(mode, transport)))
    of_clients = cache / "clients"
    for transport in ["stdio", "HTTP", "HTTP+SSE"]:
        rows.append((pypi(of_clients, "fastmcp"), "", transport, of_python("fastmcp", "auto", transport)))
        rows.append((npm(typescript, "@modelcontextprotocol/sdk"), "", transport, of_typescript("1", "legacy", transport)))
        modes = ["legacy"] if transport == "HTTP+SSE" else ["legacy", "auto"]
        for mode in modes:
            rows.append((pypi(of_clients, "mcp"), mode, transport, of_python("mcp", mode, transport)))
            if transport != "HTTP+SSE":
                named = npm(typescript, "@modelcontextprotocol/client")
                rows.append((named, mode, transport, of_typescript("2", mode, transport)))
    return rows


def in_front(binary, cache, node, rmcp, folder):
    """The table of clients."""
    tollgate = Tollgate(binary, folder)
    with tollgate.served() as (port, key):

        def tried(numbered):
            number, (title, mode, transport, command) = numbered
            environment = {**os.environ, "AUTH": f"Bearer {key}"}
            recorder = log = None
            if transport == "stdio":
                log = folder / f"heard-{number}"
                target = ["sh", "-c", 'tee "$1" | exec "$2" --quiet serve --stdio', "sh", str(log), str(binary)]
            else:
                # Neither the older inspector's command line nor a WebSocket of a browser's kind knows headers, and so no keys.
                has_no_key = transport == "WebSocket" or title == npm(cache / "npm", "@modelcontextprotocol/inspector")
                recorder = Recorder(port, key if has_no_key else None, is_masked=transport == "WebSocket")
                scheme, path = {"HTTP+SSE": ("http", "sse"), "WebSocket": ("ws", "mcp/ws")}.get(transport, ("http", "mcp"))
                target = [f"{scheme}://127.0.0.1:{recorder.address}/{path}"]
            words = [str(word) for word in command(target, key)]
            done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=WAIT)
            said = (title, mode, transport, done.returncode, done.stdout[-800:], done.stderr[-1500:])
            assert done.returncode == 0 and ANSWER in done.stdout, said
            heard = recorder.revision() if recorder else revision(log.read_text())
            print("ok    in front:", title, mode, transport, heard, flush=True)
            return [title, transport, heard]

        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            table = list(pool.map(tried, enumerate(clients(cache, node, rmcp))))
    assert tollgate.run("audit", "verify")["ok"]
    unique = []
    for row in sorted(table):
        if row not in unique:
            unique.append(row)
    return unique


# --- the page -----------------------------------------------------------------------------------------------------

def lines(header, rows):
    text = "| " + " | ".join(header) + " |\n|" + "---|" * len(header) + "\n"
    return text + "".join("| " + " | ".join(row) + " |\n" for row in rows)


def page(behind_rows, front_rows):
    return f"""# Who Tollgate works with

Generated by `scripts/compatibility.py`, which runs every line: do not write here. The revision is the one that
was agreed on with a server, and that a client's messages bore. By handshake are `2024-11-05` to `2025-11-25`; `2026-07-28` has none. `HTTP` is streamable HTTP, `HTTP+SSE` the transport
of `2024-11-05`. WebSockets and the older inspector's command line know no headers: their key is put in on the way.

## Servers behind Tollgate

Each was started or asked by `tollgate mcp list`, and called through the gate where a call needs neither a browser nor a network.

{lines(["server", "transport", "revision", "tools", "resources", "prompts", "called"], behind_rows)}
## Clients in front of Tollgate

Each listed the tools of its role and called `calculate`.

{lines(["client", "transport", "revision"], front_rows)}
What MCP's own conformance suite says of both sides: `scripts/conformance.py`, a part of `scripts/test`.
"""


def main():
    if sys.argv[1] == "--client":
        import asyncio

        library, mode, transport, key, *target = sys.argv[2:]
        return asyncio.run(python_client(library, mode, transport, target, key))
    binary, cache, node, rmcp, *rest = sys.argv[1:]
    binary, cache, began = pathlib.Path(binary).resolve(), pathlib.Path(cache).resolve(), time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        (folder / "behind").mkdir()
        (folder / "front").mkdir()
        behind_rows = behind(binary, cache, node, rmcp, folder / "behind")
        front_rows = in_front(binary, cache, node, rmcp, folder / "front")
    text = page(behind_rows, front_rows)
    if rest[:1] == ["--write"]:
        pathlib.Path(rest[1]).write_text(text, encoding="utf-8")
    else:
        known = (ROOT / "docs/compatibility.md").read_text(encoding="utf-8")
        # What comes along with a package may be newer than it was.
        plain = lambda text: re.sub(r"` \d[\w.]*", "`", text)
        if plain(known) != plain(text):
            sys.stdout.write(text)
            sys.exit("docs/compatibility.md is not what was run: scripts/compatibility.py … --write docs/compatibility.md")
    print(f"{len(behind_rows)} servers, {len(front_rows)} clients, {time.monotonic() - began:.0f} s")


main()
