#!/usr/bin/env python3
"""Gemini's dialect held against Google's own Python library, whose types forbid fields that they do not know.

Usage: gemini_dialect.py DIALECT, which is tollgate-wire's example `dialect`. Prints a line for each check and exits 1 at the
first that fails. What we send (tests/golden) must validate; replies that the library writes, whole, streamed and as a list,
must be read by us; replies that we write must be read by the library.
"""

import json
import pathlib
import subprocess
import sys

from google.genai import types
from pydantic import ValidationError

DIALECT = sys.argv[1]
GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "crates/tollgate-wire/tests/golden"


def check(name, fact, shown=""):
    print(("ok    " if fact else "FAIL  ") + name, flush=True)
    if not fact:
        print(shown, file=sys.stderr)
        raise SystemExit(1)


def ours(what, given):
    """What the example program makes of bytes, or of a value as JSON."""
    given = given if isinstance(given, bytes) else json.dumps(given).encode()
    done = subprocess.run([DIALECT, what, "gemini"], input=given, capture_output=True)
    if done.returncode != 0:
        check(f"gemini: {what}", False, done.stderr.decode())
    return json.loads(done.stdout)


FIELDS = {"systemInstruction": "Content", "toolConfig": "ToolConfig", "generationConfig": "GenerationConfig"}
LISTS = {"contents": "Content", "tools": "Tool", "safetySettings": "SafetySetting"}


def bodies():
    """Each part of a body as the type that the SDK has for it; they forbid fields that they do not know."""
    paths = [path for path in sorted(GOLDEN.glob("*.json")) if "." not in path.stem]
    check("there are golden files", len(paths) >= 10)
    for path in paths:
        name, given = path.stem, path.read_bytes()
        body = ours("body", given)
        for other in set(json.loads(given).get("extra", {})) - set(FIELDS) - set(LISTS):
            body.pop(other, None)
        for hosted in json.loads(given).get("hosted", []):
            body["tools"].remove(hosted)
        try:
            for field, value in body.items():
                kind = getattr(types, FIELDS.get(field) or LISTS[field])
                for one in value if field in LISTS else [value]:
                    kind.model_validate(one)
            check(f"the library takes {name}", True)
        except (KeyError, ValidationError) as error:
            check(f"the library takes {name}", False, error)


PARTS = [
    {"text": "想一想 🙂", "thought": True, "thought_signature": b"thought"},
    {"executable_code": {"language": "PYTHON", "code": "print(1)"}},
    {"code_execution_result": {"outcome": "OUTCOME_OK", "output": "1\n"}},
    {"text": "So much. "},
    {"function_call": {"name": "lookup", "args": {"q": "茶", "n": 7512292042121000001}}, "thought_signature": b"call"},
    {"function_call": {"id": "g2", "name": "lookup", "args": {"q": "水"}}},
    {"function_call": {"name": "ping", "args": {}}},
    {"text": "绿茶", "thought_signature": b"end"},
]
USAGE = {
    "prompt_token_count": 20,
    "cached_content_token_count": 11,
    "tool_use_prompt_token_count": 3,
    "candidates_token_count": 10,
    "thoughts_token_count": 3,
    "total_token_count": 36,
}


def responses(groups):
    """A response for each group of parts, the last with the end and the usage."""
    for at, parts in enumerate(groups):
        is_last = at == len(groups) - 1
        candidate = {"index": 0, "content": {"role": "model", "parts": parts}}
        if is_last:
            search = {"web_search_queries": ["茶"], "grounding_chunks": [{"web": {"uri": "https://e.x", "title": "t"}}]}
            candidate |= {"finish_reason": "STOP", "grounding_metadata": search}
        response = {"candidates": [candidate], "response_id": "r1", "model_version": "gemini"}
        response |= {"usage_metadata": USAGE} if is_last else {}
        yield types.GenerateContentResponse.model_validate(response)


def replies():
    def line(response):
        return response.model_dump_json(by_alias=True, exclude_none=True)

    (said,) = responses([PARTS])
    streamed = [line(response) for response in responses([[part] for part in PARTS])]
    ways = {
        "whole": ours("turn", line(said).encode()),
        "streamed": ours("stream", "".join(f"data: {event}\r\n\r\n" for event in streamed).encode()),
        "listed": ours("turn", f"[{','.join(streamed)}]".encode()),
    }
    for way, turn in ways.items():
        check(f"{way}: text", turn["text"] == "So much. 绿茶", turn["text"])
        asked = [(call["name"], json.loads(call["arguments"])) for call in turn["calls"]]
        expected = [(call.name, call.args) for call in said.function_calls]
        check(f"{way}: calls", asked == expected, asked)
        usage = {"input_tokens": 23, "output_tokens": 13, "cached_input_tokens": 11, "reasoning_tokens": 3}
        check(f"{way}: usage", turn["usage"] == usage, turn["usage"])
        ran = [(call["name"], call["is_error"]) for call in turn["hosted"]]
        check(f"{way}: the provider's calls", ran == [("codeExecution", False), ("googleSearch", False)], ran)
        written = ours("reply", turn)
        for call in (part["functionCall"] for part in written["candidates"][0]["content"]["parts"] if "functionCall" in part):
            check(f"{way}: each call that we write has an id", call["id"] != "", call)
        reply = types.GenerateContentResponse.model_validate(written)
        parts = [part.model_copy(deep=True) for part in reply.candidates[0].content.parts]
        for part, original in zip(parts, said.candidates[0].content.parts):
            if part.function_call:
                part.function_call.id = original.function_call.id
        check(f"{way}: the SDK reads our reply part by part", parts == said.candidates[0].content.parts, parts)
        check(f"{way}: and its end", reply.candidates[0].finish_reason == types.FinishReason.STOP)


bodies()
replies()
