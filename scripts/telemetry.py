#!/usr/bin/env python3
"""Traces, metrics and logs through the whole product. A collector that somebody else wrote (PyPI: rotel, in Rust) takes the
spans and hands them on; what it hands on is read with the official definitions of OTLP (PyPI: opentelemetry-proto). The
metrics are read by Prometheus' own parser (prometheus-client), the dashboard's queries by one of PromQL (promql-parser).

Usage: telemetry.py TOLLGATE ROTEL_AGENT
"""

import atexit
import contextlib
import gzip
import http.client
import http.server
import json
import os
import pathlib
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import promql_parser
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from prometheus_client.parser import text_string_to_metric_families

TOLLGATE, ROTEL = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:3])
DASHBOARD = pathlib.Path(__file__).parent.parent / "examples/grafana/tollgate.json"
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0b5902b7-01"
SECRET = "token-of-the-collector-42"
CONFIG = """
[telemetry]
endpoint = "ENDPOINT"
headers = { X-Token = { file = "token.secret" } }
service_name = "house"
content = CONTENT
logs = "json"
level = "info"
[[tool]]
name = "told"
description = "Says what it was told of the trace."
risk = "read"
permission = "read"
input_schema = { type = "object", properties = { key = { type = "string" } }, additionalProperties = false }
command = ["sh", "-c", "cat > /dev/null; echo $TRACEPARENT"]
[[tool]]
name = "fail"
description = "Fails."
risk = "read"
permission = "read"
command = ["sh", "-c", "cat > /dev/null; echo it broke >&2; exit 3"]
[roles.all]
tools = ["*"]
risk = "dangerous"
permission = "system"
"""


def check(name, fact, seen=""):
    print(("ok    " if fact else "FAIL  ") + name + ("" if fact else f":\n{seen}"), flush=True)
    if not fact:
        raise SystemExit(1)


class Sink(http.server.BaseHTTPRequestHandler):
    """Takes what the collector hands on."""

    got = queue.Queue()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        Sink.got.put(trace_service_pb2.ExportTraceServiceRequest.FromString(body))
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass


def free_port():
    with contextlib.closing(socket.socket()) as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


class Collector:
    """Rotel: OTLP in, OTLP out."""

    def __init__(self, folder, sink):
        self.port, grpc = free_port(), free_port()
        command = [ROTEL, "start", "--otlp-http-endpoint", f"127.0.0.1:{self.port}",
                   "--otlp-grpc-endpoint", f"127.0.0.1:{grpc}", "--exporter", "otlp",
                   "--otlp-exporter-endpoint", f"http://127.0.0.1:{sink}", "--otlp-exporter-protocol", "http",
                   "--batch-timeout", "100ms", "--pid-file", str(folder / "rotel.pid"),
                   "--log-file", str(folder / "rotel.log")]
        self.log = open(folder / "rotel.out", "w")
        self.process = subprocess.Popen(command, cwd=folder, stdout=self.log, stderr=subprocess.STDOUT)
        until = time.monotonic() + 30
        while self.process.poll() is None and time.monotonic() < until:
            with contextlib.suppress(OSError), contextlib.closing(socket.create_connection(("127.0.0.1", self.port), 1)):
                return
        raise SystemExit(f"rotel does not listen: {(folder / 'rotel.out').read_text()}")

    def end(self):
        self.process.terminate()
        self.process.wait(30)
        self.log.close()


def spans(attempts):
    """The spans of these attempts, each as a dictionary, and the resource."""
    found, resource, until = {}, {}, time.monotonic() + 30
    while any((attempt, "close") not in found for attempt in attempts):
        try:
            request = Sink.got.get(timeout=max(0.1, until - time.monotonic()))
        except queue.Empty:
            raise SystemExit(f"FAIL  spans of {attempts} did not arrive: {sorted(found)}")
        for of_resource in request.resource_spans:
            resource = attributes(of_resource.resource.attributes)
            for span in (span for scope in of_resource.scope_spans for span in scope.spans):
                all_of_it = attributes(span.attributes)
                found[all_of_it["tollgate.attempt"], span.name] = (span, all_of_it)
    return found, resource


def attributes(pairs):
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


