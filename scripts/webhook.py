#!/usr/bin/env python3
"""Approvals by webhook through the whole product, with a receiver that checks and signs by a library that somebody else
wrote (PyPI: standardwebhooks): a call waits, its question arrives signed, a signed answer lets it go on, and nothing else
does.

Usage: webhook.py TOLLGATE
"""

import base64
import contextlib
import datetime
import http.client
import http.server
import json
import os
import pathlib
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time

from standardwebhooks import Webhook

TOLLGATE = str(pathlib.Path(sys.argv[1]).resolve())
OLD, NEW = ("whsec_" + base64.b64encode(os.urandom(32)).decode() for _ in range(2))
CONFIG = """
[[tool]]
name = "pay"
description = "Pays."
input_schema = { type = "object", properties = { to = { type = "string" } }, required = ["to"] }
command = ["sh", "-c", "cat >> paid; echo paid"]
[[tool]]
name = "wire"
description = "Wires."
input_schema = { type = "object", properties = { to = { type = "string" } }, required = ["to"] }
command = ["sh", "-c", "cat >> wired; echo wired"]
security = { approvers = 2, typed_confirmation = "/to" }
[approvals.webhook]
url = "http://127.0.0.1:PORT/hook"
secret = { file = "old.secret" }
headers = { Authorization = { file = "header.secret" } }
"""


def check(name, fact, seen=""):
    print(("ok    " if fact else "FAIL  ") + name + ("" if fact else f":\n{seen}"), flush=True)
    if not fact:
        raise SystemExit(1)


class Receiver(http.server.BaseHTTPRequestHandler):
    """Keeps what it gets, and answers with the status of now; its response approves, which must not count."""

    got = queue.Queue()
    status = 200

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        Receiver.got.put(({name.lower(): value for name, value in self.headers.items()}, body))
        if Receiver.status == "silent":
            time.sleep(60)
        answer = b'{"decision": "approve", "by": "mallory"}'
        self.send_response(Receiver.status)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args):
        pass


def receive(*secrets):
    """The next question, checked with each of the secrets."""
    headers, body = Receiver.got.get(timeout=30)
    for secret in secrets:
        Webhook(secret).verify(body, headers)
    return headers, json.loads(body)["data"]


class Served:
    """`tollgate serve` on a port of the system's."""

    def __init__(self, folder, *words):
        command = [TOLLGATE, "serve", "--bind", "127.0.0.1:0", *words]
        self.process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        self.address = line.split("http://")[1].split()[0]
        # What comes later must not fill the pipe.
        self.said = []
        self.reader = threading.Thread(target=lambda: self.said.extend(self.process.stderr))
        self.reader.start()
        self.client, self.operator = (
            (folder / f".tollgate/keys/{name}.key").read_text().strip() for name in ["client", "operator"]
        )

    def ask(self, method, path, body=None, headers=None):
        host, port = self.address.split(":")
        with contextlib.closing(http.client.HTTPConnection(host, int(port), timeout=60)) as connection:
            connection.request(method, path, body, {"content-type": "application/json", **(headers or {})})
            response = connection.getresponse()
            text = response.read().decode()
            return response.status, json.loads(text) if text.startswith("{") else text

    def call(self, tool, to):
        body = json.dumps({"tool": tool, "arguments": {"to": to}})
        return self.ask("POST", "/api/v1/calls", body, {"authorization": f"Bearer {self.client}"})[1]

    def answer(self, question, by, message, secret=OLD, age=0, **more):
        data = {"id": question["id"], "digest": question["digest"], "decision": "approve", "by": by, **more}
        body = json.dumps({"type": "approval.answered", "data": data}, ensure_ascii=False)
        then = datetime.datetime.now(tz=datetime.timezone.utc) - datetime.timedelta(seconds=age)
        headers = {
            "webhook-id": message,
            "webhook-timestamp": str(int(then.timestamp())),
            "webhook-signature": Webhook(secret).sign(message, then, body),
        }
        status, answer = self.ask("POST", question["answer"]["path"], body.encode(), headers)
        return status, answer.get("error") or answer["status"]

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(30)
        self.reader.join()
        return code


def tollgate(folder, *words):
    done = subprocess.run([TOLLGATE, *words], cwd=folder, capture_output=True, text=True, timeout=60)
    return done.returncode, json.loads(done.stdout)


