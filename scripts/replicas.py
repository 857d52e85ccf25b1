#!/usr/bin/env python3
"""Two `tollgate serve` over one data folder, and a real client (PyPI `mcp`) whose requests reach them in turn: calls that ask
twice go on at whichever server the answers arrive.

TOLLGATE names the binary. Prints a line for each check and exits 1 at the first that fails.
"""

import asyncio
import contextlib
import itertools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import urllib.parse

import httpx2 as httpx
import mcp
import mcp_types as types
from mcp.client.streamable_http import streamable_http_client

TOLLGATE = os.environ["TOLLGATE"]
SERVER = pathlib.Path(__file__).resolve().parent.parent / "crates/tollgate-cli/tests/it/replicas_server.py"
CONFIG = """
[mcp.shop]
command = "python3"
args = ["server.py"]

[mcp.shop.tools.order]
risk = "write"
permission = "read"

[roles.buyer]
tools = ["mcp__shop__*"]
permission = "network"
risk = "write"
ask = "never"
"""
ORDERS = 12


def check(name, fact):
    print(("ok    " if fact else "FAIL  ") + name, flush=True)
    if not fact:
        raise SystemExit(1)


@contextlib.contextmanager
def served(folder, *args):
    """A server on a free port: its address."""
    command = [TOLLGATE, "serve", "--bind", "127.0.0.1:0", *args]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as server:
        said = iter(server.stderr.readline, "")
        url = next(line.split()[1] for line in said if line.split()[:1] == ["MCP"])
        drain = subprocess.Popen(["cat"], stdin=server.stderr, stdout=subprocess.DEVNULL)
        try:
            yield url
        finally:
            server.send_signal(signal.SIGTERM)
            check("a server goes down in good order", server.wait(20) == 0)
            drain.wait(5)


async def order(urls, key):
    """Orders, and counts the requests that each server was sent."""
    turns, sent = itertools.cycle(urls), dict.fromkeys(urls, 0)

    async def turn(request):
        url = next(turns)
        sent[url] += 1
        place = urllib.parse.urlsplit(url)
        request.url = request.url.copy_with(port=place.port)
        request.headers["host"] = place.netloc

    async def answer(_, params):
        field = next(iter(params.requested_schema["properties"]))
        return types.ElicitResult(action="accept", content={field: "大"})

    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(headers=headers, timeout=30, event_hooks={"request": [turn]}) as http:
        transport = streamable_http_client(urls[0], http_client=http)
        async with mcp.Client(transport, mode="2026-07-28", elicitation_callback=answer) as client:
            # One after the other, and all at once: then the answers arrive anywhere.
            for _ in range(ORDERS // 2):
                result = await client.call_tool("mcp__shop__order", {})
                check("an order goes through", result.content[0].text == "ordered")
            calls = [client.call_tool("mcp__shop__order", {}) for _ in range(ORDERS // 2)]
            texts = [result.content[0].text for result in await asyncio.gather(*calls)]
            check("orders at once go through", texts == ["ordered"] * (ORDERS // 2))
    return sent


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "tollgate.toml").write_text(CONFIG)
        shutil.copy(SERVER, folder / "server.py")
        with served(folder, "--role", "buyer") as one, served(folder) as other:
            key = (folder / ".tollgate/keys/client.key").read_text().strip()
            sent = asyncio.run(order([one, other], key))
            check(f"both servers were asked: {list(sent.values())}", min(sent.values()) >= ORDERS)
        orders = [json.loads(line) for line in (folder / "orders").read_text().splitlines()]
        whole = [order["size"]["content"]["size"] == order["colour"]["content"]["colour"] == "大" for order in orders]
        check("each was ordered once, with both answers", whole == [True] * ORDERS)
        verified = subprocess.run([TOLLGATE, "audit", "verify"], cwd=folder, capture_output=True, text=True, timeout=60)
        check("the ledger of all of it is intact", verified.returncode == 0)


main()
