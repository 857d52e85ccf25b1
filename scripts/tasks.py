#!/usr/bin/env python3
"""MCP's tasks through the whole product, with a server that somebody else wrote (PyPI: fastmcp, fastmcp-tasks), and
with a `kill -9` between: what had ended is told by the next process, what had not is said to be unknown, and nothing is run again.

Usage: tasks.py TOLLGATE       with the Python that has fastmcp-tasks
"""

import pathlib
import sys
import tempfile

import serving
from serving import Server, wait_for

TOLLGATE = str(pathlib.Path(sys.argv[1]).resolve())
EXTENSION = "io.modelcontextprotocol/tasks"
THEIRS = """
import asyncio

from fastmcp import FastMCP
from fastmcp_tasks import TasksExtension

mcp = FastMCP("theirs")
mcp.add_extension(TasksExtension())


@mcp.tool(task=True)
async def count(to: int) -> str:
    await asyncio.sleep(1)
    return " ".join(str(n + 1) for n in range(to))


mcp.run(show_banner=False)
"""
CONFIG = """
role = "clerk"
[server]
task_after = "300ms"
[roles.clerk]
tools = ["*"]
risk = "dangerous"
permission = "system"
ask = "never"
[[tool]]
name = "work"
description = "Puts a line at the end of a file, and works."
command = ["sh", "-c", "read -r line; echo begun >> effects; sleep 15"]
risk = "write"
permission = "write"
execution = { timeout_ms = 120000 }
[[tool]]
name = "report"
description = "Says so."
command = ["sh", "-c", "cat > /dev/null; echo 报告"]
risk = "read"
permission = "read"
execution = { task = "always" }
[mcp.theirs]
command = "PYTHON"
args = ["theirs.py"]
"""


def post(server, method, name, params):
    """The answer to a request of a client that knows tasks."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": serving.STATELESS,
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {EXTENSION: {}}},
    }
    params = {**params, ("name" if method == "tools/call" else "taskId"): name, "_meta": meta}
    headers = {"MCP-Protocol-Version": serving.STATELESS, "Mcp-Method": method, "Mcp-Name": name}
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return server.post("/mcp", message, headers)[1]


def begin(server, tool, arguments=None):
    begun = post(server, "tools/call", tool, {"arguments": arguments or {}})
    assert begun["result"]["resultType"] == "task", begun
    return begun["result"]["taskId"]


def get(server, task):
    return post(server, "tasks/get", task, {})


def is_over(server, task):
    return get(server, task)["result"]["status"] not in ("working", "input_required")


def killed(folder, key, other):
    """What is told of tasks after their process was killed."""
    server = Server(TOLLGATE, folder, key)
    ended, open_ = begin(server, "report"), begin(server, "work")
    wait_for("the report has ended", lambda: is_over(server, ended))
    assert get(server, open_)["result"]["status"] == "working"
    server.kill()
    server = Server(TOLLGATE, folder, key)
    told, lost = get(server, ended)["result"], get(server, open_)["result"]
    assert (told["status"], told["result"]["content"][0]["text"].strip()) == ("completed", "报告"), told
    assert (lost["status"], lost["error"]["data"]["error"]) == ("failed", "outcome_unknown"), lost
    strange = Server(TOLLGATE, folder, other)
    for task in (ended, open_, "0" * 32):
        assert get(strange, task)["error"] == get(strange, "none")["error"], task
    strange.kill()
    # Another one cancels what it runs itself.
    again = begin(server, "work")
    for _ in range(2):
        assert "error" not in post(server, "tasks/cancel", again, {})
    wait_for("the task is cancelled", lambda: get(server, again)["result"]["status"] == "cancelled")
    effects = (folder / "effects").read_text().split()
    assert effects == ["begun", "begun"], effects
    server.stop()


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        (folder / "tollgate.toml").write_text(CONFIG.replace("PYTHON", sys.executable))
        (folder / "theirs.py").write_text(THEIRS)
        key, other = (serving.new_key(TOLLGATE, folder, who, "--role", "clerk") for who in ("ann", "bob"))
        killed(folder, key, other)
        print("  a task outlives its process where it had ended, and is unknown where it had not")
        theirs(folder, key)


def theirs(folder, key):
    """A server that knows tasks, by others: its task is followed to its end."""
    server = Server(TOLLGATE, folder, key)
    task = begin(server, "mcp__theirs__count", {"to": 3})
    wait_for("their task has ended", lambda: is_over(server, task))
    told = get(server, task)["result"]
    assert (told["status"], told["result"]["content"][0]["text"]) == ("completed", "1 2 3"), told
    print("  fastmcp's server makes a task, and is followed to its end")
    server.stop()


if __name__ == "__main__":
    main()
