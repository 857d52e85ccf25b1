"""The example of a gate inside an axum application does what it says. Usage: axum_app.py EXAMPLE"""

import json
import shlex
import subprocess
import sys


def ask(command):
    """Runs a command that the example printed, as a reader would."""
    words = [*shlex.split(command), "--silent", "--show-error", "--fail-with-body", "--max-time", "20"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return json.loads(done.stdout)


def main():
    with subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        page, tools = process.stdout.readline().strip(), process.stdout.readline().strip()
        answer = ask(page)
        assert answer["weather"] == "北京: 12 °C, cloudy" and answer["attempt"], answer
        assert ask(page.replace("北京", "上海"))["error"]["error"] == "tool_error"
        assert [tool["name"] for tool in ask(tools)["tools"]] == ["get_weather"]
        process.stdin.close()
        assert process.wait(20) == 0
    print("the application answers its users and its agents")


main()
