#!/usr/bin/env bash
# Tollgate seen from curl: lists the tools, calls one, and shows what a refusal looks like.
#
#     tollgate serve                      # in another terminal; the first start shows a client key
#     TOLLGATE_KEY=… bash rest.sh
#     TOLLGATE_KEY=… bash rest.sh http://127.0.0.1:7373
#
# Every call that was decided answers 200 with the outcome object: its `status` says how it ended. Other statuses are for
# the request itself, such as 401 for a wrong key.
set -euo pipefail

url="${1:-http://127.0.0.1:7373}"
: "${TOLLGATE_KEY:?set it to a client key: tollgate keys create NAME}"

# The key goes in by a file descriptor, not among the arguments that every user of the machine can read.
ask() { curl --silent --show-error --fail-with-body --header @<(echo "Authorization: Bearer $TOLLGATE_KEY") "$@"; }

echo "the tools of this key:"
ask "$url/api/v1/tools"

echo; echo "a call:"
ask --json '{"tool": "calculate", "arguments": {"expression": "34817 * 293"}}' "$url/api/v1/calls"

echo; echo "the same call under a key of its own, which runs at most once:"
ask --json '{"tool": "calculate", "arguments": {"expression": "6 * 7"}, "idempotency_key": "order-4711"}' "$url/api/v1/calls"

echo; echo "a refusal:"
ask --json '{"tool": "calculat", "arguments": {}}' "$url/api/v1/calls"
echo
