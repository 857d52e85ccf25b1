"""Checks the signed checkpoints of a Tollgate ledger against its records, with nothing but Python and
docs/ledger-format.md. `verify_ledger.py` beside it checks the records themselves; this one asks whether they are those
that were signed.

    python3 verify_checkpoints.py DATA_DIR VKEY [ANCHOR]

VKEY is the verifier key (`tollgate audit key`), kept elsewhere. ANCHOR is a file of checkpoints that were kept elsewhere,
one JSON object with `note` a line; without it, what was cut off together with its checkpoints cannot be seen. Prints one
line of JSON. Exits 0 when every checkpoint fits, 1 when one does not, 2 on wrong usage, 6 when the ledger cannot be read.
"""

import hashlib
import json
import sys
from pathlib import Path

from check_proof import Doubt, Key, checkpoint, leaf, node


def root(peaks):
    """The root over perfect subtrees, largest first."""
    if not peaks:
        return hashlib.sha256(b"").digest()
    result = peaks[-1][1]
    for _, peak in reversed(peaks[:-1]):
        result = node(peak, result)
    return result


def push(peaks, own):
    size = 1
    while peaks and peaks[-1][0] == size:
        own, size = node(peaks.pop()[1], own), size * 2
    peaks.append((size, own))


def hashes(folder):
    for path in sorted(folder.glob("segment-*.jsonl"), key=lambda path: int(path.stem.split("-")[1])):
        with open(path, "rb") as file:
            for line in file:
                if line.endswith(b'"}\n'):
                    yield bytes.fromhex(line[-67:-3].decode())


def claims(paths, key):
    """(size, root, time) of all checkpoints."""
    found = []
    for path in paths:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            try:
                size, expected, more = checkpoint(json.loads(line[line.index("{") :])["note"], key)
            except (Doubt, ValueError, KeyError) as error:
                raise Doubt(0, f"{path.name}, line {number}: {error}") from error
            time = next((line[5:] for line in more if line.startswith("time ")), None)
            found.append((size, expected, time))
    return sorted(found, key=lambda claim: claim[0])


def verify(folder, paths, key):
    left = claims(paths, key)
    peaks, size, proven, last = [], 0, 0, left[-1] if left else (0, b"", None)
    records = hashes(folder)
    for wanted, expected, time in left:
        while size < wanted:
            own = next(records, None)
            if own is None:
                raise Doubt(size + 1, f"{wanted} records were signed ({time}), and there are {size}")
            push(peaks, leaf(own))
            size += 1
        if root(peaks) != expected:
            raise Doubt(proven + 1, f"records {proven + 1} to {size} are not those that were signed ({time})")
        proven = size
    return {"ok": True, "checkpoints": len(left), "size": last[0], "time": last[2], "unproven": sum(1 for _ in records)}


def main(arguments):
    if len(arguments) not in (2, 3):
        print("usage: verify_checkpoints.py DATA_DIR VKEY [ANCHOR]", file=sys.stderr)
        return 2
    folder = Path(arguments[0]) / "audit"
    try:
        key = Key(arguments[1] if "+" in arguments[1] else Path(arguments[1]).read_text())
        print(json.dumps(verify(folder, [folder / "checkpoints", *map(Path, arguments[2:])], key)))
        return 0
    except Doubt as doubt:
        seq, message = doubt.args
        print(json.dumps({"ok": False, "fault": {"seq": seq, "message": message}}))
        return 1
    except OSError as error:
        print(json.dumps({"ok": False, "unreadable": str(error)}))
        return 6


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
