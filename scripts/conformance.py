"""MCP's official conformance suite against Tollgate: the real gate and ledger with the tools that the suite asks for, over
HTTP, on standard input and output, and behind another Tollgate that calls them either way. What must pass must pass whole;
everything else that a revision requires is counted and printed.

Usage: conformance.py SERVER NODE SUITE    the example `conformance_server`, Node.js 22 or newer, the suite's index.js
"""

import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.request

from stdio_front import Front

# Of what is no tool, in both eras.
ENTRIES = [
    "resources-list",
    "resources-read-text",
    "resources-read-binary",
    "resources-templates-read",
    "prompts-list",
    "prompts-get-simple",
    "prompts-get-with-args",
    "prompts-get-embedded-resource",
    "prompts-get-with-image",
    "completion-complete",
]
# Scenarios that pass whole, by revision.
MUST = {
    "2026-07-28": [
        "tools-list",
        "tools-call-simple-text",
        "tools-call-image",
        "tools-call-audio",
        "tools-call-embedded-resource",
        "tools-call-mixed-content",
        "tools-call-error",
        "tools-call-with-progress",
        *ENTRIES,
        "input-required-result-basic-elicitation",
        "input-required-result-basic-sampling",
        "input-required-result-basic-list-roots",
        "input-required-result-request-state",
        "input-required-result-multiple-input-requests",
        "input-required-result-multi-round",
        "input-required-result-missing-input-response",
        "input-required-result-non-tool-request",
        "input-required-result-result-type",
        "input-required-result-unsupported-methods",
        "input-required-result-tampered-state",
        "input-required-result-capability-check",
        "input-required-result-ignore-extra-params",
        "input-required-result-validate-input",
        "sep-2164-resource-not-found",
        "caching",
        "http-header-validation",
        "http-custom-header-server-validation",
        "dns-rebinding-protection",
        "server-stateless",
        "tasks-lifecycle",
        "tasks-capability-negotiation",
        "tasks-wire-fields",
        "tasks-request-state-removal",
        "tasks-mrtr-input",
        "tasks-request-headers",
        "tasks-dispatch-and-envelope",
        "tasks-required-task-error",
        "tasks-mrtr-composition",
    ],
    "2025-11-25": [
        "server-initialize",
        "ping",
        "logging-set-level",
        "tools-list",
        "tools-call-simple-text",
        "tools-call-image",
        "tools-call-audio",
        "tools-call-embedded-resource",
        "tools-call-mixed-content",
        "tools-call-error",
        "tools-call-with-progress",
        "tools-call-with-logging",
        "tools-call-sampling",
        "tools-call-elicitation",
        "elicitation-sep1034-defaults",
        "elicitation-sep1330-enums",
        *ENTRIES,
        "resources-subscribe",
        "resources-unsubscribe",
        "server-sse-multiple-streams",
        "json-schema-2020-12",
        "dns-rebinding-protection",
    ],
}
# What has to do with HTTP and nothing else: a server on standard input and output is not asked it.
OF_HTTP = {
    "dns-rebinding-protection": "it is about the headers `Host` and `Origin`",
    "http-header-validation": "it is about headers that repeat what the message says",
    "http-custom-header-server-validation": "the same",
    "server-stateless": "most of it is about the status that belongs to an error",
    "tasks-request-headers": "it is about headers that repeat what the message says",
}
# What a server of the handshake era cannot ask through a house: a session of that era is everybody's.
OF_ONE_CLIENT = {
    "input-required-result-basic-list-roots": "the folders of one client are not those of another",
    "input-required-result-multiple-input-requests": "it asks for folders too",
    "input-required-result-basic-elicitation": "questions of that era have no names",
    "server-stateless": "what clients offer is said once for all, before anybody calls",
    "tasks-lifecycle": "what only clients that know tasks may call is refused there, and an error of the protocol is a result",
}
# A house in front of the fixture, which serves what it has there under the names that it has there.
HOUSE = """
data_dir = "{folder}/data"
workspace = "{folder}/work"

[roles.reader]
tools = ["*"]
permission = "network"
risk = "dangerous"
ask = "never"

[mcp.fixture]
{reached}

[mcp.fixture.tools."*"]
risk = "read"
permission = "read"

# What a server says of its tools does not say which of them are tasks.
[server]
task_after = "1s"
[tools."mcp__fixture__{{slow_compute,protocol_error_job,confirm_delete,multi_input}}"]
execution = {{ task = "always", timeout_ms = 120000 }}
[tools.mcp__fixture__greet]
execution = {{ task = "never" }}
[tools.mcp__fixture__failing_job]
execution = {{ task = "required" }}

[sets.fixture]
bare = "fixture"
"""
OLDER = pathlib.Path(__file__).resolve().parent / "older.py"
SECONDS_MAX = 120
# What the suite puts behind a scenario's name: when it began.
STARTED = re.compile(r"-\d{4}-\d{2}-\d{2}T.*$")


