#!/usr/bin/env python3
"""A person at a terminal: `tollgate call` and `tollgate run` show exactly what would run, and ask.

Usage: terminal.py TOLLGATE
Real pseudo-terminals, standard library only.
"""

import http.server
import json
import os
import pathlib
import pty
import re
import select
import sys
import tempfile
import threading
import time

TOLLGATE = str(pathlib.Path(sys.argv[1]).resolve())
QUESTION = "Let it run once? [y/N]"
CONFIG = """
[[tool]]
name = "pay"
description = "Pays."
input_schema = { type = "object", properties = { to = { type = "string" } }, required = ["to"] }
command = ["sh", "-c", "cat >> paid; echo paid"]
[[tool]]
name = "drop_table"
description = "Drops a table."
input_schema = { type = "object", properties = { table = { type = "string" } }, required = ["table"] }
command = ["sh", "-c", "cat >> dropped; echo dropped"]
security = { typed_confirmation = "/table" }
[models.default]
base_url = "http://127.0.0.1:PORT/v1"
model = "scripted"
"""


def check(name, fact, seen=""):
    print(("ok    " if fact else "FAIL  ") + name + ("" if fact else f":\n{seen}"), flush=True)
    if not fact:
        raise SystemExit(1)


class Terminal:
    """One command on a pseudo-terminal."""

    def __init__(self, folder, *args):
        self.seen = ""
        self.pid, self.end = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.environ.update(USER="bob", TERM="xterm", NO_COLOR="1")
            os.execv(TOLLGATE, [TOLLGATE, *args])

    def read(self):
        """Whatever comes next; nothing at the end."""
        if not select.select([self.end], [], [], 20)[0]:
            raise SystemExit(f"nothing came for 20 s after:\n{self.seen}")
        try:
            data = os.read(self.end, 65536)
        except OSError:
            data = b""
        self.seen += data.decode(errors="replace").replace("\r\n", "\n")
        return data

    def until(self, text, count=1):
        while self.seen.count(text) < count:
            if not self.read():
                raise SystemExit(f"it ended without {text!r}:\n{self.seen}")

    def type(self, text):
        os.write(self.end, text.encode())

    def finish(self):
        while self.read():
            pass
        _, status = os.waitpid(self.pid, 0)
        os.close(self.end)
        return os.waitstatus_to_exitcode(status)


class Model(http.server.BaseHTTPRequestHandler):
    """Asks for two payments at once, then answers."""

    turns = 0

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        Model.turns += 1
        calls = [
            {"id": f"c{n}", "type": "function", "function": {"name": "pay", "arguments": json.dumps({"to": to})}}
            for n, to in enumerate(["first", "second"])
        ]
        message = {"role": "assistant", "content": None, "tool_calls": calls}
        if Model.turns > 1:
            message = {"role": "assistant", "content": "That is all."}
        body = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "tollgate.toml").write_text(CONFIG.replace("PORT", str(server.server_port)))

        yes = Terminal(folder, "call", "pay", '{"to":"a\\u202ereversed"}')
        yes.until(QUESTION)
        check("the question shows the arguments", '"to": "a\\u{202e}reversed"' in yes.seen, yes.seen)
        check("and exactly what would run", "cat >> paid; echo paid" in yes.seen and "What would run" in yes.seen, yes.seen)
        check("nothing ran before the answer", not (folder / "paid").exists())
        yes.type("y\n")
        check("a yes lets it run", yes.finish() == 0 and (folder / "paid").exists(), yes.seen)

        fake = "x\x1b[2J\n\nApprove? list_files (read, read)\n" + "\n" * 500 + "\u202e"
        forged = Terminal(folder, "call", "pay", json.dumps({"to": fake}))
        forged.until(QUESTION)
        lines = forged.seen.split("\n")
        frames = [line for line in lines if line.startswith("Approve?")]
        check("no argument begins a frame", len(frames) == 1 and frames[0].startswith("Approve? pay"), forged.seen)
        check("or is obeyed", "\x1b" not in forged.seen and "\u202e" not in forged.seen, forged.seen)
        check("or pushes the rest out of sight", "\\u{a*501}" in forged.seen and len(lines) < 30, forged.seen)
        forged.type("n\n")
        check("and no is no", forged.finish() == 3, forged.seen)

        long = Terminal(folder, "call", "pay", json.dumps({"to": "y" * 100_000 + "; rm -rf /"}))
        long.until(QUESTION)
        check("what is long is shown whole", "y" * 100_000 + "; rm -rf /" in long.seen)
        end = long.seen[-300:]
        check("and its end says what it is", "scroll up to its beginning. It asks for pay (dangerous)." in end, end)
        long.type("n\n")
        check("and waits for the answer", long.finish() == 3, end)

        for name, answer in [("a no", "n\n"), ("an empty line", "\n"), ("another word", "maybe\n")]:
            (folder / "paid").unlink(missing_ok=True)
            no = Terminal(folder, "call", "pay", json.dumps({"to": name}))
            no.until(QUESTION)
            no.type(answer)
            check(f"{name} refuses", no.finish() == 3 and not (folder / "paid").exists(), no.seen)

        ahead = Terminal(folder, "call", "pay", '{"to":"ahead"}')
        ahead.type("y\n")
        ahead.until(QUESTION)
        time.sleep(0.5)  # were the early answer taken, it would have run by now
        check("what was typed before the question is no answer", not (folder / "paid").exists(), ahead.seen)
        ahead.type("\x03")
        check("Ctrl-C at the question cancels", ahead.finish() == 1 and "cancelled" in ahead.seen, ahead.seen)

        typed = "To let it run once, type 订单:"
        for name, answer, exits in [("a plain yes", "y\n", 3), ("the name of the table", "订单\n", 0)]:
            drop = Terminal(folder, "call", "drop_table", '{"table":"订单"}')
            drop.until(typed)
            drop.type(answer)
            is_right = drop.finish() == exits and (folder / "dropped").exists() == (exits == 0)
            check(f"where a yes must be typed, {name} {'lets it run' if exits == 0 else 'refuses'}", is_right, drop.seen)

        run = Terminal(folder, "run", "pay both")
        run.until(QUESTION)
        run.type("y\n")
        run.until(QUESTION, 2)
        run.type("n\n")
        run.until("That is all.")
        check("a run ends with the answer", run.finish() == 0, run.seen)
        questions = re.findall(re.escape(QUESTION) + r"([^\n]*)", run.seen)
        check("nothing lands in an open question", [q.strip() for q in questions] == ["y", "n"], run.seen)
        check("a line shows how far the run is", "⋯ 1 round · " in run.seen, run.seen)
        check("a table says what it took", re.search(r"pay +2 +1 +1 ", run.seen) and "2 rounds · 2 calls" in run.seen, run.seen)
        check("one of the two was paid", (folder / "paid").read_text().count("to") == 1)
    server.shutdown()


main()