class Served:
    """`tollgate serve` on a port of the system's."""

    def __init__(self, folder):
        # A check that fails leaves no server behind.
        atexit.register(lambda: self.process.kill())
        command = [TOLLGATE, "serve", "--bind", "127.0.0.1:0", "--role", "all"]
        command = command if not (folder / ".tollgate/keys/client.key").exists() else command[:-2]
        self.process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.address = self.process.stderr.readline().split("http://")[1].split()[0]
        self.said = []
        self.reader = threading.Thread(target=lambda: self.said.extend(self.process.stderr), daemon=True)
        self.reader.start()
        self.client, self.operator = (
            (folder / f".tollgate/keys/{name}.key").read_text().strip() for name in ["client", "operator"]
        )

    def ask(self, method, path, key, body=None, headers=None):
        host, port = self.address.split(":")
        headers = {"authorization": f"Bearer {key}", "content-type": "application/json", **(headers or {})}
        with contextlib.closing(http.client.HTTPConnection(host, int(port), timeout=60)) as connection:
            connection.request(method, path, body and json.dumps(body), headers)
            return connection.getresponse().read().decode()

    def call(self, tool, arguments, headers=None):
        body = {"tool": tool, "arguments": arguments}
        return json.loads(self.ask("POST", "/api/v1/calls", self.client, body, headers))

    def mcp(self, tool, meta):
        meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {}, **meta}
        message = {"jsonrpc": "2.0", "id": "call-7", "method": "tools/call",
                   "params": {"name": tool, "arguments": {}, "_meta": meta}}
        headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2026-07-28",
                   "mcp-method": "tools/call", "mcp-name": tool}
        return json.loads(self.ask("POST", "/mcp", self.client, message, headers))

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(30)
        self.reader.join()
        check("standard output has nothing of a log", self.process.stdout.read() == "")
        return code

    def logged(self):
        return [json.loads(line) for line in self.said if line.startswith("{\"time\"")]


def traces(served):
    done = served.call("told", {"key": SECRET}, {"traceparent": PARENT, "tracestate": "vendor=1"})
    failed = served.call("fail", {})
    refused = served.call("told", {"nobody": 1, "key": 7})
    text = served.mcp("told", {"traceparent": PARENT})["result"]["content"][0]["text"].strip()
    found, resource = spans([outcome["attempt"] for outcome in (done, failed, refused)])
    check("the service has its name", resource["service.name"] == "house", resource)
    span, seen = found[done["attempt"], "execute_tool told"]
    check("a call is a span of the asker's trace", span.trace_id.hex() == PARENT[3:35], span)
    check("below the asker's span", span.parent_span_id.hex() == PARENT[36:52], span)
    check("with what other systems say", span.trace_state == "vendor=1", span)
    check("by the GenAI conventions", (seen["gen_ai.operation.name"], seen["gen_ai.tool.name"]) == ("execute_tool", "told"))
    stages = {name: other for (attempt, name), (other, _) in found.items() if attempt == done["attempt"] and other != span}
    check("with a span for each stage", len(stages) == 9 and set(stages) >= {"open", "judge", "run", "close"}, stages)
    check("below it", all(other.parent_span_id == span.span_id for other in stages.values()))
    told = done["result"]["content"][0]["text"].strip()
    check("the tool was told of its run", told == f"00-{PARENT[3:35]}-{stages['run'].span_id.hex()}-01", told)
    check("and of an asker's that came in `_meta`", text.startswith(PARENT[:36]), text)
    span, seen = found[failed["attempt"], "execute_tool fail"]
    check("what failed says so", (span.status.code, seen["error.type"]) == (2, "tool_error"), seen)
    check("a trace that begins here has the attempt's name", span.trace_id.hex() == failed["attempt"].replace("-", ""))
    _, seen = found[refused["attempt"], "validate"]
    check("what was refused says where", seen["error.type"] == "invalid_arguments", seen)
    return [outcome["attempt"] for outcome in (done, failed, refused)]


