"""A server on standard input and output as one that knows the handshake alone: copies lines both ways, and answers
`server/discover` as servers do that have never heard of it.

Usage: older.py COMMAND [ARGUMENT…]
"""

import json
import subprocess
import sys
import threading

UNKNOWN = {"code": -32601, "message": "Method not found"}


def main() -> int:
    with subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        writing = threading.Lock()

        def say(line: bytes) -> None:
            with writing:
                sys.stdout.buffer.write(line)
                sys.stdout.buffer.flush()

        def answers() -> None:
            for line in server.stdout:
                say(line)

        copying = threading.Thread(target=answers)
        copying.start()
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if message.get("method") == "server/discover":
                say(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": UNKNOWN}).encode() + b"\n")
                continue
            server.stdin.write(line)
            server.stdin.flush()
        server.stdin.close()
        copying.join()
        return server.wait()


if __name__ == "__main__":
    sys.exit(main())
