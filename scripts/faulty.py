"""An upstream that goes wrong in the way that it is asked for: `GET` or `POST /FAULT` is an HTTP tool's server, `POST /mcp` an
MCP server over streamable HTTP whose tool `echo` takes the fault as its argument `do`. `GET /open` says how many other
connections are open. soak.py starts it, kills it, and starts it again on the same port.

Usage: faulty.py [PORT]     prints its port
"""

import asyncio
import json
import socket
import struct
import sys

# What a call can be asked to do; `fine` is the one that is none.
FAULTS = ["fine", "delay", "hang", "drip", "reset", "half", "silence", "flood", "lie", "not json", "deep", "binary", "page",
          "500", "503", "429", "401", "404"]
open_now = 0


def head(status, length, media="application/json", more=""):
    size = f"Content-Length: {length}\r\n" if length is not None else "Transfer-Encoding: chunked\r\n"
    return f"HTTP/1.1 {status} X\r\nContent-Type: {media}\r\n{size}{more}\r\n".encode()


def whole(status, body, media="application/json", more=""):
    return head(status, len(body), media, more) + body


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


async def request(reader):
    """Method, path and body of the next request; none at the end of the connection."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = lines[0].split(" ", 2)
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return method, path, body


def reset(writer):
    """Closes with RST instead of FIN."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def until_closed(reader):
    while await reader.read(65536):
        pass


async def misbehave(fault, fine, reader, writer):
    """Answers; whether the connection is good for another question."""
    media = "text/event-stream" if fine.startswith(b"data:") else "application/json"
    answers = {
        "fine": whole(200, fine, media),
        "lie": whole(200, b'{"jsonrpc":"2.0","id":"of somebody else","result":{"ok":false,"message":"\x1b[31mno\x1b[0m"}}'),
        "not json": whole(200, b'{"a": [1, 2'),
        "deep": whole(200, b'{"x":' + b"[" * 5000 + b"]" * 5000 + b"}"),
        "binary": whole(200, bytes(range(256)) * 4),
        "page": whole(200, b"<html><body>Welcome!</body></html>", "text/html"),
        "429": whole(429, b"{}", more="Retry-After: 1\r\n"),
    }
    if fault == "delay":
        await asyncio.sleep(0.2)
        writer.write(whole(200, fine, media))
        return True
    if fault in answers or fault.isdigit():
        writer.write(answers.get(fault) or whole(int(fault), b'{"error": "it went wrong"}'))
        return True
    if fault == "hang":
        await until_closed(reader)
    elif fault == "drip":
        writer.write(head(200, None))
        while not reader.at_eof():
            writer.write(chunk(b" "))
            await writer.drain()
            await asyncio.sleep(0.05)
    elif fault == "reset":
        reset(writer)
    elif fault == "half":
        writer.write(head(200, 1000) + fine[:20])
        await writer.drain()
    elif fault == "flood":
        writer.write(head(200, None))
        for _ in range(64):
            writer.write(chunk(b'"' + b"x" * (1 << 20) + b'"'))
            await writer.drain()
    # "silence" is a connection that is closed without a word.
    return False


def called(message):
    """The fault that a message of MCP asks for, and the answer where it asks for none."""
    method, params = message["method"], message.get("params", {})
    fault, result = "fine", None
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "faulty", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "echo", "description": "A tool.", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        fault = params.get("arguments", {}).get("do", "fine")
        result = {"content": [{"type": "text", "text": json.dumps(params.get("arguments", {}))}]}
    answer = {"jsonrpc": "2.0", "id": message.get("id")}
    answer |= {"result": result} if result else {"error": {"code": -32601, "message": "no such method"}}
    return fault, json.dumps(answer).encode()


async def answer(method, path, body, reader, writer):
    if path == "/open":
        writer.write(whole(200, str(open_now - 1).encode()))
        return True
    if path != "/mcp":
        fault = path.strip("/").split("?")[0].replace("%20", " ")
        return await misbehave(fault if fault in FAULTS else "404", b'{"answer": 42}', reader, writer)
    if method != "POST":
        writer.write(whole(405, b""))
        return True
    message = json.loads(body)
    if "id" not in message:
        writer.write(whole(202, b""))
        return True
    fault, fine = called(message)
    # Every other answer comes as a stream of events.
    is_stream = fault == "fine" and message["method"] == "tools/call" and message["id"] % 2
    return await misbehave(fault, b"data: " + fine + b"\n\n" if is_stream else fine, reader, writer)


async def serve(reader, writer):
    global open_now
    open_now += 1
    try:
        while await answer(*await request(reader), reader, writer):
            await writer.drain()
    except (OSError, EOFError, asyncio.IncompleteReadError):
        pass
    finally:
        open_now -= 1
        writer.close()


async def main():
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    server = await asyncio.start_server(serve, "127.0.0.1", port)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
