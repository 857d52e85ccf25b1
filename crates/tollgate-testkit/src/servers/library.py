"""An MCP server over stdio with resources, templates and prompts, some of them odd. The argument says its era. Every message
it gets goes to the file `log`."""
import json, sys

is_stateless = sys.argv[1] == "2026-07-28"
log = open("log", "a")
resources = [
    {"uri": "demo://note/1", "name": "note", "size": 10**30, "vendor": {"kept": True}, "icons": []},
    {"uri": "demo://note/1", "name": "again"},
    {"name": "without"},
    {"uri": "a\nb", "name": "broken"},
    7,
]
templates = [
    {"uriTemplate": "demo://note/{id}", "name": "notes", "description": "Notes by number."},
    {"uriTemplate": "demo://{broken", "name": "broken"},
]
prompts = [
    {"name": "greet", "title": "A greeting", "arguments": [{"name": "who", "description": "Whom.", "required": True}]},
    {"description": "nameless"},
]


def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def raw(id, result):
    print('{"jsonrpc":"2.0","id":%s,"result":%s}' % (json.dumps(id), result), flush=True)


def answer(method, params, id):
    capabilities = {"tools": {}, "resources": {"subscribe": True, "listChanged": True}, "prompts": {}, "completions": {}}
    if method == "server/discover" and is_stateless:
        return {"supportedVersions": ["2026-07-28"], "capabilities": capabilities, "resultType": "complete"}
    if method == "initialize" and not is_stateless:
        info = {"name": "library", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": capabilities, "serverInfo": info}
    if method == "tools/list":
        return {"tools": [{"name": "add_note", "inputSchema": {"type": "object"}}]}
    if method == "tools/call":
        resources.append({"uri": "demo://note/2", "name": "second"})
        send({"method": "notifications/resources/list_changed"})
        send({"method": "notifications/resources/updated", "params": {"uri": "demo://note/1"}})
        return {"content": [{"type": "resource_link", "uri": "demo://note/2", "name": "second"}]}
    if method == "resources/list":
        at = int(params.get("cursor", 0))
        more = {"nextCursor": str(at + 1)} if at + 1 < len(resources) else {}
        return {"resources": resources[at : at + 1], "ttlMs": 5, "cacheScope": "public", **more}
    if method == "resources/templates/list":
        return {"resourceTemplates": templates}
    if method == "prompts/list":
        return {"prompts": prompts}
    if method == "resources/read":
        if params["uri"] == "demo://note/404":
            raise LookupError(-32602 if is_stateless else -32002)
        text = '{"contents":[{"uri":%s,"text":"a note","n":123456789012345678901}],"vendor":1.50}' % json.dumps(params["uri"])
        raw(id, text)
        return None
    if method == "prompts/get":
        text = json.dumps(params["arguments"])
        blocks = [{"type": "text", "text": text}, {"type": "resource", "resource": {"uri": "demo://note/1", "text": "t"}}]
        return {"messages": [{"role": "user", "content": block} for block in blocks]}
    if method == "completion/complete":
        return {"completion": {"values": [json.dumps(params["ref"]), params["argument"]["value"] + "!"], "total": 2}}
    if method in ("resources/subscribe", "resources/unsubscribe") and not is_stateless:
        return {}
    if method == "subscriptions/listen" and is_stateless:
        tag = {"_meta": {"io.modelcontextprotocol/subscriptionId": id}}
        granted = {"notifications": {"resourceSubscriptions": params["notifications"].get("resourceSubscriptions", [])}}
        send({"method": "notifications/subscriptions/acknowledged", "params": {**tag, **granted}})
        return None
    raise LookupError(-32601)


for line in sys.stdin:
    log.write(line)
    log.flush()
    message = json.loads(line)
    if "id" in message and "method" in message:
        try:
            result = answer(message["method"], message.get("params", {}), message["id"])
            if result is not None:
                send({"id": message["id"], "result": result})
        except LookupError as error:
            send({"id": message["id"], "error": {"code": error.args[0], "message": "no"}})
