#!/usr/bin/env python3
"""Reads what `tollgate audit export` writes with readers that others wrote: Python's csv, and pyarrow for Parquet.

    audit_export.py TOLLGATE       TOLLGATE is the binary; pyarrow must be importable
"""

import csv
import io
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow.parquet

CALLS = [
    ("calculate", '{"expression": "6 * 7"}'),
    ("calculate", '{"expresion": "1"}'),
    ("=cmd|'/c calc'!A1", '{"text": "=1+1, \\"quoted\\"\\n张三"}'),
    ("\u202eevil", "not JSON, \r\n at all"),
]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        tollgate = [str(Path(sys.argv[1]).resolve())]

        def run(*words, check=True):
            return subprocess.run(tollgate + list(words), cwd=folder, stdout=subprocess.PIPE, check=check).stdout

        for tool, arguments in CALLS:
            run("call", tool, arguments, check=False)
        lines = [json.loads(line) for line in run("audit", "query").splitlines()]
        expected = {line["attempt"]: line for line in lines}
        assert len(expected) == len(CALLS), expected

        table = run("audit", "export", "--format", "csv").decode()
        rows = {row["attempt"]: row for row in csv.DictReader(io.StringIO(table, newline=""), strict=True)}
        run("audit", "export", "--format", "parquet", "--out", "audit.parquet")
        read = pyarrow.parquet.read_table(Path(folder) / "audit.parquet")
        assert str(read.schema.field("time").type) == "timestamp[us, tz=UTC]", read.schema
        columns = {row["attempt"]: row for row in read.to_pylist()}
        assert rows.keys() == columns.keys() == expected.keys()
        for attempt, line in expected.items():
            row, column = rows[attempt], columns[attempt]
            assert row["tool"].removeprefix("'") == column["tool"] == line["tool"], (row, column, line)
            assert row["status"] == column["status"] == line["status"]
            assert int(row["duration_ms"]) == column["duration_ms"] == line["duration_ms"]
            assert row["arguments"] == column["arguments"], (row, column)
            assert not any(cell[:1] in "=+-@" for cell in row.values() if cell), row
        texts = {json.loads(column["arguments"])["text"] for column in columns.values() if "quoted" in column["arguments"]}
        assert texts == {'=1+1, "quoted"\n张三'}, texts

        events = [json.loads(line) for line in run("audit", "export", "--format", "ocsf").splitlines()]
        assert {event["metadata"]["uid"] for event in events} == expected.keys()
    print(f"csv, parquet and ocsf say the same of {len(CALLS)} attempts")


main()
