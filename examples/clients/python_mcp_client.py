"""Tollgate seen from Python: lists its tools over MCP and calls one.

    pip install fastmcp
    python python_mcp_client.py                      # starts `tollgate serve --stdio`
    python python_mcp_client.py path/to/tollgate     # starts that binary

Exits 0 when the answer is right, 1 when it is not.
"""

import asyncio
import shutil
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport

EXPRESSION, EXPECTED = "34817 * 293", "10201381"


async def main(tollgate: str) -> int:
    async with Client(StdioTransport(tollgate, ["serve", "--stdio"]), timeout=30) as client:
        for tool in await client.list_tools():
            print(f"{tool.name}: {tool.description}")

        # A refused or failed call is an answer too: its text says why, and what to do next.
        result = await client.call_tool("calculate", {"expression": EXPRESSION}, raise_on_error=False)
        text = "\n".join(part.text for part in result.content if part.type == "text")
        print(f"\n{EXPRESSION} = {text}")
        return 0 if not result.is_error and EXPECTED in text else 1


if __name__ == "__main__":
    program = sys.argv[1] if len(sys.argv) > 1 else "tollgate"
    if shutil.which(program) is None:
        sys.exit(f"cannot start `{program}`: build it with `cargo build`, then name it: target/debug/tollgate")
    sys.exit(asyncio.run(main(program)))
