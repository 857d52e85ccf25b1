"""An MCP server over stdio whose resources change when its tools are called. The argument says its era. Every message it
gets goes to the file `log`, behind the number of its process."""
import json, os, sys

is_stateless = sys.argv[1] == "2026-07-28"
followed, listening = set(), None
tools = ["touch", "grow", "die"]


def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def notify(method, params):
    if is_stateless:
        params = {**params, "_meta": {"io.modelcontextprotocol/subscriptionId": listening}}
    send({"method": method, "params": params})


def call(params):
    name, uri = params["name"], params.get("arguments", {}).get("uri")
    if name == "die":
        os._exit(1)
    if name == "grow":
        tools.append(f"more_{len(tools)}")
        notify("notifications/tools/list_changed", {})
    if name == "touch" and uri in followed:
        notify("notifications/resources/updated", {"uri": uri})
    return {"content": [{"type": "text", "text": "done"}]}


def answer(method, params, id):
    global listening
    says = {"tools": {"listChanged": True}, "resources": {"subscribe": True, "listChanged": True}}
    if method == "server/discover" and is_stateless:
        return {"supportedVersions": ["2026-07-28"], "capabilities": says, "resultType": "complete"}
    if method == "initialize" and not is_stateless:
        return {"protocolVersion": params["protocolVersion"], "capabilities": says, "serverInfo": {"name": "s", "version": "1"}}
    if method == "tools/list":
        schema = {"type": "object", "properties": {"uri": {"type": "string"}}}
        return {"tools": [{"name": name, "inputSchema": schema} for name in tools]}
    if method == "tools/call":
        return call(params)
    if method == "resources/list":
        return {"resources": [{"uri": f"demo://{name}", "name": name} for name in ("a", "b")]}
    if method == "resources/templates/list":
        return {"resourceTemplates": [{"uriTemplate": "demo://t/{id}", "name": "t"}]}
    if method == "resources/subscribe" and not is_stateless:
        followed.add(params["uri"])
        return {}
    if method == "resources/unsubscribe" and not is_stateless:
        followed.discard(params["uri"])
        return {}
    if method == "subscriptions/listen" and is_stateless:
        wanted = params["notifications"].get("resourceSubscriptions", [])
        followed.clear()
        followed.update(wanted)
        listening = id
        notify("notifications/subscriptions/acknowledged", {"notifications": {"toolsListChanged": True, "resourceSubscriptions": wanted}})
        return None
    raise LookupError


for line in sys.stdin:
    with open("log", "a") as log:
        log.write(f"{os.getpid()} {line}")
    message = json.loads(line)
    if "id" in message and "method" in message:
        try:
            result = answer(message["method"], message.get("params", {}), message["id"])
            if result is not None:
                send({"id": message["id"], "result": result})
        except LookupError:
            send({"id": message["id"], "error": {"code": -32601, "message": "no"}})
