"""A hostile MCP server over stdio. The first argument is its character; every message it gets goes to the file `log`."""
import json, os, subprocess, sys, time

character, rest = sys.argv[1], sys.argv[2:]
log = open("log", "a")
initialized_first = None


def out(text):
    sys.stdout.write(text)
    sys.stdout.flush()


def send(message):
    out(json.dumps({"jsonrpc": "2.0", **message}) + "\n")


def note(text):
    log.write(text + "\n")
    log.flush()


def tool(name, **more):
    return {"name": name, "description": "A tool.", "inputSchema": {"type": "object"}, **more}


TOOLS = [tool("echo")]
DEEP = "[" * 5000 + "]" * 5000
if character == "bad-tools":
    TOOLS = [
        tool("good", annotations={"readOnlyHint": True, "idempotentHint": True}, outputSchema={"type": "object"}),
        tool("read_file"),
        {"name": "no_schema"},
        tool("bad_type", inputSchema={"type": "object", "properties": {"a": {"type": "number of things"}}}),
        tool("remote_ref", inputSchema={"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/x"}}}),
        tool("not_object", inputSchema={"type": "array"}),
        tool("good"),
        tool("GOOD"),
        {"description": "nameless"},
        7,
        tool("dotted.name"),
        tool("x" * 90, execution={"taskSupport": "forbidden"}, vendor={"n": 10**30}),
    ]
if character == "change":
    TOOLS = [tool("grow")]

if character in ("slow", "slow-strict"):
    time.sleep(float(rest[0]))
if character == "noise":
    out("Welcome to the server!\n\n[1,2]\n{\"half\": \n\xff\n")
if character == "babbles":
    out("not a message\n" * 20000)
if character == "family":
    import signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    loop = "trap '' TERM; while :; do sleep 0.05; done"
    kin = [subprocess.Popen(["/bin/sh", "-c", loop], start_new_session=session) for session in (False, True)]
    open("pids", "w").write("".join(f"{pid}\n" for pid in [os.getpid(), *(one.pid for one in kin)]))
if character == "old-tasks":
    TOOLS = [tool("echo", execution={"taskSupport": "required"})]
print("starting", character, file=sys.stderr, flush=True)

# How each task does, one answer after the other; the last one stays.
STEPS = {
    "ends": [{"status": "working", "statusMessage": "half"}, {"status": "completed"}],
    "asks": [{"status": "input_required"}, {"status": "input_required"}, {"status": "completed"}],
    "fails": [{"status": "failed", "error": {"code": -32603, "message": "the job broke"}}],
    "lacks": [{"status": "failed", "error": {"code": -32021, "message": "no", "data": {"requiredCapabilities": {"sampling": {}}}}}],
    "is cancelled": [{"status": "cancelled"}],
    "is odd": [{"status": "resting"}],
    "goes on": [{"status": "working"}],
    "is forgotten": [],
}
tasks = {}


def task(id, **more):
    return {"taskId": id, "status": "working", "createdAt": "2026-11-30T08:00:00Z",
            "lastUpdatedAt": "2026-11-30T08:00:00Z", "ttlMs": 60000, "pollIntervalMs": 50, **more}


def of_task(method, params):
    told = tasks[params["taskId"]]
    if method == "tasks/result":
        return {"content": [{"type": "text", "text": "of old"}]}
    if method == "tasks/update":
        told["answers"] = params["inputResponses"]
    if method != "tasks/get":
        return {"resultType": "complete"}
    if not told["steps"]:
        raise LookupError(-32602)
    step = dict(told["steps"].pop(0) if len(told["steps"]) > 1 else told["steps"][0])
    if step["status"] == "input_required":
        step["inputRequests"] = {"q1": {"method": "elicitation/create", "params": {"message": "Who?"}}}
    if step["status"] == "completed":
        step["result"] = {"content": [{"type": "text", "text": json.dumps(told["answers"])}], "vendor": 10**30}
    return task(params["taskId"], resultType="complete", **step)


