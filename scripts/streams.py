#!/usr/bin/env python3
"""What real servers say unasked, through Tollgate to a real client: server-everything (npm) over stdio and streamable HTTP,
a server of the Python SDK in the stateless era over both, and the SDK's client in each era.

Usage: streams.py TOLLGATE NODE NPM    NPM: the folder with the npm packages. Runs in a Python that has `mcp`.
"""

import asyncio
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings

import httpx2 as httpx
import mcp
from mcp.client.streamable_http import streamable_http_client

from serving import Server, new_key

WAIT = 60
# A server of the stateless era whose tools change what it has.
SDK = '''
import sys
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("changing")

@server.resource("demo://note", name="note", mime_type="text/plain")
def note() -> str:
    return "a note"

@server.tool()
async def touch(ctx: Context) -> str:
    await ctx.notify_resource_updated("demo://note")
    return "touched"

@server.tool()
async def grow(ctx: Context) -> str:
    server.add_tool(lambda: "new", name=f"new_{len(await server.list_tools())}", description="New.")
    await ctx.notify_tools_changed()
    return "grown"

if sys.argv[1:] == []:
    server.run()
else:
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
'''
warnings.simplefilter("ignore")


def check(name, fact):
    print(("ok    " if fact else "FAIL  ") + name, flush=True)
    if not fact:
        raise SystemExit(1)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@contextlib.contextmanager
def listening(command, port, **env):
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, env={**os.environ, **env}, start_new_session=True, **quiet)
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


class Told:
    """What a client was told."""

    def __init__(self):
        self.messages = asyncio.Queue()

    async def __call__(self, message):
        await self.messages.put(message)

    async def next(self, kind):
        while True:
            message = await asyncio.wait_for(self.messages.get(), WAIT)
            if type(message).__name__.startswith(kind):
                return message


async def follows(url, key, mode, server, touch, grow):
    headers = {"Authorization": f"Bearer {key}"}
    told = Told()
    async with httpx.AsyncClient(headers=headers, timeout=httpx.Timeout(30, read=WAIT)) as http:
        transport = streamable_http_client(f"{url}/mcp", http_client=http)
        async with mcp.Client(transport, mode=mode, message_handler=told) as client:
            await client.list_tools()
            resources = (await client.list_resources()).resources
            uri = next(str(one.uri) for one in resources if str(one.uri).startswith(server.replace("_", ".") + "+"))
            what = f"mcp, {mode}, of {server}"
            if mode == "legacy":
                await client.subscribe_resource(uri)
                await client.call_tool(f"mcp__{server}__{touch}", {})
                check(f"{what} hears that its resource changed", str((await told.next("ResourceUpdated")).params.uri) == uri)
                if grow:
                    await client.call_tool(f"mcp__{server}__{grow}", {})
                    await told.next("ToolListChanged")
                    check(f"{what} hears that its tools are others", True)
                await client.unsubscribe_resource(uri)
                await client.call_tool(f"mcp__{server}__{touch}", {})
                return
            async with client.listen(tools_list_changed=True, resource_subscriptions=[uri]) as listened:
                await client.call_tool(f"mcp__{server}__{touch}", {})
                event = await asyncio.wait_for(anext(aiter(listened)), WAIT)
                check(f"{what} hears that its resource changed", str(event.uri) == uri)
                if grow:
                    await client.call_tool(f"mcp__{server}__{grow}", {})
                    event = await asyncio.wait_for(anext(aiter(listened)), WAIT)
                    check(f"{what} hears that its tools are others", type(event).__name__ == "ToolsListChanged")
                await client.call_tool(f"mcp__{server}__{touch}", {})


def main():
    tollgate, node, npm = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as running:
        folder = pathlib.Path(name)
        (folder / "changing.py").write_text(SDK)
        everything = [node, f"{npm}/node_modules/@modelcontextprotocol/server-everything/dist/index.js"]
        ports = [free_port(), free_port()]
        running.enter_context(listening([*everything, "streamableHttp"], ports[0], PORT=str(ports[0])))
        running.enter_context(listening([sys.executable, str(folder / "changing.py"), str(ports[1])], ports[1]))
        servers = {
            "everything": {"command": everything[0], "args": [everything[1], "stdio"]},
            "everything_http": {"url": f"http://127.0.0.1:{ports[0]}/mcp"},
            "changing": {"command": sys.executable, "args": ["changing.py"]},
            "changing_http": {"url": f"http://127.0.0.1:{ports[1]}/mcp"},
        }
        text = '[roles.all]\ntools = ["*"]\nrisk = "dangerous"\npermission = "system"\nask = "never"\n'
        for server, reached in servers.items():
            text += f"[mcp.{server}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in reached.items())
        (folder / "tollgate.toml").write_text(text)
        key = new_key(tollgate, folder, "ann", "--role", "all")
        server = Server(tollgate, folder, key)
        url = f"http://127.0.0.1:{server.port}"
        for of in servers:
            touch, grow = ("touch", "grow") if of.startswith("changing") else ("toggle-subscriber-updates", None)
            for mode in ["legacy", "2026-07-28"]:
                asyncio.run(follows(url, key, mode, of, touch, grow))
        server.stop()


main()