def checks(folder: pathlib.Path) -> dict[str, collections.Counter]:
    """Counts the checks of a run by scenario and status."""
    found = {}
    for file in sorted(folder.rglob("checks.json")):
        found[scenario_of(file)] = collections.Counter(check["status"] for check in json.loads(file.read_text()))
    return found


def scenario_of(file: pathlib.Path) -> str:
    return STARTED.sub("", file.parent.name.removeprefix("server-"))


def failures(folder: pathlib.Path, scenario: str | None = None) -> list[str]:
    """The checks that failed, of one scenario or of all, as lines."""
    return [
        f"{check['id']}: {check.get('errorMessage')}"
        for file in sorted(folder.rglob("checks.json"))
        if scenario in (None, scenario_of(file))
        for check in json.loads(file.read_text())
        if check["status"] == "FAILURE"
    ]


class Suite:
    def __init__(self, node: str, index: str, url: str):
        self.command = [node, index, "server", "--url", url]

    def run(self, *arguments: str) -> pathlib.Path:
        """Runs it into a new folder. Its exit status is not asked: its files say what passed."""
        folder = pathlib.Path(tempfile.mkdtemp())
        done = subprocess.run(
            [*self.command, *arguments, "-o", str(folder)], capture_output=True, text=True, timeout=SECONDS_MAX
        )
        if not checks(folder):
            sys.exit(f"the suite left no result for {arguments}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return folder

    def all_must_pass(self, scenarios: list[str], revision: str) -> list[str]:
        """Runs all that a revision requires, once. Gives what must pass whole and does not."""
        folder = self.run("--requirements", revision)
        found, none = checks(folder), collections.Counter()
        failed = [name for name in scenarios if not is_whole(name, found.get(name, none), failures(folder, name))]
        total = sum(found.values(), collections.Counter())
        whole = [name for name, counts in found.items() if counts["SUCCESS"] and not counts["FAILURE"]]
        print(f"  all that {revision} requires: {total['SUCCESS']} checks pass, {total['FAILURE']} do not;", end=" ")
        print(f"{len(whole)} of {len(found)} scenarios pass whole")
        print(f"          not yet: {', '.join(name for name in found if name not in whole)}")
        return failed


def is_whole(scenario: str, counts: collections.Counter, failed: list[str]) -> bool:
    """Whether a scenario was passed, and not by doing nothing."""
    is_passed = counts["SUCCESS"] > 0 and counts["FAILURE"] == 0
    print(f"  {'passed' if is_passed else 'FAILED'}  {scenario}: {counts['SUCCESS']} checks")
    for line in failed:
        print(f"          {line}")
    return is_passed


def check_content(url: str) -> None:
    """The suite takes any text for a simple text; this looks at what it says."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "test_simple_text", "arguments": {}, "_meta": meta}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "test_simple_text",
    }
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=10) as response:
        result = json.load(response)["result"]
    text = "This is a simple text response for testing."
    assert result["isError"] is False and result["content"] == [{"type": "text", "text": text}], result


class Served:
    """The example in one of its ways, until its input ends."""

    def __init__(self, command: list[str]):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()

    def close(self) -> None:
        self.process.stdin.close()
        assert self.process.wait(20) == 0


def house(server: str, reached: str) -> Served:
    folder = tempfile.mkdtemp()
    pathlib.Path(folder, "work").mkdir()
    config = pathlib.Path(folder, "tollgate.toml")
    config.write_text(HOUSE.format(folder=folder, reached=reached))
    return Served([server, str(config), "fixture"])


def main() -> None:
    server, node, index = sys.argv[1:]
    failed = []

    def judge(way: str, url: str, left: dict[str, str], revisions: tuple[str, ...] = tuple(MUST)) -> None:
        check_content(url)
        suite = Suite(node, index, url)
        for revision in revisions:
            scenarios = MUST[revision]
            print(f"{revision}, {way}")
            for name in left.keys() & set(scenarios):
                print(f"  left    {name}: {left[name]}")
            asked = [name for name in scenarios if name not in left]
            failed.extend(f"{name} of {revision}, {way}" for name in suite.all_must_pass(asked, revision))

    def judge_house(way: str, reached: str, left: dict[str, str]) -> None:
        # One for each: calls that still wait for clients of one revision keep a server from asking those of the other, where
        # it does not say on whose behalf it asks.
        for revision in MUST:
            before = house(server, reached)
            judge(f"behind a house that calls it {way}", before.url, left, (revision,))
            before.close()

    fixture = Served([server])
    judge("over HTTP", fixture.url, {})
    judge_house("over HTTP", f'url = "{fixture.url}"', {})
    fixture.close()
    judge_house("on standard input and output", f'command = "{server}"\nargs = ["--stdio"]', {})
    older = f'command = "python3"\nargs = ["{OLDER}", "{server}", "--stdio"]'
    judge_house("by handshake", older, OF_ONE_CLIENT)
    front = Front([server, "--stdio"])
    judge("on standard input and output", front.url, OF_HTTP)
    front.close()
    if failed:
        sys.exit(f"not passed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
