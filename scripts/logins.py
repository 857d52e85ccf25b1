#!/usr/bin/env python3
"""Logins through the whole product at an authorization server that somebody else wrote (npm: oidc-provider): a person agrees
on its pages, a token is renewed, more is asked for, a program speaks for itself, and no secret is left where one may look.

Usage: logins.py TOLLGATE NODE FOLDER    the binary, Node.js 22 or newer, a folder with oidc-provider in it
"""

import http.cookiejar
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

TOLLGATE, NODE, FOLDER = (str(pathlib.Path(word).resolve()) for word in sys.argv[1:])
SECRET = "machine-secret-zq-4711"
CONFIG = """
[mcp.docs]
url = "{url}"
[mcp.docs.tools."*"]
risk = "read"
permission = "read"
[mcp.machine]
url = "{url}"
[mcp.machine.tools."*"]
risk = "read"
permission = "read"
[mcp.machine.oauth]
grant = "client_credentials"
client_id = "machine"
client_secret = {{ env = "MACHINE_SECRET" }}
issuer = "{issuer}"
"""


def check(name, fact, seen=""):
    print(("ok    " if fact else "FAIL  ") + name + ("" if fact else f":\n{seen}"), flush=True)
    if not fact:
        raise SystemExit(1)


def agree(url):
    """A person with a browser: logs in, agrees, and is sent wherever that leads."""
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
    page = browser.open(url, timeout=20)
    for _ in range(5):
        text = page.read().decode()
        form = re.search(r'<form[^>]*action="([^"]+)"', text)
        if not form:
            return page.url, text
        prompt = re.search(r'name="prompt" value="(\w+)"', text).group(1)
        answer = urllib.parse.urlencode({"prompt": prompt, "login": "ann", "password": "any"}).encode()
        page = browser.open(urllib.parse.urljoin(page.url, form.group(1)), answer, timeout=20)
    raise SystemExit("the pages have no end")


class Shop:
    def __init__(self, folder, url, issuer):
        self.folder = pathlib.Path(folder)
        (self.folder / "tollgate.toml").write_text(CONFIG.format(url=url, issuer=issuer))
        self.env = {**os.environ, "MACHINE_SECRET": SECRET}

    def start(self, *words):
        return subprocess.Popen(
            [TOLLGATE, *words], cwd=self.folder, env=self.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def run(self, *words):
        process = self.start(*words)
        stdout, stderr = process.communicate(timeout=60)
        return process.returncode, stdout, stderr

    def log_in(self, *words):
        process = self.start("mcp", "login", "docs", *words)
        url = next(line.strip() for line in process.stderr if line.strip().startswith("http"))
        address, text = agree(url)
        check("the browser comes back to this machine", "You can close this window" in text, (address, text))
        stdout, stderr = process.communicate(timeout=60)
        check("the login is kept", process.returncode == 0, stderr)
        return json.loads(stdout)

    def call(self, tool):
        return self.run("call", tool)


def story(shop, url):
    code, stdout, _ = shop.run("mcp", "list")
    trouble = {server["name"]: server["trouble"] for server in json.loads(stdout)}
    check("a server without a login says so, and one with a secret is up", trouble == {"docs": "needs_login", "machine": None}, stdout)
    code, stdout, stderr = shop.call("mcp__machine__read")
    check("a program speaks for itself", code == 0 and "permitted: read" in stdout, stdout + stderr)

    login = shop.log_in()
    check("and is renewed", login["is_renewed"] and "offline_access" in login["scopes"], login)
    code, stdout, stderr = shop.call("mcp__docs__read")
    check("a person's login calls", code == 0 and "permitted: read" in stdout, stdout + stderr)
    code, stdout, stderr = shop.call("mcp__docs__write")
    check("more is refused with the command", code != 0 and "tollgate mcp login docs" in stdout + stderr, stdout + stderr)
    login = shop.log_in()
    check("and asked for the next time", {"read", "write"} <= set(login["scopes"]), login)
    code, stdout, stderr = shop.call("mcp__docs__write")
    check("which the person agreed to", code == 0 and "permitted: read write" in stdout, stdout + stderr)

    since = json.load(urllib.request.urlopen(urllib.parse.urljoin(url, "/end"), timeout=10))
    while time.time() < since:
        time.sleep(0.05)
    kept = shop.folder / ".tollgate/logins/docs.json"
    before = json.loads(kept.read_text())
    code, stdout, stderr = shop.call("mcp__docs__read")
    after = json.loads(kept.read_text())
    check("a token that is refused is renewed", code == 0, stdout + stderr)
    check("with a refresh token that is another", before["refresh_token"] != after["refresh_token"])
    check("for its owner alone", kept.stat().st_mode & 0o777 == 0o600)

    secrets = [SECRET, *(login[key] for login in (before, after) for key in ("access_token", "refresh_token"))]
    files = [path for path in shop.folder.rglob("*") if path.is_file() and path != kept]
    found = [str(path) for path in files if any(secret.encode() in path.read_bytes() for secret in secrets)]
    check("no secret stands in any other file", not found, found)

    code, stdout, stderr = shop.run("mcp", "logout", "docs")
    check("and is taken back", code == 0 and json.loads(stdout)["was_logged_in"] and "told" not in stderr, stdout + stderr)
    code, stdout, stderr = shop.call("mcp__docs__read")
    check("after which nobody comes in", code != 0, stdout)


def main():
    script = pathlib.Path(FOLDER) / "logins_server.mjs"
    shutil.copy(pathlib.Path(__file__).parent / "logins_server.mjs", script)
    command = [NODE, str(script)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        url = server.stdout.readline().strip()
        metadata = urllib.parse.urljoin(url, "/.well-known/oauth-protected-resource/mcp")
        issuer = json.load(urllib.request.urlopen(metadata, timeout=20))["authorization_servers"][0]
        with tempfile.TemporaryDirectory() as folder:
            story(Shop(folder, url, issuer), url)
        server.stdin.close()
        server.wait(10)


if __name__ == "__main__":
    main()
