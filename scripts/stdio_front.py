"""An HTTP front for an MCP server that speaks on its standard input and output, so that what knows only HTTP can judge it.
It copies messages from one side to the other as they are, and looks only at what says whose they are: it is not Tollgate,
and mends nothing. A session of the handshake era has a process of its own; all requests of the stateless era share one.

Usage: stdio_front.py COMMAND [ARGUMENT…]    prints the address, and ends with its standard input
"""

import collections
import http.server
import itertools
import json
import queue
import subprocess
import sys
import threading
import uuid

WAIT_S = 60
# Processes at once; the session that was not used for longest goes first.
CHILDREN_MAX = 8


def key(value) -> str:
    """What can be looked up: ids and tokens are texts or numbers, and `1` is not `"1"`."""
    return json.dumps(value)


class Child:
    """One process, and who waits for what it says."""

    def __init__(self, command: list[str]):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.turn = threading.Condition()
        # Another lock: a process that waits for us to read does not read.
        self.writing = threading.Lock()
        self.asked = {}
        self.tokens = {}
        threading.Thread(target=self.read, daemon=True).start()

    def read(self) -> None:
        for line in self.process.stdout:
            message = json.loads(line)
            with self.turn:
                to = self.whose(message)
            if to is not None:
                to.put(line.strip())
        with self.turn:
            for waiting in self.asked.values():
                waiting.put(None)

    def whose(self, message: dict) -> queue.Queue | None:
        if "method" not in message:
            return self.asked.get(key(message.get("id")))
        token = message.get("params", {}).get("progressToken")
        # What says nothing of whose it is goes to whoever asked last.
        return self.tokens.get(key(token)) if token is not None else next(reversed(self.asked.values()), None)

    def say(self, body: bytes) -> None:
        with self.writing:
            self.process.stdin.write(b" ".join(body.splitlines()) + b"\n")
            self.process.stdin.flush()

    def ask(self, body: bytes, message: dict):
        """Gives what the process says until it has answered."""
        answers, name = queue.Queue(), key(message["id"])
        token = message.get("params", {}).get("_meta", {}).get("progressToken")
        with self.turn:
            # Other connections may use the same id; here it must be free.
            self.turn.wait_for(lambda: name not in self.asked, WAIT_S)
            self.asked[name] = answers
            if token is not None:
                self.tokens[key(token)] = answers
        try:
            self.say(body)
            while (line := answers.get(timeout=WAIT_S)) is not None:
                yield line
                if "method" not in json.loads(line):
                    return
        finally:
            with self.turn:
                self.asked.pop(name, None)
                self.tokens.pop(key(token), None)
                self.turn.notify_all()

    def end(self) -> None:
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Front:
    """The HTTP server."""

    def __init__(self, command: list[str]):
        self.command = command
        self.lock = threading.Lock()
        self.children = collections.OrderedDict()
        handler = type("Handler", (Handler,), {"front": self})
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/mcp"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def child(self, session: str) -> Child | None:
        with self.lock:
            if session in self.children:
                self.children.move_to_end(session)
            return self.children.get(session)

    def begin(self, session: str) -> Child:
        child = Child(self.command)
        with self.lock:
            self.children[session] = child
            old = self.children.popitem(last=False)[1] if len(self.children) > CHILDREN_MAX else None
        if old:
            old.end()
        return child

    def forget(self, session: str) -> bool:
        with self.lock:
            child = self.children.pop(session, None)
        if child:
            child.end()
        return child is not None

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        for session in list(self.children):
            self.forget(session)


class Handler(http.server.BaseHTTPRequestHandler):
    front: Front
    protocol_version = "HTTP/1.1"

    def log_message(self, *_) -> None:
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            message = json.loads(body)
        except ValueError:
            return self.answer(400, b"")
        session = self.headers.get("Mcp-Session-Id", "")
        if message.get("method") == "initialize":
            session = uuid.uuid4().hex
            child = self.front.begin(session)
        else:
            child = self.front.child(session) or (None if session else self.front.begin(""))
        if child is None:
            return self.answer(404, b"")
        if "method" not in message or "id" not in message:
            child.say(body)
            return self.answer(202, b"")
        said = child.ask(body, message)
        first = next(said, None)
        if first is None:
            return self.answer(502, b"")
        headers = {"Mcp-Session-Id": session} if session else {}
        if "method" not in json.loads(first):
            said.close()
            return self.answer(200, first, {"Content-Type": "application/json", **headers})
        self.stream(first, said, headers)

    def stream(self, first: bytes, said, headers: dict[str, str]) -> None:
        self.send_response(200)
        for name, value in {"Content-Type": "text/event-stream", "Connection": "close", **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True
        for line in itertools.chain([first], said):
            self.wfile.write(b"data: " + line + b"\n\n")

    def do_DELETE(self) -> None:
        self.answer(200 if self.front.forget(self.headers.get("Mcp-Session-Id", "")) else 404, b"")

    def do_GET(self) -> None:
        self.answer(405, b"")

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    front = Front(sys.argv[1:])
    print(front.url, flush=True)
    sys.stdin.read()
    front.close()


if __name__ == "__main__":
    main()
