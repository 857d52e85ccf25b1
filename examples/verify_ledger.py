"""Checks a Tollgate ledger with nothing but Python and docs/ledger-format.md.

    python3 verify_ledger.py DATA_DIR      DATA_DIR holds audit/segment-*.jsonl; `.tollgate` by default

Prints one line of JSON. Exits 0 when every record is as it was written, 1 when one is not, 2 on wrong usage, 6 when the
ledger cannot be read. It shares no code with Tollgate, and it trusts nothing that a record says about itself. Where content
was erased, a later record must say so.
"""

import fcntl
import hashlib
import json
import os
import re
import sys
from contextlib import nullcontext
from pathlib import Path

LINE_BYTES_MAX = 1024 * 1024
BEGINNING = re.compile(rb'\{"v":1,"seq":([0-9]{1,20}),"prev":"([0-9a-f]{64})","time":"')
SEAL = re.compile(rb',"hash":"([0-9a-f]{64})"\}')
NAME = re.compile(r"segment-([0-9]{12}|[1-9][0-9]{12,})\.jsonl")
SEAL_BYTES = len(',"hash":""}') + 64
TO_TIME = BEGINNING.pattern + rb'[^"]+",'
STUB = re.compile(TO_TIME + rb'"erased":\{')
SAID = re.compile(TO_TIME + rb'"boot":"[^"]*","event":"recovered","erasure":\{')


class Fault(Exception):
    """The number of the first record that is wrong, and what is wrong with it."""


class Erasures:
    """What is left of erased records, until the record of the erasure, which must come later and fit."""

    def __init__(self):
        self.open = {}

    def add(self, identity, seq, digest):
        first, digests = self.open.setdefault(identity, (seq, []))
        digests.append(digest)

    def push(self, seq, line):
        if STUB.match(line):
            mark = json.loads(line)["erased"]
            self.add(mark["by"], seq, hashlib.sha256(line).digest())
            if "before" in mark:
                self.add(mark["before"]["by"], seq, bytes.fromhex(mark["before"]["sha256"]))
        elif SAID.match(line):
            said = json.loads(line)["erasure"]
            # Without anything left, a process died before it did what it said: nothing is missing.
            first, digests = self.open.pop(said["id"], (seq, None))
            digest = digests and hashlib.sha256(b"".join(digests)).hexdigest()
            if digests and (len(digests), digest) != (said["records"], said["digest"]):
                raise Fault(min(first, said["first"]), f"what was erased is not what record {seq} says")

    def finish(self):
        if self.open:
            first = min(first for first, _ in self.open.values())
            raise Fault(first, f"record {first} was erased, and no record says so")


def link(line, expected):
    """The three parts of a line that make the chain: its number, the hash before, its own hash."""
    if not line.endswith(b"\n") and len(line) <= LINE_BYTES_MAX:
        raise Fault(expected, "the record is not finished")
    line = line.removesuffix(b"\n")
    seal = SEAL.fullmatch(line[-SEAL_BYTES:])
    body = line[:-SEAL_BYTES]
    if len(line) > LINE_BYTES_MAX or not seal:
        raise Fault(expected, "the line is not a whole record")
    # What is left of an erased record has the hash of what it was.
    if not STUB.match(body) and hashlib.sha256(body).hexdigest().encode() != seal[1]:
        raise Fault(expected, "the record's hash does not fit its content")
    beginning = BEGINNING.match(body)
    if not beginning:
        raise Fault(expected, "the line is not a record of format version 1")
    return int(beginning[1]), beginning[2], seal[1]


def snapshot(folder):
    """The segments with their lengths, read while no writer has the turn. A copy without a lock has no writers."""
    lock_file = folder / "lock"
    with open(lock_file, "rb") if lock_file.exists() else nullcontext() as lock:
        if lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
        found = [(NAME.fullmatch(path.name), path) for path in folder.iterdir()]
        segments = sorted((int(name[1]), path, path.stat().st_size) for name, path in found if name)
    if not segments:
        raise FileNotFoundError(f"there is no ledger at {folder}")
    return segments


def verify(folder, report, place):
    seq, head, erasures = 0, b"0" * 64, Erasures()
    # Nobody erases as long as the folder is held.
    fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_SH)
    segments = snapshot(folder)
    report["segments"] = len(segments)
    for first, path, size in segments:
        place.update(segment=path.name, line=0)
        with open(path, "rb") as file:
            while line := file.readline(min(LINE_BYTES_MAX + 1, size - file.tell())):
                place["line"] += 1
                number, prev, own = link(line, seq + 1)
                if number != seq + 1 or (place["line"] == 1 and number != first):
                    raise Fault(min(number, seq + 1), f"record {number} stands where record {seq + 1} belongs")
                if prev != head:
                    raise Fault(max(seq, 1), "the next record does not know this one's hash")
                try:
                    erasures.push(number, line.removesuffix(b"\n"))
                except (ValueError, KeyError, TypeError) as error:
                    raise Fault(number, f"what it says of an erasure cannot be read: {error!r}") from error
                seq, head = number, own
                report.update(records=seq, head=head.decode(), bytes=report["bytes"] + len(line))
        if place["line"] == 0 and first > seq + 1:
            raise Fault(seq + 1, f"records {seq + 1} to {first - 1} are missing")
    erasures.finish()


def main(arguments):
    if len(arguments) > 1:
        print("usage: verify_ledger.py [DATA_DIR]", file=sys.stderr)
        return 2
    report = {"ok": True, "records": 0, "segments": 0, "bytes": 0, "head": "0" * 64, "fault": None}
    place = {}
    try:
        verify(Path(*arguments or [".tollgate"]) / "audit", report, place)
    except Fault as fault:
        seq, message = fault.args
        report.update(ok=False, fault={"seq": seq, **place, "message": message})
    except OSError as error:
        print(json.dumps({"ok": False, "unreadable": str(error)}))
        return 6
    print(json.dumps(report))
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
