"""What is measured: Tollgate and its peers, each as a program in front of the same echo server, and the echo server alone.

All are as silent as they can be told to be. Nobody caches, and everybody has the echo server up before the first call.
"""

import dataclasses
import json
import os
import pathlib
import signal
import socket
import subprocess
import time
import urllib.parse

import wire

DIRECT, TOLLGATE, CARGO, PYPI, FASTMCP = "direct", "Tollgate", "Cargo mcp-proxy", "PyPI mcp-proxy", "FastMCP"
BARE = "bare"

TICKS = os.sysconf("SC_CLK_TCK")
START_SECONDS_MAX = 60
POLL_SECONDS = 0.0002

TOLLGATE_TOML = """
[roles.bench]
tools = ["mcp__echo__*"]
risk = "write"
permission = "network"
ask = "never"

[mcp.echo]
{upstream}
start = "eager"
tools.look = {{ risk = "read", permission = "read" }}
tools.change = {{ risk = "write", permission = "write" }}
"""

CARGO_TOML = """
[proxy]
name = "peers"
version = "1"
[proxy.listen]
host = "127.0.0.1"
port = {port}
[[backends]]
name = "echo"
{upstream}
[observability]
audit = false
log_level = "error"
"""


@dataclasses.dataclass
class Programs:
    """Where the programs are."""

    tollgate: str
    echo: str
    cargo: str
    pypi: str
    fastmcp: str