def answer(method, params, id):
    global TOOLS
    if method == "server/discover":
        if character in ("modern", "slow", "slow-strict"):
            return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "resultType": "complete"}
        if character in ("ignores-discover", "late"):
            return None
        raise LookupError(-32601 if character != "odd-code" else -32602)
    if method == "initialize" and character == "slow-strict":
        raise LookupError(-32022)
    if method == "initialize":
        return {"protocolVersion": "2099-01-01" if character == "future" else params["protocolVersion"],
                "capabilities": {"tools": {}}, "serverInfo": {"name": "double", "version": "1"}}
    if character in ("modern", "slow", "slow-strict") and "io.modelcontextprotocol/protocolVersion" not in params.get("_meta", {}):
        raise LookupError(-32602)
    if method == "tools/list":
        if character == "circle":
            return {"tools": [tool("t" + params.get("cursor", "0"))], "nextCursor": "1" if "cursor" in params else "2"}
        if character == "endless":
            n = int(params.get("cursor", 0))
            return {"tools": [tool(f"t{n}")], "nextCursor": str(n + 1)}
        if character == "million":
            note("listing")
            page = ",".join('{"name":"t%d","inputSchema":{"type":"object"}}' % n for n in range(10**6))
            out('{"jsonrpc":"2.0","id":%s,"result":{"tools":[%s]}}\n' % (json.dumps(id), page))
            return None
        if character == "thousands":
            n = int(params.get("cursor", 0))
            return {"tools": [tool(f"t{n}_{m}") for m in range(1000)], "nextCursor": str(n + 1)}
        if character == "restless":
            TOOLS = TOOLS[:1] + [tool(f"t{time.monotonic_ns()}")]
            send({"id": id, "result": {"tools": TOOLS}})
            send({"method": "notifications/tools/list_changed"})
            return None
        if character == "pages":
            n = int(params.get("cursor", 0))
            return {"tools": [tool(f"t{n}")], "nextCursor": str(n + 1) if n < 4 else None}
        if character == "deep":
            out('{"jsonrpc":"2.0","id":%s,"result":{"tools":[%s,{"name":"deep","inputSchema":{"x":%s}}]}}\n'
                % (json.dumps(id), json.dumps(TOOLS[0]), DEEP))
            return None
        return {"tools": TOOLS}
    if method.startswith("tasks/"):
        return of_task(method, params)
    if method == "tools/call" and (character == "old-tasks" or params["arguments"].get("task")):
        number = f"t{len(tasks) + 1}"
        tasks[number] = {"steps": list(STEPS[params["arguments"].get("task", "ends")]), "answers": None}
        if character != "old-tasks":
            return task(number, resultType="task")
        if "task" not in params:
            raise LookupError(-32601)
        return {"task": {"taskId": number, "status": "working", "ttl": 60000}}
    if method == "tools/call":
        name, arguments = params["name"], params.get("arguments", {})
        do = arguments.get("do")
        if name == "grow":
            TOOLS = TOOLS + [tool("grown")]
            send({"method": "notifications/tools/list_changed"})
        if do == "never":
            return None
        if do == "die":
            os._exit(9)
        if do == "die halfway":
            out('{"jsonrpc":"2.0","id":%s,"result":{"con' % json.dumps(id))
            os._exit(0)
        if do == "huge":
            out('{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"' % json.dumps(id))
            for _ in range(20):
                out("x" * 1_000_000)
            out('"}]}}\n')
            return None
        if do == "need sampling":
            data = {"requiredCapabilities": {"sampling": {}}}
            send({"id": id, "error": {"code": -32021, "message": "it needs more", "data": data}})
            return None
        if do == "zeros":
            for _ in range(2_000):
                out("\0" * 1_000_000)
            return None
        if do == "pid":
            return {"content": [{"type": "text", "text": str(os.getpid())}]}
        if do == "wrong ids":
            for wrong in (10**6, "x", None, [1], str(id)):
                send({"id": wrong, "result": {"content": []}})
            send({"id": id, "result": {"content": [{"type": "text", "text": "right"}]}})
            send({"id": id, "result": {"content": [{"type": "text", "text": "again"}]}})
            return None
        if do == "exact":
            out('{"jsonrpc":"2.0","id":%s,"vendor":1,"result":{"vendor":{"x":1},"action":"y","tools":[],"content":['
                '{"type":"hologram","depth":3,"more":{"a":[1]}},{"type":"text","text":"t","annotations":{"p":1}},'
                '{"type":"text","text":"plain"},{"type":"n","n":123456789012345678901234567890}],'
                '"structuredContent":{"n":18446744073709551615}}}\n' % json.dumps(id))
            return None
        if do == "big":
            out('{"jsonrpc":"2.0","id":%s,"result":{"structuredContent":{"n":123456789012345678901234567890}}}\n'
                % json.dumps(id))
            return None
        if do == "deep":
            out('{"jsonrpc":"2.0","id":%s,"result":{"content":[],"structuredContent":{"x":%s}}}\n'
                % (json.dumps(id), DEEP))
            return None
        if do == "fail":
            return {"isError": True, "content": [{"type": "text", "text": "no such order"}]}
        if do == "refuse":
            raise LookupError(-32603)
        if do == "progress":
            token = params["_meta"]["progressToken"]
            for step in (1, 2):
                send({"method": "notifications/progress",
                      "params": {"progressToken": token, "progress": step, "total": 2, "message": f"step {step}"}})
        if do == "elicit":
            send({"method": "notifications/message", "params": {"level": "warning", "data": {"n": 1}}})
            send({"id": "mine", "method": "elicitation/create", "params": {"message": "Who?", "n": 10**30}})
            return {"content": [{"type": "text", "text": json.dumps(json.loads(sys.stdin.readline()))}]}
        if do == "rounds":
            if "requestState" not in params:
                return {"resultType": "input_required", "requestState": "s1", "inputRequests": {
                    "who": {"method": "elicitation/create", "params": {"message": "Who?"}},
                    "where": {"method": "roots/list"}}}
            return {"resultType": "complete", "content": [{"type": "text", "text": json.dumps(
                [params["requestState"], params["inputResponses"],
                 params["_meta"]["io.modelcontextprotocol/clientCapabilities"]])}]}
        if do == "ask for ever":
            return {"resultType": "input_required", "requestState": "s"}
        if do == "ask for odd things":
            return {"resultType": "input_required", "inputRequests": {"x": {"method": "tools/list"}}}
        if do == "ask":
            send({"id": "mine", "method": "sampling/createMessage", "params": {}})
            send({"id": 5, "method": "ping"})
        return {"content": [{"type": "text", "text": json.dumps(arguments)}]}
    raise LookupError(-32601)


for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    note(line.strip())
    if character == "dies-at" and method == rest[0]:
        print("dying at", method, file=sys.stderr, flush=True)
        sys.exit(3)
    if method is None or id is None:
        continue
    try:
        result = answer(method, message.get("params", {}), id)
        if result is not None:
            send({"id": id, "result": result})
        if character == "deaf" and method == "tools/list":
            time.sleep(3600)
        if character == "late" and method == "initialize":
            send({"id": "probe-1", "error": {"code": -32601, "message": "late"}})
    except LookupError as error:
        send({"id": id, "error": {"code": error.args[0], "message": "no", "data": {"x": 1}}})
if character == "family":
    while True:
        time.sleep(1)
