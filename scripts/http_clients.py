#!/usr/bin/env python3
"""Real clients against `tollgate serve` over HTTP: fastmcp and mcp (PyPI), the TypeScript SDKs, mcp-remote and the
inspector (npm), curl. Each lists and calls; the ledger of all of it must be intact.

TOLLGATE names the binary, NODE a Node.js 22, TYPESCRIPT the folder with the npm packages.
Prints a line for each check and exits 1 at the first that fails.
"""

import asyncio
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

import fastmcp
import httpx2 as httpx
import mcp
from fastmcp.client.transports import StdioTransport
from mcp.client.streamable_http import streamable_http_client

TOLLGATE = os.environ["TOLLGATE"]
NODE = os.environ["NODE"]
TYPESCRIPT = pathlib.Path(os.environ["TYPESCRIPT"])
ROOT = pathlib.Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples" / "clients"


def check(name, fact):
    print(("ok    " if fact else "FAIL  ") + name, flush=True)
    if not fact:
        raise SystemExit(1)


@contextlib.contextmanager
def served(folder):
    """A server on a free port: its address and a client's key."""
    command = [TOLLGATE, "serve", "--bind", "127.0.0.1:0"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as server:
        url = key = None
        while not (url and key):
            line = server.stderr.readline()
            check("the server starts", bool(line)) if not line else None
            words = line.split()
            if words[:1] == ["MCP"]:
                url = words[1].removesuffix("/mcp")
            elif words[:1] == ["client"]:
                key = words[1]
        drain = subprocess.Popen(["cat"], stdin=server.stderr, stdout=subprocess.DEVNULL)
        try:
            yield url, key
        finally:
            server.send_signal(signal.SIGTERM)
            check("the server goes down in good order", server.wait(20) == 0)
            drain.wait(5)


async def python_sdk(url, key, mode):
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(headers=headers, timeout=30) as http:
        async with mcp.Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            check(f"mcp, {mode}, lists", "calculate" in names and "write_file" not in names)
            calls = [client.call_tool("calculate", {"expression": f"{n} * {n}"}) for n in range(30)]
            texts = [result.content[0].text for result in await asyncio.gather(*calls)]
            check(f"mcp, {mode}, calls thirty times at once", texts == [str(n * n) for n in range(30)])
            read = await client.call_tool("read_file", {"path": "北京.txt"})
            check(f"mcp, {mode}, reads a Chinese file", "你好，世界" in read.content[0].text)
            refused = await client.call_tool("calculate", {"expr": "1"})
            check(f"mcp, {mode}, reads an error", refused.is_error and "invalid_arguments" in refused.content[0].text)


async def mcp_remote(url, key):
    """A client that can only start programs, by the bridge that most of them are told to use."""
    bridge = TYPESCRIPT / "node_modules/.bin/mcp-remote"
    # The bridge splits its arguments at spaces: its own advice is a variable.
    arguments = [f"{url}/mcp", "--allow-http", "--transport", "http-only", "--header", "Authorization:${AUTH}"]
    environment = {**os.environ, "AUTH": f"Bearer {key}"}
    async with fastmcp.Client(StdioTransport(str(bridge), arguments, env=environment), timeout=60) as client:
        names = {tool.name for tool in await client.list_tools()}
        check("mcp-remote lists", "calculate" in names)
        result = await client.call_tool("calculate", {"expression": "2^64"})
        check("mcp-remote calls", result.content[0].text == "18446744073709551616")


def inspector(url, key):
    program = TYPESCRIPT / "node_modules/.bin/mcp-inspector"
    command = [NODE, str(program), "--cli", f"{url}/mcp", "--transport", "http"]
    command += ["--header", f"Authorization: Bearer {key}"]
    call = ["--method", "tools/call", "--tool-name", "calculate", "--tool-arg", "expression=6 * 7"]
    done = subprocess.run([*command, *call], capture_output=True, text=True, timeout=60)
    check("the inspector calls", done.returncode == 0 and json.loads(done.stdout)["content"][0]["text"] == "42")


def typescript(folder, url, key):
    """The SDKs are found beside the script, as Node.js wants it."""
    scripts = folder / "typescript"
    scripts.mkdir()
    (scripts / "node_modules").symlink_to(TYPESCRIPT / "node_modules")
    for script in [ROOT / "scripts/typescript_clients.mjs", EXAMPLES / "typescript_mcp_client.ts"]:
        shutil.copy(script, scripts)
        command = [NODE, script.name, f"{url}/mcp"]
        environment = {**os.environ, "TOLLGATE_KEY": key}
        done = subprocess.run(command, cwd=scripts, env=environment, capture_output=True, text=True, timeout=120)
        print("\n".join(line for line in done.stdout.splitlines() if line.startswith("ok ")))
        print(done.stderr, end="", file=sys.stderr)
        check(script.name, done.returncode == 0)


def example(name, command, url, key, shows):
    environment = {**os.environ, "TOLLGATE_KEY": key}
    done = subprocess.run([*command, url], env=environment, capture_output=True, text=True, timeout=60)
    print(done.stderr, end="", file=sys.stderr)
    check(name, done.returncode == 0 and all(text in done.stdout for text in shows))


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "北京.txt").write_text("你好，世界\n", encoding="utf-8")
        with served(folder) as (url, key):
            for mode in ["auto", "legacy", "2026-07-28"]:
                asyncio.run(python_sdk(url, key, mode))
            asyncio.run(mcp_remote(url, key))
            inspector(url, key)
            typescript(folder, url, key)
            python = [sys.executable, str(EXAMPLES / "python_mcp_client.py")]
            example("python_mcp_client.py (fastmcp)", python, f"{url}/mcp", key, ["34817 * 293 = 10201381"])
            shows = ["10201381", '"text":"42"', "unknown_tool", "did you mean `calculate`"]
            example("rest.sh (curl)", ["bash", str(EXAMPLES / "rest.sh")], url, key, shows)
        verified = subprocess.run([TOLLGATE, "audit", "verify"], cwd=folder, capture_output=True, text=True, timeout=60)
        check("the ledger of all of it is intact", verified.returncode == 0)


main()