def free_port():
    """A port that nobody has right now."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


def stat(process):
    """The parent and the ticks spent in user and kernel mode, or none when the process is gone."""
    try:
        fields = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[1]), int(fields[11]) + int(fields[12])


def resident_mb(process):
    """The memory that a process holds."""
    for line in pathlib.Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


class Subject:
    """A running program that is asked, and how to reach its tool."""

    def __init__(self, name, process, echo, port=None, path="/mcp", headers=dict):
        """`echo` is the program that does not count. Without a port it speaks through pipes. `headers` are asked for when
        it is connected to."""
        self.name, self.process, self.echo = name, process, echo
        self.port, self.path, self.headers = port, path, headers
        self.tool, self.sessions, self.folder = None, [], None

    def is_piped(self):
        """Whether it has one client only, on its standard input and output."""
        return self.port is None

    def connect(self, session=None):
        """A connection to it, within a session or before one."""
        if self.is_piped():
            return wire.Pipes(self.process)
        return wire.Http(("127.0.0.1", self.port), self.path, {**self.headers(), **(session or {})})

    def ready(self):
        """Waits until it gives the tools of the echo server, and learns what it calls them."""

        def knows_tool():
            self.tool = self.named("look")

        self.until(self.greeted)
        self.until(knows_tool)
        return self

    def until(self, attempt):
        """Tries until it succeeds, and gives the moment."""
        end = time.perf_counter() + START_SECONDS_MAX
        while True:
            try:
                attempt()
                return time.perf_counter()
            except (OSError, StopIteration) as error:
                if self.process.poll() is not None or time.perf_counter() > end:
                    raise wire.Broken(f"{self.name} did not start ({self.process.poll()}): {error}") from error
                time.sleep(POLL_SECONDS)

    def listens(self):
        """Fails unless somebody listens."""
        socket.create_connection(("127.0.0.1", self.port)).close()

    def greeted(self):
        """Opens its first session."""
        self.sessions = [self._session()]

    def _session(self):
        connection = self.connect()
        session = wire.greet(connection)
        connection.close()
        self._ask(session, {"method": "notifications/initialized"})
        return session

    def _ask(self, session, message):
        connection = self.connect(session)
        answer = wire.exchange(connection, message)
        connection.close()
        return answer

    def named(self, suffix):
        """The tool of the echo server, under the name that the subject gives it."""
        answer = self._ask(self.sessions[0], {"id": 1, "method": "tools/list"})
        if "result" not in answer:
            raise wire.Broken(f"{self.name} does not list its tools: {answer}")
        return next(tool["name"] for tool in answer["result"]["tools"] if tool["name"].endswith(suffix))

    def callers(self, count, tool):
        """So many callers, each in a session of its own and with a new connection."""
        while len(self.sessions) < count:
            self.sessions.append(self._session())
        connections = [self.connect(session) for session in self.sessions[:count]]
        return [wire.Caller(connection, tool, 1000 + place * 1_000_000) for place, connection in enumerate(connections)]

    def processes(self):
        """Its processes, without the echo server."""
        parents = {int(entry.name): stat(entry.name) for entry in pathlib.Path("/proc").iterdir() if entry.name.isdigit()}
        found, new = [], [self.process.pid]
        while new:
            found += new
            new = [process for process, told in parents.items() if told and told[0] in new]
        return [process for process in found if process == self.process.pid or not self._is_echo(process)]

    def _is_echo(self, process):
        try:
            return os.path.samefile(f"/proc/{process}/exe", self.echo)
        except OSError:
            return True

    def cpu_seconds(self):
        """What its processes have spent so far."""
        return sum(told[1] for process in self.processes() if (told := stat(process))) / TICKS

    def memory_mb(self):
        """What its processes hold."""
        return sum(resident_mb(process) for process in self.processes())

    def stop(self):
        """Ends it, and waits until it has ended."""
        if self.process.stdin:
            self.process.stdin.close()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Makers:
    """Starts each subject in front of the echo server, over stdio or at an address."""

    def __init__(self, programs, scratch):
        """Their files go below `scratch`."""
        self.programs, self.scratch, self.count = programs, scratch, 0

    def folder(self):
        """A new folder."""
        self.count += 1
        folder = self.scratch / f"{self.count:03}"
        folder.mkdir()
        return folder

    def _subject(self, name, command, folder, port=None, **more):
        pipe = subprocess.DEVNULL if port else subprocess.PIPE
        process = subprocess.Popen(command, cwd=folder, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
        return Subject(name, process, self.programs.echo, port, **more)

    def echo(self):
        """The echo server alone, over stdio."""
        return self._subject(DIRECT, [self.programs.echo], self.scratch)

    def echo_http(self):
        """The echo server alone, over HTTP, and its address."""
        process = subprocess.Popen([self.programs.echo, "--http"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        url = process.stdout.readline().decode().strip()
        return Subject(DIRECT, process, self.programs.echo, urllib.parse.urlsplit(url).port), url

    def bare(self):
        """Axum that hands bodies on to the echo server's pipes, and nothing else."""
        port = free_port()
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        echo = subprocess.Popen([self.programs.echo], **pipes)
        command = [self.programs.echo, "--bare", str(port)]
        process = subprocess.Popen(command, stdin=echo.stdout, stdout=echo.stdin, stderr=subprocess.DEVNULL)
        # The echo server ends with the only one that still holds its input.
        echo.stdin.close()
        echo.stdout.close()
        return Subject(BARE, process, self.programs.echo, port)

    def tollgate(self, url=None, folder=None):
        """Tollgate with everything on: keys, validation, policy, ledger. In a folder that it knows, it starts again."""
        folder = folder or self.folder()
        upstream = f"url = {json.dumps(url)}" if url else f"command = {json.dumps(self.programs.echo)}"
        (folder / "tollgate.toml").write_text(TOLLGATE_TOML.format(upstream=upstream))
        port, key = free_port(), folder / ".tollgate/keys/client.key"
        role = [] if key.exists() else ["--role", "bench"]
        command = [self.programs.tollgate, *role, "serve", "--bind", f"127.0.0.1:{port}"]

        def authorization():
            # Tollgate writes it for its owner while it starts.
            if not (secret := key.read_text().strip()):
                raise FileNotFoundError(key)
            return {"Authorization": f"Bearer {secret}"}

        subject = self._subject(TOLLGATE, command, folder, port, headers=authorization)
        subject.folder = folder
        return subject

    def cargo(self, url=None):
        """The Cargo registry's mcp-proxy."""
        folder, port = self.folder(), free_port()
        stdio = f'transport = "stdio"\ncommand = {json.dumps(self.programs.echo)}'
        upstream = f'transport = "http"\nurl = {json.dumps(url)}' if url else stdio
        (folder / "proxy.toml").write_text(CARGO_TOML.format(port=port, upstream=upstream))
        command = [self.programs.cargo, "--config", "proxy.toml"]
        return self._subject(CARGO, command, folder, port, path="/")

    def pypi(self, url=None):
        """PyPI's mcp-proxy. It turns stdio into HTTP or HTTP into stdio; HTTP in front of HTTP it does not know."""
        folder, quiet = self.folder(), ["--log-level", "ERROR"]
        if url:
            return self._subject(PYPI, [self.programs.pypi, *quiet, "--transport", "streamablehttp", url], folder)
        port = free_port()
        command = [self.programs.pypi, *quiet, "--host", "127.0.0.1", "--port", str(port), "--", self.programs.echo]
        return self._subject(PYPI, command, folder, port)

    def fastmcp(self, url=None):
        """FastMCP's proxy."""
        folder, port = self.folder(), free_port()
        upstream = {"url": url} if url else {"command": self.programs.echo, "args": []}
        (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"echo": upstream}}))
        listen = ["--transport", "http", "--host", "127.0.0.1", "--port", str(port)]
        command = [self.programs.fastmcp, "run", "mcp.json", *listen, "--no-banner", "--log-level", "ERROR"]
        return self._subject(FASTMCP, command, folder, port)
