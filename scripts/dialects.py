#!/usr/bin/env python3
"""Our dialects held against what the providers publish: their OpenAPI document and their own Python libraries.

Usage: dialects.py DIALECT, which is tollgate-wire's example `dialect`. Prints a line for each check and exits 1 at the
first that fails. What we send (tests/golden) must validate; replies that a library writes, whole and streamed, must be read
by us; replies that we write must be read by the library.
"""

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

DIALECT = sys.argv[1]
ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "crates/tollgate-wire/tests/golden"


def check(name, fact, told=""):
    print(f"{'ok  ' if fact else 'FAIL'} {name}", flush=True)
    if not fact:
        sys.exit(f"{name}: {told}")


def ours(what, dialect, text):
    """What our example program makes of a text."""
    run = subprocess.run([DIALECT, what, dialect], input=text.encode(), capture_output=True)
    check(f"{dialect}: `{what}` answers", run.returncode == 0, run.stderr.decode())
    return run.stdout.decode()


def any_of(schema):
    """OpenAPI's `oneOf` is told apart by a discriminator, which JSON Schema does not know."""
    if isinstance(schema, list):
        return [any_of(part) for part in schema]
    if isinstance(schema, dict):
        return {"anyOf" if key == "oneOf" else key: any_of(value) for key, value in schema.items()}
    return schema


def openai_schema(name):
    document = any_of(json.loads((ROOT / "scripts/openai/schemas.json").read_text()))
    return jsonschema.Draft202012Validator({"$ref": f"#/components/schemas/{name}", **document})


def bodies(dialect, name):
    """Every body of the golden files is one that OpenAI's document describes."""
    validator = openai_schema(name)
    paths = sorted(GOLDEN.glob(f"*.{dialect}.json"))
    check(f"{dialect}: there are golden files", len(paths) >= 10, GOLDEN)
    for path in paths:
        faults = [f"{fault.json_path}: {fault.message[:200]}" for fault in validator.iter_errors(json.loads(path.read_text()))]
        check(f"{dialect}: {path.name} validates", not faults, "; ".join(faults))
    broken = json.loads(paths[0].read_text()) | {"stream": "yes"}
    check(f"{dialect}: the document refuses what is wrong", not validator.is_valid(broken))


CALL = {"name": "lookup", "arguments": '{"q": "键盘"}'}
SAID = "先查一下。"


def said(dialect, turn):
    """The text and the call that every reply here has."""
    turn = json.loads(turn)
    call = turn["calls"][0]
    check(f"{dialect}: text and call are read", turn["text"] == SAID and len(turn["calls"]) == 1, turn)
    check(f"{dialect}: the call is whole", {key: call[key] for key in CALL} == CALL and not call.get("refusal"), call)
    usage = {"input_tokens": 9, "output_tokens": 5, "cached_input_tokens": 4, "reasoning_tokens": 2}
    check(f"{dialect}: the tokens are read", turn["usage"] == usage, turn["usage"])
    return turn


def data(events):
    return "".join(f"data: {event.model_dump_json(exclude_unset=True)}\n\n" for event in events)


def chat():
    bodies("chat", "CreateChatCompletionRequest")
    usage = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14,
             "prompt_tokens_details": {"cached_tokens": 4}, "completion_tokens_details": {"reasoning_tokens": 2}}
    head = {"id": "c", "created": 1, "model": "m"}
    message = {"role": "assistant", "content": SAID, "tool_calls": [{"id": "call_1", "type": "function", "function": CALL}]}
    whole = ChatCompletion.model_validate({
        **head, "object": "chat.completion", "usage": usage,
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message, "logprobs": None}],
    }, strict=True)
    turn = said("chat", ours("turn", "chat", whole.model_dump_json()))
    written = ours("reply", "chat", json.dumps(turn))
    again = ChatCompletion.model_validate_json(written, strict=True)
    check("chat: the library reads our reply", again.choices[0].message.tool_calls[0].function.arguments == CALL["arguments"])

    def chunk(delta, finish=None, **more):
        choices = [{"index": 0, "delta": delta, "finish_reason": finish}] if delta is not None else []
        return ChatCompletionChunk.model_validate({**head, "object": "chat.completion.chunk", "choices": choices, **more}, strict=True)

    def fragment(**function):
        return {"index": 0, "function": function}

    events = [chunk({"role": "assistant", "content": SAID[:2]}), chunk({"content": SAID[2:]}),
              chunk({"tool_calls": [{**fragment(name="lookup", arguments=""), "id": "call_1", "type": "function"}]}),
              *(chunk({"tool_calls": [fragment(arguments=piece)]}) for piece in (CALL["arguments"][:4], CALL["arguments"][4:])),
              chunk({}, "tool_calls"), chunk(None, usage=usage)]
    said("chat stream", ours("stream", "chat", data(events) + "data: [DONE]\n\n"))


def responses():
    bodies("responses", "CreateResponse")
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gA=="}
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "键盘", "queries": ["键盘"]}}
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
               "content": [{"type": "output_text", "text": SAID, "annotations": [], "logprobs": []}]}
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "status": "completed", **CALL}
    usage = {"input_tokens": 9, "output_tokens": 5, "total_tokens": 14, "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
             "output_tokens_details": {"reasoning_tokens": 2}}
    head = {"id": "resp_1", "created_at": 1.0, "model": "m", "object": "response", "parallel_tool_calls": True,
            "tool_choice": "auto", "tools": [], "status": "completed"}
    reply = {**head, "output": [reasoning, search, message, call], "usage": usage}
    whole = Response.model_validate(reply, strict=True)
    turn = said("responses", ours("turn", "responses", whole.model_dump_json(exclude_unset=True)))
    check("responses: what the provider ran is told", turn["hosted"][0]["name"] == "web_search", turn)
    raw = [json.loads(part["raw"]) for part in turn["kept"]["parts"] if "raw" in part]
    check("responses: items are kept as they are", raw == [reasoning, search, message], raw)
    again = Response.model_validate_json(ours("reply", "responses", json.dumps(turn)))
    check("responses: the library reads our reply", again.output_text == SAID and again.output[3].arguments == CALL["arguments"])

    event = TypeAdapter(ResponseStreamEvent)
    events = [{"type": "response.created", "response": {**head, "status": "in_progress", "output": []}}]
    for index, item in enumerate(reply["output"]):
        at = {"output_index": index}
        events.append({"type": "response.output_item.added", **at, "item": {**item, **({"arguments": ""} if item is call else {})}})
        if item is message:
            events[-1]["item"] = {**message, "content": []}
            at |= {"item_id": "msg_1", "content_index": 0, "logprobs": []}
            events += [{"type": "response.output_text.delta", **at, "delta": piece} for piece in (SAID[:2], SAID[2:])]
            events.append({"type": "response.output_text.done", **at, "text": SAID})
        if item is call:
            pieces = (CALL["arguments"][:4], CALL["arguments"][4:])
            at |= {"item_id": "fc_1"}
            events += [{"type": "response.function_call_arguments.delta", **at, "delta": piece} for piece in pieces]
            events.append({"type": "response.function_call_arguments.done", **at, **CALL})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": "response.completed", "response": reply})
    typed = [event.validate_python({**told, "sequence_number": number}) for number, told in enumerate(events)]
    said("responses stream", ours("stream", "responses", data(typed)))


for dialect in (chat, responses):
    dialect()
