"""What is measured: Tollgate and its peers, each as a program in front of the same echo server, and the echo server alone.

All are as silent as they can be told to be. Nobody caches, and everybody has the echo server up before the first call.
"""

import dataclasses
import json
import os
import pathlib
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import wire

DIRECT, TOLLGATE, CARGO, PYPI, FASTMCP = "direct", "Tollgate", "Cargo mcp-proxy", "PyPI mcp-proxy", "FastMCP"
BARE, REDUCED, CONTEXTFORGE = "bare", "Tollgate reduced", "ContextForge"

TICKS = os.sysconf("SC_CLK_TCK")
START_SECONDS_MAX = 60
CONTEXTFORGE_SECONDS_MAX = 300
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

# The least of it that a configuration can say: what is left is the gate itself, and its ledger.
REDUCED_TOML = """
repair = "off"
[redact]
results = false
models = false
[tools."mcp__echo__*".output]
show_hidden = false
"""

# Its own limits, pages and second logs off, one worker, SQLite and its cache in memory.
CONTEXTFORGE_ENV = {
    "DATABASE_URL": "sqlite:///./mcp.db",
    "CACHE_TYPE": "memory",
    "JWT_SECRET_KEY": "a-secret-for-the-measurement-of-32-bytes",
    "AUTH_ENCRYPTION_SECRET": "another-secret-for-the-measurement-of-it",
    "BASIC_AUTH_PASSWORD": "Measure-4711!",
    "PLATFORM_ADMIN_EMAIL": "admin@example.com",
    "PLATFORM_ADMIN_PASSWORD": "Measure-4711!",
    "RATE_LIMITING_ENABLED": "false",
    "MCPGATEWAY_UI_ENABLED": "false",
    "MCPGATEWAY_ADMIN_API_ENABLED": "false",
    "OBSERVABILITY_ENABLED": "false",
    "PLUGINS_ENABLED": "false",
    "SSRF_ALLOW_LOCALHOST": "true",
    "LOG_LEVEL": "ERROR",
}

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
    contextforge: str


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
        self.helpers = []
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

    def until(self, attempt, seconds_max=START_SECONDS_MAX):
        """Tries until it succeeds, and gives the moment."""
        end = time.perf_counter() + seconds_max
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
        roots = [self.process.pid, *(helper.pid for helper in self.helpers)]
        found, new = [], roots
        while new:
            found += new
            new = [process for process, told in parents.items() if told and told[0] in new]
        return [process for process in found if process in roots or not self._is_echo(process)]

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
        for process in (self.process, *self.helpers):
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


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

    def reduced(self, url=None):
        """Tollgate with everything off that can be off."""
        return self.tollgate(url, name=REDUCED, first=REDUCED_TOML)

    def tollgate(self, url=None, folder=None, name=TOLLGATE, first=""):
        """Tollgate with everything on: keys, validation, policy, ledger. In a folder that it knows, it starts again."""
        folder = folder or self.folder()
        upstream = f"url = {json.dumps(url)}" if url else f"command = {json.dumps(self.programs.echo)}"
        (folder / "tollgate.toml").write_text(first + TOLLGATE_TOML.format(upstream=upstream))
        port, key = free_port(), folder / ".tollgate/keys/client.key"
        role = [] if key.exists() else ["--role", "bench"]
        command = [self.programs.tollgate, *role, "serve", "--bind", f"127.0.0.1:{port}"]

        def authorization():
            # Tollgate writes it for its owner while it starts.
            if not (secret := key.read_text().strip()):
                raise FileNotFoundError(key)
            return {"Authorization": f"Bearer {secret}"}

        subject = self._subject(name, command, folder, port, headers=authorization)
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

    def contextforge(self, url=None):
        """ContextForge, which knows servers on HTTP. What is on stdio stands behind the bridge that comes with it."""
        folder, port, python = self.folder(), free_port(), pathlib.Path(self.programs.contextforge).parent / "python"
        environment, helpers = {**os.environ, **CONTEXTFORGE_ENV}, []
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        if not url:
            bridge = free_port()
            words = ["--stdio", self.programs.echo, "--expose-streamable-http", "--host", "127.0.0.1", "--port", str(bridge)]
            command = [python, "-m", "mcpgateway.translate", *words, "--logLevel", "error"]
            helpers.append(subprocess.Popen(command, cwd=folder, env=environment, **quiet))
            url = f"http://127.0.0.1:{bridge}/mcp"
        command = [self.programs.contextforge, "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
        process = subprocess.Popen(command, cwd=folder, env=environment, **quiet)
        subject = Subject(CONTEXTFORGE, process, self.programs.echo, port)
        subject.helpers = helpers
        try:
            self._introduce(subject, python, environment, url)
        except BaseException:
            subject.stop()
            raise
        return subject

    @staticmethod
    def _introduce(subject, python, environment, url):
        """Tells it of the echo server, and makes a server of its own of the tools."""
        secret, who = environment["JWT_SECRET_KEY"], environment["PLATFORM_ADMIN_EMAIL"]
        command = [python, "-m", "mcpgateway.utils.create_jwt_token", "--username", who, "--exp", "600", "--secret", secret]
        token = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()[-1]
        authorization = {"Authorization": f"Bearer {token}"}

        def ask(path, body=None):
            told = {**authorization, "Content-Type": "application/json"}
            data = None if body is None else json.dumps(body).encode()
            request = urllib.request.Request(f"http://127.0.0.1:{subject.port}{path}", data, told)
            try:
                with urllib.request.urlopen(request, timeout=60) as response:
                    return json.load(response)
            except urllib.error.HTTPError as error:
                raise OSError(f"{path}: {error.code} {error.read()[:500]}") from error

        subject.until(lambda: ask("/health"), CONTEXTFORGE_SECONDS_MAX)
        gateway = {"name": "echo", "url": url, "transport": "STREAMABLEHTTP"}
        subject.until(lambda: ask("/gateways", gateway), CONTEXTFORGE_SECONDS_MAX)
        tools = [tool["id"] for tool in ask("/tools")]
        server = ask("/servers", {"server": {"name": "echo", "associated_tools": tools}})
        subject.path, subject.headers = f"/servers/{server['id']}/mcp", lambda: authorization
