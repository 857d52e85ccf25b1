#!/usr/bin/env python3
"""Makes a JSON Schema of OCSF's API Activity (class 6003), as far as `tollgate audit export --format ocsf` uses it.

    ocsf_schema.py CHECKOUT > crates/tollgate-ledger/tests/it/ocsf-1.8.0.json

CHECKOUT holds github.com/ocsf/ocsf-schema at 1.8.0. Objects outside of OBJECTS may not be used; nor may attributes that
the framework does not have.
"""

import json
import sys
from pathlib import Path

OBJECTS = "metadata product actor user group session api request response service network_endpoint".split()
BASES = {"string_t": "string", "integer_t": "integer", "long_t": "integer", "boolean_t": "boolean", "float_t": "number"}


class Framework:
    def __init__(self, folder):
        self.folder = folder
        dictionary = self.read("dictionary.json")
        self.attributes = dictionary["attributes"]
        self.types = dictionary["types"]["attributes"]

    def read(self, path):
        return json.loads((self.folder / path).read_text())

    def definition(self, path, folder):
        """A class or object with everything that it inherits."""
        found = self.read(path)
        parts = [self.definition(f"{folder}/{found['extends']}.json", folder)] if "extends" in found else []
        attributes = {}
        for part in parts:
            attributes |= part["attributes"]
        for name, attribute in found["attributes"].items():
            # What is included are profiles, of which we use none.
            if name != "$include":
                attributes[name] = attributes.get(name, {}) | attribute
        return {"attributes": attributes, "constraints": found.get("constraints", {})}

    def type_of(self, name, attribute):
        entry = self.attributes.get(name, {}) | attribute
        kind = entry.get("type", "string_t")
        if kind in OBJECTS:
            schema = {"$ref": f"#/$defs/{kind}"}
        elif kind == "object":
            schema = {"type": "object"}
        elif kind == "json_t":
            schema = {}
        elif kind in self.types or kind in BASES:
            schema = {"type": BASES.get(kind) or BASES[self.types[kind]["type"]]}
            if schema["type"] == "integer" and "enum" in entry:
                common = self.attributes.get(name, {}).get("enum", {})
                schema["enum"] = sorted(int(number) for number in entry["enum"] | common)
        else:
            schema = False
        return {"type": "array", "items": schema} if entry.get("is_array") and schema else schema

    def schema(self, definition):
        attributes = definition["attributes"]
        schema = {
            "type": "object",
            "additionalProperties": False,
            "required": sorted(name for name, it in attributes.items() if it.get("requirement") == "required"),
            "properties": {name: self.type_of(name, it) for name, it in sorted(attributes.items())},
        }
        if one_of := definition["constraints"].get("at_least_one"):
            schema["anyOf"] = [{"required": [name]} for name in one_of]
        return schema


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    framework = Framework(Path(sys.argv[1]))
    events = {path.stem: path for path in Path(sys.argv[1]).glob("events/**/*.json")}
    definition = {"attributes": {}, "constraints": {}}
    for name in ["base_event", "application", "api_activity"]:
        found = json.loads(events[name].read_text())
        for attribute, it in found["attributes"].items():
            if attribute != "$include":
                definition["attributes"][attribute] = definition["attributes"].get(attribute, {}) | it
    # The framework computes these from the class and its category.
    schema = framework.schema(definition)
    schema["properties"]["class_uid"] = {"const": 6003}
    schema["properties"]["category_uid"] = {"const": 6}
    schema["properties"]["type_uid"] = {"enum": [600300 + n for n in (0, 1, 2, 3, 4, 99)]}
    schema["properties"]["activity_id"] = {"enum": [0, 1, 2, 3, 4, 99]}
    schema["$defs"] = {name: framework.schema(framework.definition(f"objects/{name}.json", "objects")) for name in OBJECTS}
    version = framework.read("version.json")["version"]
    head = {"$comment": f"github.com/ocsf/ocsf-schema {version}, Apache-2.0; made by scripts/ocsf_schema.py"}
    print(json.dumps(head | schema, separators=(",", ":")))


main()
