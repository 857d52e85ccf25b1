"""Tollgate seen from Python: lists its tools over MCP and calls one.

    pip install fastmcp
    python python_mcp_client.py                      # starts `tollgate serve --stdio`
    python python_mcp_client.py path/to/tollgate     # starts that binary
    TOLLGATE_KEY=… python python_mcp_client.py http://127.0.0.1:7373/mcp     # asks a running `tollgate serve`

Exits 0 when the answer is right, 1 when it is not.
"""

import asyncio
import os
import shutil
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport

EXPRESSION, EXPECTED = "34817 * 293", "10201381"


def client(server: str) -> Client:
    """A client of a running server, or of one that it starts itself."""
    if server.startswith(("http://", "https://")):
        return Client(server, auth=os.environ["TOLLGATE_KEY"], timeout=30)
    return Client(StdioTransport(server, ["serve", "--stdio"]), timeout=30)


async def main(server: str) -> int:
    async with client(server) as tollgate:
        for tool in await tollgate.list_tools():
            print(f"{tool.name}: {tool.description}")

        # A refused or failed call is an answer too: its text says why, and what to do next.
        result = await tollgate.call_tool("calculate", {"expression": EXPRESSION}, raise_on_error=False)
        text = "\n".join(part.text for part in result.content if part.type == "text")
        print(f"\n{EXPRESSION} = {text}")
        return 0 if not result.is_error and EXPECTED in text else 1


if __name__ == "__main__":
    server = sys.argv[1] if len(sys.argv) > 1 else "tollgate"
    if server.startswith("http") and "TOLLGATE_KEY" not in os.environ:
        sys.exit("set TOLLGATE_KEY to a client key: `tollgate keys create NAME` makes one")
    if not server.startswith("http") and shutil.which(server) is None:
        sys.exit(f"cannot start `{server}`: build it with `cargo build`, then name it: target/debug/tollgate")
    sys.exit(asyncio.run(main(server)))
