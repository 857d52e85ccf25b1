"""An MCP server that wants a login, and its authorization server, on one port; the port is the first line it prints."""

import base64
import hashlib
import http.server
import json
import sys
import urllib.parse

challenges = {}


class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    @property
    def origin(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, status, value=None, **headers):
        body = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        for name, text in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), text)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        at = self.origin
        if url.path == "/.well-known/oauth-protected-resource/mcp":
            self.answer(200, {"resource": f"{at}/mcp", "authorization_servers": [at]})
        elif url.path == "/.well-known/oauth-authorization-server":
            endpoints = {f"{name}_endpoint": f"{at}/{path}" for name, path in ENDPOINTS.items()}
            self.answer(200, {"issuer": at, "code_challenge_methods_supported": ["S256"], **endpoints})
        elif url.path == "/authorize":
            asked = dict(urllib.parse.parse_qsl(url.query))
            challenges["code-zq-4711"] = asked["code_challenge"]
            answer = urllib.parse.urlencode({"code": "code-zq-4711", "state": asked["state"]})
            self.answer(302, None, Location=f"{asked['redirect_uri']}?{answer}")
        else:
            self.answer(404)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/mcp":
            return self.mcp(json.loads(body))
        if self.path == "/register":
            return self.answer(201, {"client_id": "client-1"})
        asked = dict(urllib.parse.parse_qsl(body.decode()))
        if self.path == "/token":
            digest = base64.urlsafe_b64encode(hashlib.sha256(asked["code_verifier"].encode()).digest())
            assert digest.rstrip(b"=").decode() == challenges[asked["code"]]
            return self.answer(
                200, {"access_token": "access-zq-4711", "refresh_token": "refresh-zq-4711", "token_type": "Bearer"}
            )
        self.answer(200)

    def mcp(self, message):
        if self.headers["Authorization"] != "Bearer access-zq-4711":
            return self.answer(401, None, WWW_Authenticate="Bearer")
        if message["method"] == "server/discover":
            result = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
        elif message["method"] == "tools/list":
            result = {"tools": [{"name": "look", "inputSchema": {"type": "object"}}]}
        else:
            result = {"content": [{"type": "text", "text": "it is access-zq-4711"}]}
        self.answer(200, {"jsonrpc": "2.0", "id": message["id"], "result": result})


ENDPOINTS = {"authorization": "authorize", "token": "token", "registration": "register", "revocation": "revoke"}
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
print(server.server_port, flush=True)
sys.stdin.close()
server.serve_forever()
