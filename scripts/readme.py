#!/usr/bin/env python3
"""Runs the commands of the README as a reader would, and checks that both READMEs show the same ones.

Usage: readme.py TOLLGATE
A block marked `sh` is run line by line in a fresh copy of the examples; a line that ends with another status than 0
fails, unless the README says otherwise in a comment such as `# exits 4`.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.M | re.S)
EXITS = re.compile(r"#.*exits? (\d+)")
# What this script stands in for, or what takes a machine of its own.
SKIPPED = ("git clone", "cd ", "scripts/", "cargo ")


def commands(readme):
    for block in BLOCK.findall((ROOT / readme).read_text(encoding="utf-8")):
        for line in block.replace("\\\n", " ").splitlines():
            line = line.strip()
            if line and not line.startswith("#"):
                yield line


def main():
    tollgate = pathlib.Path(sys.argv[1]).resolve()
    english, chinese = list(commands("README.md")), list(commands("README.zh-CN.md"))
    if [line.split("#")[0].strip() for line in english] != [line.split("#")[0].strip() for line in chinese]:
        sys.exit("README.md and README.zh-CN.md show different commands")
    ran = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "copy"
        shutil.copytree(ROOT / "examples", copy / "examples", ignore=shutil.ignore_patterns(".tollgate", "*.db"))
        shutil.copy(ROOT / "README.md", copy)
        os.symlink(tollgate, pathlib.Path(folder) / "tollgate")
        env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
        cwd = copy
        for line in english:
            if line.startswith(SKIPPED):
                if line.startswith("cd ") and (cwd / line[3:].split()[0]).is_dir():
                    cwd = (cwd / line[3:].split()[0]).resolve()
                continue
            told = EXITS.search(line)
            expected = int(told.group(1)) if told else 0
            done = subprocess.run(["bash", "-c", line], cwd=cwd, env=env, capture_output=True, text=True, timeout=60)
            if done.returncode != expected:
                sys.exit(f"$ {line}\nexited {done.returncode}, not {expected}\n{done.stdout}{done.stderr}")
            ran += 1
    if ran < 5:
        sys.exit(f"only {ran} commands of the README were run: are its blocks still marked sh?")
    print(f"{ran} commands of the README do what it says")


main()
