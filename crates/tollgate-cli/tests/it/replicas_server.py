"""An MCP server that asks its client twice and then notes the order in the file `orders`. It is of 2026-07-28 and holds
nothing between two questions: what was answered comes back in `requestState`. With `LIVE` in its environment it is of the
handshake era, and asks in the middle of the call.
"""

import json, os, sys

def say(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

def form(field):
    schema = {"type": "object", "properties": {field: {"type": "string"}}, "required": [field]}
    return {"method": "elicitation/create", "params": {"message": f"Which {field}?", "requestedSchema": schema}}

def ordered(answers):
    with open("orders", "a") as orders:
        print(json.dumps(answers), file=orders)
    return {"resultType": "complete", "content": [{"type": "text", "text": "ordered"}]}

def answer(method, params):
    if method == "server/discover" and not os.environ.get("LIVE"):
        return {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                "ttlMs": 0, "cacheScope": "private"}
    if method == "initialize":
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    if method == "tools/list":
        schema = {"type": "object", "properties": {}}
        tools = [{"name": name, "inputSchema": schema} for name in ("order", "order_at_once")]
        return {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": tools}
    if method != "tools/call":
        return None
    if params["name"] == "order_at_once":
        return ordered({})
    if os.environ.get("LIVE"):
        say({"id": "mine", **form("size")})
        return ordered(json.loads(sys.stdin.readline())["result"])
    answers = {**json.loads(params.get("requestState", "{}")), **params.get("inputResponses", {})}
    missing = [field for field in ("size", "colour") if field not in answers]
    if not missing:
        return ordered(answers)
    return {"resultType": "input_required", "inputRequests": {missing[0]: form(missing[0])},
            "requestState": json.dumps(answers)}

for line in sys.stdin:
    ask = json.loads(line)
    if "id" not in ask:
        continue
    result = answer(ask.get("method"), ask.get("params", {}))
    missing = {"error": {"code": -32601, "message": "unknown"}}
    say({"id": ask["id"], **({"result": result} if result else missing)})
