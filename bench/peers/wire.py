"""The client of the measurement: MCP over a kept-alive HTTP connection, or over a program's pipes.

One raw client for every subject, so that all pay the same for it. A request is put together before the clock starts, and
what came back is read closely only after it has stopped.
"""

import json
import os
import re
import select
import socket
import time

REVISION = "2025-06-18"
PIECE_BYTES = 64 * 1024
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)")


class Broken(Exception):
    """A subject did not answer as it must."""


class Http:
    """One connection, which carries one request at a time."""

    def __init__(self, address, path, headers):
        """Connects. `headers` go with every request."""
        self.socket = socket.create_connection(address, timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        lines = {
            "Host": f"{address[0]}:{address[1]}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            **headers,
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self.head = f"POST {path} HTTP/1.1\r\n{head}".encode()
        self.answered = None
        self._forget()

    def _forget(self):
        self.raw, self.body = bytearray(), bytearray()
        self.status, self.headers = None, b""
        self.length = self.at = 0

    def fileno(self):
        """For a selector."""
        return self.socket.fileno()

    def close(self):
        """Ends the connection."""
        self.socket.close()

    def pack(self, message):
        """A message as it is sent."""
        return self.head + b"Content-Length: %d\r\n\r\n" % len(message) + message

    def send(self, packed):
        """Sends; the answer to the message before was read."""
        self._forget()
        self.answered = None
        self.socket.sendall(packed)

    def receive(self):
        """Takes what is there. True once the response has ended; `answered` is when the answer itself was there."""
        piece = self.socket.recv(PIECE_BYTES)
        if not piece:
            raise Broken(f"the connection ended within a response: {bytes(self.raw[:300])}")
        self.raw += piece
        is_over = (self.status is not None or self._read_head()) and self._read_body()
        if self.answered is None and (is_over or self._has_answer()):
            self.answered = time.perf_counter()
        return is_over

    def _read_head(self):
        end = self.raw.find(b"\r\n\r\n")
        if end < 0:
            return False
        self.headers = bytes(self.raw[:end]).lower()
        self.status = int(self.headers[9:12])
        self.at = end + 4
        length = LENGTH.search(self.headers)
        self.length = int(length[1]) if length else None
        if self.length is None and b"\r\ntransfer-encoding: chunked" not in self.headers:
            raise Broken(f"a response without a length: {self.headers}")
        return True

    def _read_body(self):
        if self.length is not None:
            self.body = self.raw[self.at : self.at + self.length]
            return len(self.body) == self.length
        while (end := self.raw.find(b"\r\n", self.at)) >= 0:
            size = int(self.raw[self.at : end].split(b";")[0], 16)
            if len(self.raw) < end + 2 + size + 2:
                return False
            self.body += self.raw[end + 2 : end + 2 + size]
            self.at = end + 2 + size + 2
            if size == 0:
                return True
        return False

    def _has_answer(self):
        """Whether an event of a stream that goes on holds the answer."""
        return b'"result"' in self.body and self.body.rstrip(b"\r").endswith((b"\n\n", b"\n\r\n"))

    def answer(self):
        """The JSON of the answer, or none for an accepted notification."""
        if self.status == 202:
            return None
        if self.status != 200:
            raise Broken(f"HTTP {self.status}: {bytes(self.body[:300])}")
        if b"\r\ncontent-type: text/event-stream" not in self.headers:
            return json.loads(self.body)
        events = [line[5:] for line in self.body.splitlines() if line.startswith(b"data:")]
        messages = [json.loads(event) for event in events if event.strip()]
        return next(message for message in messages if "result" in message or "error" in message)

    def header(self, name):
        """A header of the last response."""
        found = re.search(rb"\r\n" + name.encode() + rb": *([^\r]+)", self.headers)
        return found[1].decode() if found else None


class Pipes:
    """A program that speaks on its standard input and output, one message a line."""

    def __init__(self, process):
        """Takes over the pipes of a started program."""
        self.input, self.output = process.stdin.fileno(), process.stdout.fileno()
        self.line, self.answered = bytearray(), None

    def close(self):
        """The program is ended by whoever started it."""

    def pack(self, message):
        """A message as it is sent."""
        return message + b"\n"

    def send(self, packed):
        """Sends; the answer to the message before was read."""
        self.line, self.answered = bytearray(), None
        os.write(self.input, packed)

    def receive(self):
        """Takes what is there. True once the answer is whole; notices of the server are passed over."""
        if not (piece := os.read(self.output, PIECE_BYTES)):
            raise Broken("the program closed its output")
        self.line += piece
        if not self.line.endswith(b"\n"):
            return False
        answers = [line for line in self.line.splitlines() if b'"result"' in line or b'"error"' in line]
        if answers:
            self.line, self.answered = answers[0], time.perf_counter()
        return bool(answers)

    def answer(self):
        """The JSON of the answer."""
        return json.loads(self.line)


def exchange(connection, message):
    """Sends a message outside of any measurement and gives its answer; a notification over pipes has none."""
    connection.send(connection.pack(json.dumps({"jsonrpc": "2.0", **message}).encode()))
    if isinstance(connection, Pipes) and "id" not in message:
        return None
    while not connection.receive():
        pass
    return connection.answer()


def greet(connection):
    """Shakes hands. Gives the headers that later requests of this session carry."""
    hello = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": {"name": "peers", "version": "1"}}
    answer = exchange(connection, {"id": 0, "method": "initialize", "params": hello})
    headers = {"MCP-Protocol-Version": answer["result"]["protocolVersion"]}
    if isinstance(connection, Http) and (session := connection.header("mcp-session-id")):
        headers["Mcp-Session-Id"] = session
    return headers


class Caller:
    """Asks one tool, one call after the other, each with another text, and checks every answer."""

    def __init__(self, connection, tool, number):
        """`number` is where the texts begin to count."""
        self.connection, self.tool, self.number = connection, tool, number
        self.text, self.began = "", 0.0

    def send(self):
        """The next call goes out."""
        self.number += 1
        self.text = f"a text of some length, as a model writes it: 你好 {self.number}"
        params = {"name": self.tool, "arguments": {"text": self.text}}
        message = {"jsonrpc": "2.0", "id": self.number, "method": "tools/call", "params": params}
        packed = self.connection.pack(json.dumps(message, ensure_ascii=False).encode())
        self.began = time.perf_counter()
        self.connection.send(packed)

    def check(self):
        """The seconds that the call took, if its answer is the right one."""
        answer = self.connection.answer()
        result = answer.get("result", {})
        texts = [block.get("text") for block in result.get("content", [])]
        if answer.get("id") != self.number or texts != [self.text] or result.get("isError"):
            raise Broken(f"asked {self.tool} for {self.text!r} as {self.number}, and got {answer}")
        return self.connection.answered - self.began


def one_caller(caller, seconds):
    """The seconds of each call of one caller who asks for so long."""
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        caller.send()
        while not caller.connection.receive():
            pass
        times.append(caller.check())
    return times


def many_callers(callers, seconds):
    """The same for several at once: the seconds of each call, and how long all of it took."""
    times, poll = [], select.epoll()
    by_number = {caller.connection.fileno(): caller for caller in callers}
    for number in by_number:
        poll.register(number, select.EPOLLIN)
    began = time.perf_counter()
    for caller in callers:
        caller.send()
    under_way = len(callers)
    while under_way:
        for number, _ in poll.poll():
            caller = by_number[number]
            if not caller.connection.receive():
                continue
            times.append(caller.check())
            if time.perf_counter() < began + seconds:
                caller.send()
            else:
                under_way -= 1
    return times, time.perf_counter() - began
