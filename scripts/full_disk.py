#!/usr/bin/env python3
"""A disk that fills, empties, and turns read-only under a running server: no record, no call, and it recovers.

Usage: unshare -rm python3 scripts/full_disk.py TOLLGATE
Runs in a mount namespace of its own, on a tmpfs of its own. A call that was under way when the disk became full has its true
outcome: space was kept back for its record.
"""

import inspect
import json
import os
import pathlib
import subprocess
import sys
import tempfile

CONFIGURATION = """
data_dir = "disk/data"
[[tool]]
name = "fill_disk"
description = "Takes every free byte of the disk, and says more than would fit into a page."
risk = "read"
permission = "read"
input_schema = { type = "object" }
command = ["python3", "fill.py"]
"""
TOLLGATE = str(pathlib.Path(sys.argv[1]).resolve())


def check(name, fact, seen=""):
    print(("ok    " if fact else "FAIL  ") + name + ("" if fact else f": {seen}"), flush=True)
    if not fact:
        raise SystemExit(1)


def mount(*args):
    subprocess.run(["mount", *args], check=True)


def fill(disk):
    """Takes every free byte of the disk."""
    with open(disk / "filler", "wb", buffering=0) as file:
        for size in (65536, 4096, 512, 1):
            try:
                while file.write(b"x" * size) == size:
                    pass
            except OSError:
                pass


class Server:
    """`tollgate serve --stdio`, line by line."""

    def __init__(self, folder):
        self.process = subprocess.Popen(
            [TOLLGATE, "--quiet", "serve", "--stdio", "--role", "developer"],
            cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )

    def call(self, name, arguments):
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params = {"name": name, "arguments": arguments, "_meta": meta}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()
        result = json.loads(self.process.stdout.readline())["result"]
        return result["structuredContent"]["error"] if result.get("isError") else "done"

    def end(self):
        self.process.stdin.close()
        return self.process.wait(20)


def command(folder, *args):
    return subprocess.run([TOLLGATE, *args], cwd=folder, capture_output=True, text=True, timeout=60)


def examined(folder):
    """What the doctor finds of the disk."""
    done = command(folder, "doctor", "--offline")
    return next(finding for finding in json.loads(done.stdout) if finding["what"] == "disk")


def records(disk):
    """All that was recorded, as text."""
    return "".join(path.read_text() for path in sorted(disk.glob("data/audit/segment-*.jsonl")))


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        disk = folder / "disk"
        disk.mkdir()
        mount("-t", "tmpfs", "-o", "size=8m", "tmpfs", str(disk))
        (folder / "tollgate.toml").write_text(CONFIGURATION)
        filling = ["import pathlib", inspect.getsource(fill), 'fill(pathlib.Path("disk"))', 'print("满" * 1_900)']
        (folder / "fill.py").write_text("\n".join(filling))
        one = {"expression": "1+1"}
        server = Server(folder)
        check("a call runs", server.call("calculate", one) == "done")
        for state, spoil, mend in [
            ("full", lambda: server.call("fill_disk", {}), lambda: os.remove(disk / "filler")),
            ("read-only", lambda: mount("-o", "remount,ro", str(disk)), lambda: mount("-o", "remount,rw", str(disk))),
        ]:
            if state == "read-only":
                # A file open for writing would keep the disk from turning read-only: only new processes see it.
                check("the server ends", server.end() == 0)
            spoilt = spoil()
            if state == "full":
                check("the call that filled the disk has its true outcome", spoilt == "done", spoilt)
                # The space that is left in the last page takes a few records more.
                seen = {server.call("calculate", one) for _ in range(40)}
                check("a full disk refuses calls of a running server", seen - {"done"} == {"audit_unavailable"}, seen)
                check("and goes on refusing", server.call("calculate", one) == "audit_unavailable")
                written = server.call("write_file", {"path": "written.txt", "content": "x"})
                check("a change is refused", written == "audit_unavailable" and not (folder / "written.txt").exists(), written)
                said = records(disk).count('"event":"halted"')
                check("it is recorded once that no call begins", said == 1, said)
            done = command(folder, "call", "calculate", json.dumps(one))
            check(f"a {state} disk refuses a new process", done.returncode == 6, done)
            disk_now = examined(folder)
            check(f"the doctor sees a {state} disk", "cannot be written" in disk_now["found"] and disk_now["mend"], disk_now)
            mend()
            disk_now = examined(folder)
            check("the doctor sees that little is free", not disk_now["ok"] and "only " in disk_now["found"], disk_now)
            if state == "full":
                check("the running server recovers", server.call("calculate", one) == "done")
                check("with changes too", server.call("write_file", {"path": "written.txt", "content": "x"}) == "done")
            check(f"after a {state} disk a new process works", command(folder, "call", "calculate", json.dumps(one)).returncode == 0)
            verified = command(folder, "audit", "verify")
            check(f"after a {state} disk the chain is whole", verified.returncode == 0, verified)
        subprocess.run(["umount", str(disk)], check=True)


main()
