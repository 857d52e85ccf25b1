"""An MCP server that answers with the text of the file `answer`, as it stands there, and lists one of each kind with the
members of the file `listing`."""
import json, sys

is_stateless = sys.argv[1] == "2026-07-28"


def send(id, result):
    sys.stdout.write('{"jsonrpc":"2.0","id":%s,"result":%s}\n' % (json.dumps(id), result.replace("\n", " ")))
    sys.stdout.flush()


def one(list, entry):
    # Spliced as text: Python would write numbers anew.
    return '{"%s":[%s,%s]}' % (list, json.dumps(entry)[:-1], open("listing").read().strip()[1:])


for line in sys.stdin:
    message = json.loads(line)
    method, id, params = message.get("method"), message.get("id"), message.get("params", {})
    capabilities = {"tools": {}, "resources": {}, "prompts": {}, "completions": {}}
    if id is None or method is None:
        continue
    if method == "server/discover" and is_stateless:
        send(id, json.dumps({"supportedVersions": ["2026-07-28"], "capabilities": capabilities}))
    elif method == "initialize" and not is_stateless:
        info = {"name": "mirror", "version": "1"}
        version = params["protocolVersion"]
        send(id, json.dumps({"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}))
    elif method == "tools/list":
        send(id, one("tools", {"name": "tell", "inputSchema": {"type": "object", "properties": {}}}))
    elif method == "resources/list":
        send(id, one("resources", {"uri": "demo://1"}))
    elif method == "resources/templates/list":
        send(id, one("resourceTemplates", {"uriTemplate": "demo://{id}"}))
    elif method == "prompts/list":
        send(id, one("prompts", {"name": "tell"}))
    elif method in ("tools/call", "resources/read", "prompts/get", "completion/complete"):
        send(id, open("answer").read())
    elif method != "subscriptions/listen":
        print(json.dumps({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}}), flush=True)
