#!/usr/bin/env python3
"""Strict schemas as OpenAI's own libraries make them (`openai` and `openai-agents`, PyPI), beside ours.

Usage: schemas.py LOWER, which is tollgate-wire's example `lower`. Prints a line for each check and exits 1 at the first that
fails. The same models and schemas go through all three; what may differ in writing (references, titles, defaults) is taken
away first. The libraries leave it to the model's author to allow null; we add it, so models here say it.
"""

import enum
import json
import subprocess
import sys
from typing import Literal, Optional, Union

from agents.exceptions import UserError
from agents.strict_schema import ensure_strict_json_schema
from openai.lib._pydantic import to_strict_json_schema
from pydantic import BaseModel

LOWER = sys.argv[1]


class Colour(enum.Enum):
    red = "red"
    blue = "blue"


class Point(BaseModel):
    x: float
    y: float


class Plain(BaseModel):
    """Everything is required."""

    name: str
    count: int
    share: float
    is_open: bool
    colour: Colour
    kind: Literal["a"]
    level: Literal[1, 2, 3]


class Nested(BaseModel):
    at: Point
    path: list[Point]
    note: Optional[str]
    size: Union[int, str, None] = None


class Tree(BaseModel):
    value: str
    kids: list["Tree"]


class Circle(BaseModel):
    kind: Literal["circle"]
    r: float


class Square(BaseModel):
    kind: Literal["square"]
    side: float


class Drawing(BaseModel):
    shape: Union[Circle, Square]


MODELS = [Plain, Nested, Tree, Drawing]
# What the libraries refuse to make strict, or make into something that says no more than before.
NOT_STRICT = [
    {"type": "object", "properties": {"a": {"type": "object", "additionalProperties": True}}, "required": ["a"]},
    {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}},
    {"type": "object", "properties": {"a": {"type": "object", "additionalProperties": {"type": "integer"}}}},
]


def check(name, fact):
    print(("ok    " if fact else "FAIL  ") + name, flush=True)
    if not fact:
        raise SystemExit(1)


def lower(schemas, **target):
    """The tools that we make of schemas, each with its notes."""
    tool = {"name": "t", "description": "Does it."}
    asked = [json.dumps({**target, "tools": [{**tool, "input_schema": schema}]}) for schema in schemas]
    done = subprocess.run([LOWER], input="\n".join(asked), capture_output=True, text=True, timeout=60, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [(line["tools"][0] if line["tools"] else None, line["notes"]) for line in lines]


def plain(schema, root=None, within=()):
    """A schema without what may differ in writing: references written out once, one spelling for a choice of types."""
    root = root or schema
    if "$ref" in schema:
        reference = schema["$ref"]
        if reference in within:
            return "itself"
        target = root
        for key in reference.split("/")[1:]:
            target = target[key]
        return plain(target, root, (*within, reference))
    kinds = schema.get("type")
    if isinstance(kinds, list):
        return plain({"anyOf": [{**schema, "type": kind} for kind in kinds]}, root, within)
    if "anyOf" in schema:
        branches = [plain(branch, root, within) for branch in schema["anyOf"]]
        flat = [one for branch in branches for one in (branch if isinstance(branch, list) else [branch])]
        return flat[0] if len(flat) == 1 else sorted(flat, key=json.dumps)
    out = {key: schema[key] for key in ("type", "additionalProperties") if key in schema}
    if "const" in schema or "enum" in schema:
        out["enum"] = schema.get("enum", [schema.get("const")])
    if "properties" in schema:
        out["properties"] = {name: plain(part, root, within) for name, part in sorted(schema["properties"].items())}
        out["required"] = sorted(schema["required"])
    if "items" in schema:
        out["items"] = plain(schema["items"], root, within)
    return out


def strict_schemas_are_the_libraries():
    ours = lower([model.model_json_schema() for model in MODELS], dialect="chat", strict=True)
    for model, (tool, notes) in zip(MODELS, ours):
        check(f"{model.__name__} is strict", tool["function"].get("strict") is True and not notes)
        made = plain(tool["function"]["parameters"])
        check(f"{model.__name__} as openai makes it", made == plain(to_strict_json_schema(model)))
        agents = ensure_strict_json_schema(model.model_json_schema())
        check(f"{model.__name__} as openai-agents makes it", made == plain(agents))


def what_is_refused_is_not_strict():
    for schema, (tool, notes) in zip(NOT_STRICT, lower(NOT_STRICT, dialect="chat", strict=True)):
        try:
            ensure_strict_json_schema(json.loads(json.dumps(schema)))
            is_refused = False
        except UserError:
            is_refused = True
        check(f"openai-agents refuses {json.dumps(schema)}", is_refused)
        check("and we offer it without strict, and say so", "strict" not in tool["function"] and len(notes) == 1)


def main():
    strict_schemas_are_the_libraries()
    what_is_refused_is_not_strict()


main()
