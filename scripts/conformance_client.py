"""MCP's official conformance suite against Tollgate as a client: its servers judge how upstreams are asked. Every scenario
that is named here must pass whole.

Usage: conformance_client.py CLIENT NODE SUITE    the example `conformance_client`, Node.js 22 or newer, the suite's index.js
"""

import collections
import concurrent.futures
import sys

from conformance import Suite, checks, failures, is_whole

# Of logins, in both eras.
LOGINS = [
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/basic-cimd",
    "auth/scope-from-www-authenticate",
    "auth/scope-from-scopes-supported",
    "auth/scope-omitted-when-undefined",
    "auth/scope-step-up",
    "auth/scope-retry-limit",
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-post",
    "auth/token-endpoint-auth-none",
    "auth/pre-registration",
]
# Of extensions, which belong to no revision.
EXTENSIONS = ["auth/client-credentials-jwt", "auth/client-credentials-basic"]
# Scenarios that pass whole, by revision.
MUST = {
    "2026-07-28": [
        *LOGINS,
        "auth/resource-mismatch",
        "auth/offline-access-scope",
        "auth/offline-access-not-supported",
        "auth/authorization-server-migration",
        "auth/iss-supported",
        "auth/iss-not-advertised",
        "auth/iss-supported-missing",
        "auth/iss-wrong-issuer",
        "auth/iss-unexpected",
        "auth/iss-normalized",
        "auth/metadata-issuer-mismatch",
        "request-metadata",
        "tools_call",
        "http-standard-headers",
        "http-custom-headers",
        "http-invalid-tool-headers",
        "json-schema-ref-no-deref",
        "sep-2322-client-request-state",
        "json-schema-2020-12-preservation",
    ],
    "2025-11-25": [
        *LOGINS,
        "initialize",
        "tools_call",
        "sse-retry",
        "elicitation-sep1034-client-defaults",
        "json-schema-2020-12-preservation",
    ],
    "2025-03-26": [
        "auth/2025-03-26-oauth-metadata-backcompat",
        "auth/2025-03-26-oauth-endpoint-fallback",
    ],
}


class ClientSuite(Suite):
    def __init__(self, node: str, index: str, program: str):
        self.command = [node, index, "client", "--command", program]

    def must_pass(self, scenario: str, revision: str | None) -> bool:
        folder = self.run("--scenario", scenario, *(["--spec-version", revision] if revision else []))
        return is_whole(scenario, sum(checks(folder).values(), collections.Counter()), failures(folder))


def main() -> None:
    program, node, index = sys.argv[1:]
    suite = ClientSuite(node, index, program)
    cases = [(scenario, revision) for revision, scenarios in MUST.items() for scenario in scenarios]
    cases += [(scenario, None) for scenario in EXTENSIONS]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        passed = list(pool.map(lambda case: suite.must_pass(*case), cases))
    failed = [f"{scenario} of {revision or 'an extension'}" for (scenario, revision), is_passed in zip(cases, passed) if not is_passed]
    if failed:
        sys.exit(f"not passed: {', '.join(failed)}")
    print(f"{len(cases)} scenarios of a client pass whole")


if __name__ == "__main__":
    main()
