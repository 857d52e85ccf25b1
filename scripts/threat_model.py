#!/usr/bin/env python3
"""Checks that docs/threat-model.md names what is there: each test and script is in the source, and each row of the three
lists has one, or says that it is not covered yet.

Usage: threat_model.py
A name such as `gate::approval::two_persons_must_say_yes` is a crate without its prefix, the modules of a file in its
`tests/it` or `src`, and a function that is marked as a test. `scripts/test STEP` is a step of that script.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = "docs/threat-model.md"
TEST = re.compile(r"`([a-z_]+(?:::[a-z_0-9]+)+)`")
SCRIPT = re.compile(r"`(scripts/[^`\s]+)(?: ([a-z]+))?`")
# Attributes may stand between the mark and the function, as in proptest's blocks.
MARKED = re.compile(r"#\[(?:tokio::)?test\b[^\]]*\]\s*(?:#\[[^\]]*\]\s*)*(?:pub )?(?:async )?fn (\w+)\b")
ROWS = [f"NSA-{n}" for n in range(1, 10)] + [f"{of}{n:02}" for of in ("ASI", "MCP") for n in range(1, 11)]
GAP = "**Not covered yet:**"


def sources(crate, modules):
    """The files in which the tests of this module may stand."""
    folder = ROOT / "crates" / (crate if crate == "tollgate" else f"tollgate-{crate}")
    for base, root in [("tests/it", "main.rs"), ("src", "lib.rs")]:
        path = folder.joinpath(base, *modules)
        names = [path.with_suffix(".rs"), path / "mod.rs", path / "tests.rs"] if modules else [path / root]
        yield from (name for name in names if name.is_file())


def is_test(name):
    crate, *modules, function = name.split("::")
    texts = (path.read_text(encoding="utf-8") for path in sources(crate, modules))
    return any(function in MARKED.findall(text) for text in texts)


def is_script(path, step):
    file = ROOT / path
    return file.is_file() and (not step or f"step_{step}()" in file.read_text(encoding="utf-8"))


def faults(page):
    tests, scripts = set(TEST.findall(page)), set(SCRIPT.findall(page))
    yield from (f"`{name}` is no test" for name in sorted(tests) if not is_test(name))
    yield from (f"`{' '.join(script).strip()}` is no script" for script in sorted(scripts) if not is_script(*script))
    rows = [line for line in page.splitlines() if re.match(r"\| (NSA-|ASI|MCP)\d", line)]
    if [row.split("|")[1].strip() for row in rows] != ROWS:
        yield f"its rows are not {ROWS[0]} to {ROWS[-1]}, each once and in order"
    for row in rows:
        shown = row.rstrip("| ").rsplit("|", 1)[-1]
        if not (TEST.search(shown) or SCRIPT.search(shown) or GAP in shown):
            yield f"the row {row.split('|')[1].strip()} names neither a test nor what is not covered yet"


def main():
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    found = list(faults(page))
    if found:
        sys.exit("\n".join(f"{PAGE}: {fault}" for fault in found))
    print(f"{len(set(TEST.findall(page)))} tests and {len(set(SCRIPT.findall(page)))} scripts of {PAGE} are there")


main()
