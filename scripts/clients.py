#!/usr/bin/env python3
"""Real MCP clients against `tollgate serve --stdio`: fastmcp and mcp (PyPI), the inspector's command line (npm).

TOLLGATE names the binary, INSPECTOR the inspector. Prints a line for each check and exits 1 at the first that fails.
"""

import asyncio
import json
import os
import pathlib
import subprocess
import tempfile

from fastmcp import Client
from fastmcp.client.transports import StdioTransport

TOLLGATE = os.environ["TOLLGATE"]
INSPECTOR = os.environ["INSPECTOR"]
READER = {
    "calculate",
    "read_file",
    "list_files",
    "search_files",
    "query_database",
    "list_tables",
    "describe_table",
    "fetch_page",
    "read_result",
}


def check(name, fact):
    print(("ok    " if fact else "FAIL  ") + name, flush=True)
    if not fact:
        raise SystemExit(1)


def serve(folder, *args):
    return StdioTransport(TOLLGATE, ["--quiet", "serve", "--stdio", *args], cwd=str(folder))


async def fastmcp_lists_and_calls(folder):
    async with Client(serve(folder)) as client:
        names = {tool.name for tool in await client.list_tools()}
        check("fastmcp lists the reader's tools", names == READER)
        result = await client.call_tool("calculate", {"expression": "34817 * 293"})
        check("fastmcp calls calculate", result.content[0].text == "10201381")
        result = await client.call_tool("read_file", {"path": "北京.txt"})
        check("fastmcp reads a Chinese file", "你好，世界" in result.content[0].text)
        long = await client.call_tool("read_file", {"path": "long.txt"})
        check("a long result is cut and says how to go on", "read_result" in long.content[0].text)
        refused = await client.call_tool("calculate", {"expr": "1"}, raise_on_error=False)
        check("wrong arguments are a tool error", refused.is_error and "invalid_arguments" in refused.content[0].text)
        try:
            await client.call_tool("write_file", {"path": "x", "content": "y"})
            check("a reader cannot write", False)
        except Exception as error:  # whatever class this client's version raises
            check("a reader cannot write", "write_file" in str(error) and not (folder / "x").exists())


async def fastmcp_works_as_developer(folder):
    async with Client(serve(folder, "--role", "developer")) as client:
        names = {tool.name for tool in await client.list_tools()}
        check("a developer sees the writers too", names == READER | {"write_file", "edit_file"})
        await client.call_tool("write_file", {"path": "new.txt", "content": "written\n"})
        check("fastmcp writes a file", (folder / "new.txt").read_text() == "written\n")
        calls = [client.call_tool("calculate", {"expression": f"{n} * {n}"}) for n in range(50)]
        texts = [result.content[0].text for result in await asyncio.gather(*calls)]
        check("fifty calls at once come back in their places", texts == [str(n * n) for n in range(50)])


def inspector(folder, *args):
    command = [INSPECTOR, "--cli", TOLLGATE, "--quiet", "serve", "--stdio", "--role", "developer", *args]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    check(f"the inspector runs {args[1]}", done.returncode == 0)
    return json.loads(done.stdout)


def inspector_lists_and_calls(folder):
    tools = {tool["name"]: tool for tool in inspector(folder, "--method", "tools/list")["tools"]}
    check("the inspector lists eleven tools", set(tools) == READER | {"write_file", "edit_file"})
    check("each with an output schema", all("outputSchema" in tool for tool in tools.values()))
    call = ["--method", "tools/call", "--tool-name"]
    result = inspector(folder, *call, "calculate", "--tool-arg", "expression=2^64")
    check("the inspector calls calculate", result["structuredContent"]["result"] == "18446744073709551616")
    result = inspector(folder, *call, "read_file", "--tool-arg", "path=../outside")
    check("the inspector reads an error", result["isError"] and result["structuredContent"]["error"] == "denied")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "北京.txt").write_text("你好，世界\n", encoding="utf-8")
        (folder / "long.txt").write_text("a line of some length\n" * 1900, encoding="utf-8")
        asyncio.run(fastmcp_lists_and_calls(folder))
        asyncio.run(fastmcp_works_as_developer(folder))
        inspector_lists_and_calls(folder)
        verified = subprocess.run([TOLLGATE, "audit", "verify"], cwd=folder, capture_output=True, text=True, timeout=60)
        check("the ledger of all of it is intact", verified.returncode == 0)


main()
