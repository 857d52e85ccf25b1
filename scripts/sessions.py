#!/usr/bin/env python3
"""Many clients who say nothing: sessions of streamable HTTP, WebSockets and event streams, as many as are asked for of each.
What they cost in memory is counted, each must still be answered, and all of it must be given back.

    scripts/sessions.py TOLLGATE [COUNT]
"""

import base64
import contextlib
import json
import os
import pathlib
import resource
import socket
import sys
import tempfile

from serving import Server, initialize, new_key, wait_for

BYTES_MAX = 300 * 1024 * 1024


def resident(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise SystemExit(f"FAIL  {pid} is not there any more")


def get(server, path, *headers):
    """A connection on which a GET was answered by its head, and what came after that."""
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    lines = [f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{server.port}", f"Authorization: Bearer {server.key}", *headers]
    connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
    come = b""
    while b"\r\n\r\n" not in come:
        come += connection.recv(4096)
    head, rest = come.split(b"\r\n\r\n", 1)
    return connection, head, rest


def web_socket(server):
    key = base64.b64encode(os.urandom(16)).decode()
    upgrade = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {key}"]
    connection, head, _ = get(server, "/mcp/ws", *upgrade, "Sec-WebSocket-Protocol: mcp")
    assert head.startswith(b"HTTP/1.1 101"), head
    return connection


def say(connection, message):
    """One masked frame of text (RFC 6455 §5.2)."""
    text = json.dumps(message).encode()
    length = bytes([0x80 | len(text)]) if len(text) < 126 else bytes([0xFE]) + len(text).to_bytes(2, "big")
    connection.sendall(b"\x81" + length + bytes(4) + text)


def hear(connection):
    while True:
        kind, length = connection.recv(2, socket.MSG_WAITALL)
        if length == 126:
            length = int.from_bytes(connection.recv(2, socket.MSG_WAITALL), "big")
        text = connection.recv(length, socket.MSG_WAITALL) if length else b""
        # A ping asks for nothing that is counted here.
        if kind == 0x81:
            return json.loads(text)


def event_stream(server):
    connection, head, _ = get(server, "/sse")
    assert head.startswith(b"HTTP/1.1 200"), head
    return connection


def held(server, count, what, open_one):
    """What so many cost each, in bytes; the server is asked something while they are held."""
    before = resident(server.pid)
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(contextlib.closing(open_one(server))) for _ in range(count)]
        cost = resident(server.pid) - before
        if what == "WebSockets":
            for connection in opened[:: max(1, count // 100)]:
                say(connection, initialize(1))
                assert hear(connection)["result"]["protocolVersion"], "a client that waited is still answered"
        outcome = server.call("calculate", {"expression": "6 * 7"})
        assert outcome["status"] == "done", outcome
    print(f"ok    {count} {what}: {cost / 1024 / 1024:.0f} MiB, {cost // count} bytes each")
    return cost


def main(tollgate, count=10_000):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    # The server takes half of what it may open, and keeps some of that for requests.
    count = min(count, hard // 2 - 512)
    with tempfile.TemporaryDirectory() as folder:
        key = new_key(tollgate, folder, "many", "--role", "reader")
        server = Server(tollgate, folder, key)
        try:
            server.call("calculate", {"expression": "1 + 1"})
            before = resident(server.pid)
            sessions = [server.open_session() for _ in range(count)]
            cost = resident(server.pid) - before
            assert server.call_over_mcp(1, "calculate", {"expression": "1 + 1"}, sessions[0]), "the first still counts"
            print(f"ok    {count} sessions of streamable HTTP: {cost / 1024 / 1024:.0f} MiB, {cost // count} bytes each")
            costs = [cost, held(server, count, "WebSockets", web_socket), held(server, count, "event streams", event_stream)]
            # Whoever went away leaves nothing behind.
            files = pathlib.Path(f"/proc/{server.pid}/fd")
            wait_for("every connection is closed", lambda: len(list(files.iterdir())) < 100)
        finally:
            server.stop()
        if max(costs) > BYTES_MAX:
            raise SystemExit(f"FAIL  {max(costs)} bytes, and {BYTES_MAX} may be used")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
