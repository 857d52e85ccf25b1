"""MCP's official conformance suite against Tollgate: the real gate and ledger behind HTTP, with the tools that the suite
asks for. What must pass must pass whole; everything else that a revision requires is counted and printed.

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
        "dns-rebinding-protection",
        "server-stateless",
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
        "dns-rebinding-protection",
    ],
}
SECONDS_MAX = 120
# What the suite puts behind a scenario's name: when it began.
STARTED = re.compile(r"-\d{4}-\d{2}-\d{2}T.*$")


def checks(folder: pathlib.Path) -> dict[str, collections.Counter]:
    """Counts the checks of a run by scenario and status."""
    found = {}
    for file in sorted(folder.glob("*/checks.json")):
        name = STARTED.sub("", file.parent.name.removeprefix("server-"))
        found[name] = collections.Counter(check["status"] for check in json.loads(file.read_text()))
    return found


def failures(folder: pathlib.Path) -> list[str]:
    """The checks that failed, as lines."""
    return [
        f"{check['id']}: {check.get('errorMessage')}"
        for file in sorted(folder.glob("*/checks.json"))
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

    def must_pass(self, scenario: str, revision: str) -> bool:
        folder = self.run("--scenario", scenario, "--spec-version", revision)
        total = sum(checks(folder).values(), collections.Counter())
        is_passed = total["SUCCESS"] > 0 and total["FAILURE"] == 0
        print(f"  {'passed' if is_passed else 'FAILED'}  {scenario}: {total['SUCCESS']} checks")
        for line in failures(folder):
            print(f"          {line}")
        return is_passed

    def count_required(self, revision: str) -> None:
        found = checks(self.run("--requirements", revision))
        total = sum(found.values(), collections.Counter())
        whole = [name for name, counts in found.items() if counts["SUCCESS"] and not counts["FAILURE"]]
        print(f"  all that {revision} requires: {total['SUCCESS']} checks pass, {total['FAILURE']} do not;", end=" ")
        print(f"{len(whole)} of {len(found)} scenarios pass whole")
        print(f"          not yet: {', '.join(name for name in found if name not in whole)}")


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


def main() -> None:
    server, node, index = sys.argv[1:]
    with subprocess.Popen([server], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        url = process.stdout.readline().strip()
        check_content(url)
        suite = Suite(node, index, url)
        failed = []
        for revision, scenarios in MUST.items():
            print(revision)
            failed += [f"{name} of {revision}" for name in scenarios if not suite.must_pass(name, revision)]
            suite.count_required(revision)
        process.stdin.close()
        assert process.wait(10) == 0
    if failed:
        sys.exit(f"not passed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
