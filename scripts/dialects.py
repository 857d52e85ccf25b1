#!/usr/bin/env python3
"""Our dialects held against what the providers publish: their OpenAPI document and their own Python libraries.

Usage: dialects.py DIALECT, which is tollgate-wire's example `dialect`. Prints a line for each check and exits 1 at the
first that fails. What we send (tests/golden) must validate; replies that a library writes, whole and streamed, must be read
by us; replies that we write must be read by the library.
"""

import importlib
import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import anthropic.types
import jsonschema
from anthropic.types import RawMessageStreamEvent
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming, MessageCreateParamsStreaming
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter, ValidationError

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


def whole_value(value):
    """A value of pydantic's with nothing in it still to be validated: it reads lists lazily."""
    if isinstance(value, dict):
        return {key: whole_value(item) for key, item in value.items()}
    return value if value is None or isinstance(value, (str, int, float)) else [whole_value(item) for item in value]


def forbid_unknown(package):
    """Lets no TypedDict of a package pass a field that it does not have."""
    for module in pkgutil.iter_modules(package.__path__):
        kinds = [] if module.ispkg else vars(importlib.import_module(f"{package.__name__}.{module.name}")).values()
        for kind in kinds:
            if isinstance(kind, type) and hasattr(kind, "__required_keys__"):
                kind.__pydantic_config__ = {"extra": "forbid", "arbitrary_types_allowed": True}


def anthropic_bodies():
    """Every body of the golden files is one that the library's types describe."""
    forbid_unknown(anthropic.types)
    kinds = {True: MessageCreateParamsStreaming, False: MessageCreateParamsNonStreaming}
    kinds = {stream: (TypeAdapter(kind), kind.__required_keys__ | kind.__optional_keys__) for stream, kind in kinds.items()}
    for path in sorted(GOLDEN.glob("*.anthropic.json")):
        body = json.loads(path.read_text())
        kind, known = kinds[body["stream"]]
        # What an operator adds is the operator's, and this library no longer has what only older models take.
        extra = json.loads((GOLDEN / f"{path.name.split('.')[0]}.json").read_text()).get("extra", {})
        body = {name: value for name, value in body.items() if name in known or name not in [*extra, "temperature"]}
        faults = ""
        try:
            whole_value(kind.validate_python(body))
        except ValidationError as error:
            faults = str(error)[:2000]
        check(f"anthropic: {path.name} validates", not faults, faults)
    try:
        whole_value(kind.validate_python({**body, "tools": [{"name": "f", "parameters": {}}]}))
        check("anthropic: the library refuses what is wrong", False)
    except ValidationError:
        check("anthropic: the library refuses what is wrong", True)


ANTHROPIC_BLOCKS = [
    {"type": "thinking", "thinking": "想一想 🙂", "signature": "c2ln"},
    {"type": "redacted_thinking", "data": "ZW5j"},
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "茶"}},
    {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": [
            {"type": "web_search_result", "title": "t", "url": "https://e.x", "encrypted_content": "eA==", "page_age": None}
        ],
    },
    {"type": "text", "text": "So much. ", "citations": None},
    {
        "type": "text",
        "text": "绿茶",
        "citations": [
            {
                "type": "web_search_result_location",
                "url": "https://e.x",
                "title": "t",
                "cited_text": "绿",
                "encrypted_index": "eA==",
            }
        ],
    },
    {"type": "tool_use", "id": "toolu_1", "name": "lookup", "input": {"q": "茶", "n": 7512292042121000001}},
    {"type": "tool_use", "id": "toolu_2", "name": "ping", "input": {}},
]
ANTHROPIC_USAGE = {
    "input_tokens": 5,
    "cache_creation_input_tokens": 7,
    "cache_read_input_tokens": 11,
    "output_tokens": 13,
    "output_tokens_details": {"thinking_tokens": 3},
}


def anthropic_events(message):
    """The message as events, every text in pieces of three characters."""
    fields = {"text": "text", "thinking": "thinking", "input": "partial_json", "signature": "signature"}
    yield {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
    for index, block in enumerate(message["content"]):
        is_call = block["type"] in ("tool_use", "server_tool_use")
        grows = [name for name in fields if name in block]
        empty = {name: {} if name == "input" else "" for name in grows}
        cited = block.get("citations") or []
        start = {**block, **empty, **({"citations": []} if cited else {})}
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for name in grows:
            text = json.dumps(block[name], ensure_ascii=False) if is_call else block[name]
            kind = "input_json" if is_call else name
            for at in range(0, len(text), 3):
                delta = {"type": f"{kind}_delta", fields[name]: text[at : at + 3]}
                yield {"type": "content_block_delta", "index": index, "delta": delta}
        for citation in cited:
            delta = {"type": "citations_delta", "citation": citation}
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": message["usage"]}
    yield {"type": "message_stop"}


def anthropic_turn(way, text):
    turn = json.loads(text)
    check(f"anthropic {way}: text is read", turn["text"] == "So much. 绿茶", turn["text"])
    asked = [(call["wire_id"], call["name"], json.loads(call["arguments"])) for call in turn["calls"]]
    expected = [(block["id"], block["name"], block["input"]) for block in ANTHROPIC_BLOCKS if block["type"] == "tool_use"]
    check(f"anthropic {way}: calls are read", asked == expected, asked)
    usage = {"input_tokens": 23, "output_tokens": 13, "cached_input_tokens": 11, "reasoning_tokens": 3}
    check(f"anthropic {way}: the tokens are read", turn["usage"] == usage, turn["usage"])
    check(f"anthropic {way}: what the provider ran is told", [call["name"] for call in turn["hosted"]] == ["web_search"], turn)
    raw = [json.loads(part["raw"]) for part in turn["kept"]["parts"] if "raw" in part]
    kept = [block for block in ANTHROPIC_BLOCKS if block["type"] != "tool_use" and block.get("citations", [1])]
    check(f"anthropic {way}: blocks are kept as they are", raw == kept, raw)
    again = anthropic.types.Message.model_validate_json(ours("reply", "anthropic", text))
    sent = [block for block in json.loads(again.to_json())["content"] if block["type"] != "text"]
    expected = [block for block in ANTHROPIC_BLOCKS if block["type"] != "text"]
    check(f"anthropic {way}: the library reads our reply", sent == expected, sent)


def messages():
    anthropic_bodies()
    said = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": ANTHROPIC_BLOCKS,
            "stop_reason": "tool_use", "stop_sequence": None, "usage": ANTHROPIC_USAGE}
    whole = anthropic.types.Message.model_validate(said)
    anthropic_turn("whole", ours("turn", "anthropic", whole.to_json()))
    kind = TypeAdapter(RawMessageStreamEvent)
    events = [kind.validate_python(event) for event in anthropic_events(said)]
    lines = "".join(f"event: {event.type}\ndata: {event.to_json(indent=None)}\n\n" for event in events)
    anthropic_turn("stream", ours("stream", "anthropic", lines))


for dialect in (chat, responses, messages):
    dialect()