def one_call(folder, served):
    waiting = served.call("pay", "李雷\u202e")
    check("a call waits", waiting["status"] == "waiting", waiting)
    headers, question = receive(OLD)
    check("its question arrives, signed for somebody else's library", headers["webhook-id"] == question["id"])
    check("and is the one that waits", question["id"] == waiting["waiting"]["id"])
    check("with a header of the operator's", headers["authorization"] == "Bearer of the receiver", headers)
    shown = question["text"]
    check("complete, with what hides made visible", '"to": "李雷\\u{202e}"' in shown and "cat >> paid" in shown, shown)
    check("a response is no answer", served.call("pay", "李雷\u202e")["status"] == "waiting")

    status, problem = served.ask("POST", question["answer"]["path"], json.dumps({"type": "approval.answered"}))
    check("an unsigned answer is refused", (status, problem["error"]) == (401, "unsigned"), problem)
    other = {**question, "digest": "0" * 64}
    for name, seen, expected in [
        ("an answer of another's", served.answer(question, "alice", "m1", secret=NEW), (403, "wrong_signature")),
        ("an old answer", served.answer(question, "alice", "m1", age=360), (412, "stale")),
        ("an answer from the future", served.answer(question, "alice", "m1", age=-360), (412, "stale")),
        ("an answer to other arguments", served.answer(other, "alice", "m1"), (422, "mismatch")),
        ("the asker's own yes", served.answer(question, "client", "m1"), (403, "own_call")),
    ]:
        check(f"{name} is refused", seen == expected, seen)
    check("nothing ran so far", not (folder / "paid").exists())
    seen = served.answer(question, "韩梅梅", "m1", reason="已核对")
    check("a signed answer counts", seen == (200, "approved"), seen)
    done = served.call("pay", "李雷\u202e")
    check("and the call goes on", done["status"] == "done" and "paid" in json.dumps(done), done)
    return question


def two_persons(folder, served):
    served.call("wire", "账户 7")
    _, question = receive(OLD)
    check("what must be typed and by how many is told", (question["typed"], question["approvers"]) == ("账户 7", 2))
    for name, seen, expected in [
        ("a yes that is not typed", served.answer(question, "alice", "w1"), (400, "bad_request")),
        ("the first person", served.answer(question, "alice", "w1", typed="账户 7"), (200, "pending")),
        ("the same person", served.answer(question, "Alice", "w2", typed="账户 7"), (409, "conflict")),
        ("the asker", served.answer(question, "client", "w2", typed="账户 7"), (403, "own_call")),
        ("the second person", served.answer(question, "bert", "w2", typed="账户 7"), (200, "approved")),
    ]:
        check(f"{name}: {expected[1]}", seen == expected, seen)
    check("two persons let it run", served.call("wire", "账户 7")["status"] == "done" and (folder / "wired").exists())


def receiver_that_fails(folder, served):
    Receiver.status = 503
    code, outcome = tollgate(folder, "--role", "developer", "call", "pay", '{"to": "x"}')
    check("a call of another process waits whatever its receiver does", code == 4, outcome)
    receive(OLD)
    found = {finding["what"]: finding for finding in tollgate(folder, "doctor", "--offline")[1] if not finding["ok"]}
    check("doctor says what did not arrive", "503" in found["approvals webhook"]["found"], found)
    Receiver.status = 200
    _, question = receive(OLD)
    check("the server sends what another process could not", question["id"] == outcome["waiting"]["id"])
    until = time.monotonic() + 30
    metric = 'tollgate_webhooks_total{result="delivered"} 3'
    while metric not in served.ask("GET", "/metrics", headers={"authorization": f"Bearer {served.operator}"})[1]:
        check("it is counted", time.monotonic() < until)
    while not Receiver.got.empty():
        Receiver.got.get()  # tries that failed meanwhile
    code, _ = tollgate(folder, "approvals", "reject", question["id"])
    check("the command line answers too", code == 0)


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        config = CONFIG.replace("PORT", str(server.server_port))
        (folder / "tollgate.toml").write_text(config)
        for file, text in [("old", OLD), ("new", NEW), ("header", "Bearer of the receiver")]:
            path = folder / f"{file}.secret"
            path.touch(mode=0o600)
            path.write_text(text)
        served = Served(folder, "--role", "developer")
        question = one_call(folder, served)
        two_persons(folder, served)
        receiver_that_fails(folder, served)
        check("the server ends", served.end() == 0, served.said)

        rotated = config.replace('secret = { file = "old.secret" }',
                                 'secret = { file = "new.secret" }\nmore_secrets = [{ file = "old.secret" }]')
        (folder / "tollgate.toml").write_text(rotated)
        served = Served(folder)
        seen = served.answer(question, "韩梅梅", "m1")
        check("a message counts once, also after a restart", seen == (409, "replayed"), seen)
        served.call("pay", "rotated")
        _, question = receive(OLD, NEW)
        check("while a secret is replaced both sign, and the new one counts",
              served.answer(question, "alice", "r1", secret=NEW) == (200, "approved"))
        Receiver.status = "silent"
        served.call("pay", "silent")
        Receiver.got.get(timeout=30)
        check("a receiver that never answers keeps nobody", served.end() == 0, served.said)
        code, report = tollgate(folder, "audit", "verify")
        check("the record is whole", code == 0, report)
        kept = b"".join(path.read_bytes() for path in (folder / ".tollgate").rglob("*") if path.is_file())
        hidden = [OLD, NEW, OLD[6:], NEW[6:], "Bearer of the receiver"]
        check("no secret is in the data folder", not any(secret.encode() in kept for secret in hidden))
    server.shutdown()


main()