def mcp_attributes(served):
    served.mcp("told", {})
    until = time.monotonic() + 30
    while time.monotonic() < until:
        request = Sink.got.get(timeout=30)
        for span in (s for r in request.resource_spans for scope in r.scope_spans for s in scope.spans):
            seen = attributes(span.attributes)
            if seen.get("mcp.method.name"):
                expected = {"mcp.method.name": "tools/call", "mcp.protocol.version": "2026-07-28",
                            "jsonrpc.request.id": "call-7", "network.transport": "tcp"}
                return check("MCP's attributes are on the same span", expected.items() <= seen.items(), seen)
    raise SystemExit("FAIL  no span of an MCP call")


def metrics(served):
    text = served.ask("GET", "/metrics", served.operator)
    families = {family.name: family for family in text_string_to_metric_families(text)}
    check("Prometheus reads the metrics", "tollgate_calls" in families, text)
    check("each has a help and a type", all(f.documentation and f.type != "unknown" for f in families.values()), text)
    ends = {tuple(sample.labels.values()): sample.value for sample in families["tollgate_stage_ended"].samples}
    check("where calls ended", ends.get(("run", "tool_error"), 0) >= 1, ends)
    counts = {sample.labels["result"]: sample.value for sample in families["tollgate_traced_calls"].samples}
    check("what became of spans", counts["sent"] > 0 and counts["failed"] == counts["dropped"] == 0, counts)
    queries = [target["expr"] for panel in json.loads(DASHBOARD.read_text())["panels"] for target in panel.get("targets", [])]
    for query in queries:
        promql_parser.parse(query.replace("$__rate_interval", "5m").replace("$instance", ".*"))
    check(f"PromQL reads the dashboard's {len(queries)} queries", len(queries) > 10)


def content(folder, collector):
    configure(folder, collector, content="true")
    served = Served(folder)
    outcome = served.call("told", {"key": SECRET})
    found, _ = spans([outcome["attempt"]])
    _, seen = found[outcome["attempt"], "execute_tool told"]
    check("content is there once it is asked for", "gen_ai.tool.call.arguments" in seen, seen)
    check("without secrets", SECRET not in str(found), seen)
    check("the server ends", served.end() == 0, served.said)


def without_collector(folder):
    configure(folder, free_port(), content="false")
    served = Served(folder)
    outcome = served.call("told", {})
    check("a collector that is not there fails no call", outcome["status"] == "done", outcome)
    began = time.monotonic()
    check("nor does it keep the end", served.end() == 0 and time.monotonic() - began < 20, served.said)
    said = [line for line in served.logged() if "spans" in line["message"]]
    check("and it is said", said and said[0]["level"] == "warn", served.said)


def by_environment(folder, collector):
    (folder / "tollgate.toml").write_text("")
    environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector}",
                   "OTEL_SERVICE_NAME": "by-environment", "TRACEPARENT": PARENT}
    command = [TOLLGATE, "call", "calculate", '{"expression": "6 * 7"}']
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
    outcome = json.loads(done.stdout)
    found, resource = spans([outcome["attempt"]])
    span, _ = found[outcome["attempt"], "execute_tool calculate"]
    check("the standard variables are enough", resource["service.name"] == "by-environment", resource)
    check("a command stands below who started it", span.parent_span_id.hex() == PARENT[36:52], span)


def configure(folder, collector, content):
    config = CONFIG.replace("ENDPOINT", f"http://127.0.0.1:{collector}").replace("CONTENT", content)
    (folder / "tollgate.toml").write_text(config)


def main():
    sink = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sink)
    sink.daemon_threads = True
    threading.Thread(target=sink.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        token = folder / "token.secret"
        token.touch(mode=0o600)
        token.write_text(SECRET)
        collector = Collector(folder, sink.server_port)
        try:
            configure(folder, collector.port, content="false")
            served = Served(folder)
            attempts = traces(served)
            mcp_attributes(served)
            metrics(served)
            check("the server ends", served.end() == 0, served.said)
            ended = {line["attempt"]: line for line in served.logged() if line["message"] == "a call ended"}
            check("each call has a line with its attempt", set(attempts) <= set(ended), served.said)
            check("and its trace", ended[attempts[0]]["trace_id"] == PARENT[3:35], ended)
            check("no secret is in the log", SECRET not in "".join(served.said))
            content(folder, collector.port)
            without_collector(folder)
            by_environment(folder, collector.port)
        finally:
            collector.end()
    sink.shutdown()


main()
