"""Checks a proof of Tollgate's ledger with nothing but Python and docs/ledger-format.md.

    python3 check_proof.py VKEY [FILE]       VKEY: the verifier key, or a file that holds it; FILE: what
                                             `tollgate audit prove SEQ` printed, standard input by default

The verifier key must not come from whoever hands over the proof. Exits 0 when the record is in the ledger that the key
signed, 1 when that is not shown, 2 on wrong usage. Ed25519 (RFC 8032) is done here in Python, slowly and without secrets,
so that no other program has to be trusted. It shares no code with Tollgate.
"""

import base64
import hashlib
import json
import re
import sys
from pathlib import Path

SIGNATURES_MAX = 32


class Doubt(Exception):
    """What is not shown."""


# Ed25519: points of -x² + y² = 1 + d·x²·y² modulo p, as (X, Y, Z, T) with x = X/Z, y = Y/Z, x·y = T/Z.
P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
ROOT_OF_MINUS_ONE = pow(2, (P - 1) // 4, P)


def add(a, b):
    x1, y1, z1, t1 = a
    x2, y2, z2, t2 = b
    e, f = (y1 - x1) * (y2 - x2) % P, (y1 + x1) * (y2 + x2) % P
    g, h = 2 * D * t1 * t2 % P, 2 * z1 * z2 % P
    left, right, low, high = f - e, h - g, h + g, f + e
    return left * right % P, low * high % P, right * low % P, left * high % P


def times(number, point):
    result = (0, 1, 1, 0)
    while number:
        if number & 1:
            result = add(result, point)
        point = add(point, point)
        number >>= 1
    return result


def is_same(a, b):
    return (a[0] * b[2] - b[0] * a[2]) % P == 0 and (a[1] * b[2] - b[1] * a[2]) % P == 0


def point(data):
    """The point that 32 bytes stand for, RFC 8032 §5.1.3."""
    number = int.from_bytes(data, "little")
    sign, y = number >> 255, number & (2**255 - 1)
    numerator, denominator = (y * y - 1) % P, (D * y * y + 1) % P
    x = numerator * pow(denominator, 3, P) * pow(numerator * pow(denominator, 7, P), (P - 5) // 8, P) % P
    if denominator * x * x % P == -numerator % P:
        x = x * ROOT_OF_MINUS_ONE % P
    if y >= P or denominator * x * x % P != numerator or (x == 0 and sign):
        raise Doubt("the signature or the key is not a point of the curve")
    if x & 1 != sign:
        x = P - x
    return x, y, 1, x * y % P


BASE = point((4 * pow(5, -1, P) % P).to_bytes(32, "little"))


def is_signed(public, text, signature):
    if len(signature) != 64:
        return False
    number = int.from_bytes(signature[32:], "little")
    if number >= ORDER:
        return False
    challenge = int.from_bytes(hashlib.sha512(signature[:32] + public + text).digest(), "little") % ORDER
    return is_same(times(number, BASE), add(point(signature[:32]), times(challenge, point(public))))


class Key:
    """A C2SP verifier key: `<name>+<key id>+<base64 of the type 1 and 32 bytes>`."""

    def __init__(self, text):
        self.name, identity, encoded = text.strip().split("+", 2)
        data = base64.b64decode(encoded, validate=True)
        self.id, self.public = bytes.fromhex(identity), data[1:]
        digest = hashlib.sha256(self.name.encode() + b"\n" + data).digest()
        if data[0] != 1 or len(data) != 33 or digest[:4] != self.id:
            raise ValueError("that is not a verifier key of Ed25519")


def checkpoint(note, key):
    """(size, root, extension lines) of a signed note, if the key signed it."""
    text, separator, signatures = note.rpartition("\n\n")
    if not separator or not signatures.endswith("\n"):
        raise Doubt("that is not a signed note")
    text += "\n"
    lines = signatures.split("\n")[:-1]
    trusted = 0
    for line in lines[:SIGNATURES_MAX]:
        found = re.fullmatch("\u2014 ([^ +]+) ([A-Za-z0-9+/=]+)", line)
        if not found:
            raise Doubt("that is not a signature line")
        data = base64.b64decode(found[2], validate=True)
        if found[1] == key.name and data[:4] == key.id:
            if not is_signed(key.public, text.encode(), data[4:]):
                raise Doubt("the signature does not fit the checkpoint")
            trusted += 1
    origin, size, root, *more = text.split("\n")[:-1]
    if not trusted or origin != key.name:
        raise Doubt("the checkpoint is not signed with this key")
    if not re.fullmatch("0|[1-9][0-9]*", size):
        raise Doubt("that is not the size of a tree")
    return int(size), base64.b64decode(root, validate=True), more


def leaf(record_hash):
    return hashlib.sha256(b"\0" + record_hash).digest()


def node(left, right):
    return hashlib.sha256(b"\1" + left + right).digest()


def split(size):
    """The largest power of two below the size, RFC 6962 §2.1."""
    return 1 << (size - 1).bit_length() - 1


def root_of_path(index, size, own, path):
    """The root to which an audit path leads, RFC 6962 §2.1.1."""
    if size == 1:
        if path:
            raise Doubt("the path is too long")
        return own
    if not path:
        raise Doubt("the path is too short")
    *rest, sibling = path
    left = split(size)
    if index < left:
        return node(root_of_path(index, left, own, rest), sibling)
    return node(sibling, root_of_path(index - left, size - left, own, rest))


def roots_of_growth(old, size, path, old_root):
    """The roots of the old and the new tree to which a consistency proof leads, RFC 6962 §2.1.2. `old_root` stands for the
    old tree as long as it is the left part of the new one."""
    if old == size:
        if old_root is not None and not path:
            return old_root, old_root
        if old_root is None and len(path) == 1:
            return path[0], path[0]
        raise Doubt("the consistency proof has another length")
    if not path:
        raise Doubt("the consistency proof is too short")
    *rest, sibling = path
    left = split(size)
    if old <= left:
        then, now = roots_of_growth(old, left, rest, old_root)
        return then, node(now, sibling)
    then, now = roots_of_growth(old - left, size - left, rest, None)
    return node(sibling, then), node(sibling, now)


STUB = re.compile(r'\{"v":1,"seq":[0-9]{1,20},"prev":"[0-9a-f]{64}","time":"[^"]+","erased":\{')


def record_hash(line):
    """The hash of a record's line, once it was found to be that of the line's bytes. What is left of an erased record is only
    shown to have had that hash."""
    body, separator, seal = line.rpartition(',"hash":"')
    if separator and STUB.match(line) and re.fullmatch('[0-9a-f]{64}"}', seal):
        return bytes.fromhex(seal[:64])
    own = hashlib.sha256(body.encode())
    if not separator or seal != own.hexdigest() + '"}':
        raise Doubt("the record's hash does not fit its content")
    return own.digest()


def check(proof, key):
    if proof["v"] != 1:
        raise Doubt(f"a proof of version {proof['v']} is for a later checker")
    decode = lambda texts: [base64.b64decode(text, validate=True) for text in texts]
    size, root, more = checkpoint(proof["checkpoint"], key)
    index, own = proof["index"], record_hash(proof["record"])
    if not re.match(rf'\{{"v":1,"seq":{index + 1},"', proof["record"]):
        raise Doubt("the record has another number")
    if not 0 <= index < size:
        raise Doubt("the checkpoint does not cover the record")
    if root_of_path(index, size, leaf(own), decode(proof["path"])) != root:
        raise Doubt("the path does not lead to the root that was signed")
    said = {"ok": True, "seq": index + 1, "size": size, "signed": more}
    if STUB.match(proof["record"]):
        said["erased"] = True
    if "since" in proof:
        old, old_root, _ = checkpoint(proof["since"]["checkpoint"], key)
        if not 0 < old <= size:
            raise Doubt("the earlier checkpoint covers more records, or none")
        if roots_of_growth(old, size, decode(proof["since"]["path"]), old_root) != (old_root, root):
            raise Doubt("the ledger did not only grow since the earlier checkpoint")
        said["since"] = old
    return said


def main(arguments):
    if len(arguments) not in (1, 2):
        print("usage: check_proof.py VKEY [FILE]", file=sys.stderr)
        return 2
    name, source = arguments[0], arguments[1] if len(arguments) > 1 else "-"
    try:
        key = Key(Path(name).read_text() if "+" not in name else name)
        proof = json.loads(sys.stdin.read() if source == "-" else Path(source).read_text())
    except (OSError, ValueError) as error:
        print(f"usage: check_proof.py VKEY [FILE]: {error}", file=sys.stderr)
        return 2
    try:
        print(json.dumps(check(proof, key)))
        return 0
    except Doubt as doubt:
        said = str(doubt)
    except (KeyError, TypeError, ValueError) as error:
        said = f"that is not a proof: {error!r}"
    print(json.dumps({"ok": False, "fault": said}))
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
