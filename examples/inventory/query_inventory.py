"""How many of a product can be sold now: a program for Tollgate that needs nothing but Python.

Arguments come as a JSON object on standard input, the result goes to standard output as JSON. What the shop can answer,
"no such product" included, is a result; what the program cannot do ends with a message on standard error and a status
other than zero.
"""

import json
import os
import re
import sqlite3
import sys
import tempfile
import unicodedata
from difflib import SequenceMatcher
from pathlib import Path

HERE = Path(__file__).resolve().parent
KEYWORD_CHARS_MAX = 100
MATCHES_MAX = 8
# Below this share of the keyword found in a name, the name is no answer to it.
SCORE_MIN = 0.6
# A letter and three digits, or letters that are typed for digits.
SKU_LIKE = re.compile(r"[A-Z][0-9OIL]{3}")
LOOKALIKES = str.maketrans("OIL", "011")


class Failure(Exception):
    """What the program cannot do, in words for whoever runs it."""


def read_keyword(data):
    try:
        arguments = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Failure(f"the arguments are not JSON: {error}") from None
    keyword = arguments.get("keyword") if isinstance(arguments, dict) else None
    if not isinstance(keyword, str) or not keyword.strip():
        raise Failure('the arguments must be an object such as {"keyword": "A103"}')
    if len(keyword) > KEYWORD_CHARS_MAX:
        raise Failure(f"`keyword` is longer than {KEYWORD_CHARS_MAX} characters")
    return keyword.strip()


def create(database):
    """Makes the database beside its place and links it there whole: whoever comes second finds it and keeps it."""
    script = (HERE / "inventory.sql").read_text(encoding="utf-8")
    handle, name = tempfile.mkstemp(prefix=".inventory-", dir=HERE)
    os.close(handle)
    try:
        connection = sqlite3.connect(name)
        try:
            connection.executescript(f"PRAGMA journal_mode = MEMORY; BEGIN; {script} COMMIT;")
        finally:
            connection.close()
        os.chmod(name, 0o644)
        os.link(name, database)
    except FileExistsError:
        pass
    finally:
        os.unlink(name)


def read_products():
    database = HERE / "inventory.db"
    try:
        if not database.exists():
            create(database)
        connection = sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)
        try:
            connection.row_factory = sqlite3.Row
            return connection.execute("SELECT * FROM sellable ORDER BY sku").fetchall()
        finally:
            connection.close()
    except (OSError, sqlite3.Error) as error:
        raise Failure(f"inventory.db cannot be used: {error}") from None


def tokens(text):
    """Words and numbers of Latin scripts, single characters of Chinese; full-width forms become plain ones."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return re.findall(r"[^\W_\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+|[^\W_]", plain)


def alike(asked, named):
    """How far one token is another: 1 for the same, and for a plural or the beginning of a word."""
    if asked == named or (len(asked) >= 3 and named.startswith(asked)):
        return 1.0
    if len(named) >= 4 and asked in (f"{named}s", f"{named}es"):
        return 1.0
    likeness = SequenceMatcher(None, asked, named).ratio() if min(len(asked), len(named)) >= 4 else 0.0
    return likeness if likeness >= 0.8 else 0.0


def in_order(asked, name):
    """The weight of the best common subsequence: «无线键盘» is in «无线机械键盘»."""
    row = [0.0] * (len(name) + 1)
    for token in asked:
        before = row
        row = [0.0]
        for index, other in enumerate(name):
            row.append(max(before[index + 1], row[index], before[index] + alike(token, other)))
    return row[-1]


def score(asked, name):
    """The share of the keyword found in the name: in its order, or else by its pairs (bigrams) in any order."""
    pairs = set(zip(asked, asked[1:]))
    shared = len(pairs & set(zip(name, name[1:]))) / len(pairs) if pairs else 0.0
    return max(in_order(asked, name) / len(asked), shared)


def scored(asked, products):
    if not asked:
        return []
    rated = [(max(score(asked, tokens(row["name_zh"])), score(asked, tokens(row["name_en"]))), row) for row in products]
    return sorted((pair for pair in rated if pair[0] >= SCORE_MIN), key=lambda pair: -pair[0])


class Voice:
    """Results in the language of the keyword."""

    def __init__(self, keyword):
        self.keyword = keyword
        self.is_chinese = any("\u4e00" <= char <= "\u9fff" for char in keyword)

    def say(self, chinese, english):
        return chinese if self.is_chinese else english

    def one(self, row):
        name, alias = self.say((row["name_zh"], row["name_en"]), (row["name_en"], row["name_zh"]))
        unit = self.say(row["unit_zh"], row["unit_en"])
        known = {"success": True, "sku": row["sku"], "name": name, "alias": alias}
        return {**known, "available": row["available"], "unit": unit}

    def several(self, rows, before=""):
        matches = [{"sku": row["sku"], "name": self.say(row["name_zh"], row["name_en"])} for row in rows[:MATCHES_MAX]]
        note = before + self.say("请确认是哪一个商品，再用其 SKU 查询", "confirm which one is meant, then query by its SKU")
        if len(rows) > MATCHES_MAX:
            of = (MATCHES_MAX, len(rows))
            note += self.say("（已显示前 %d 个，共 %d 个）" % of, " (shown %d of %d)" % of)
        return {"success": True, "matches": matches, "note": note}

    def close(self, rows):
        return self.several(rows, self.say("没有完全匹配的商品，以下最接近；", "nothing matches exactly, these come closest: "))

    def no_sku(self, meant):
        message = self.say(f"SKU「{self.keyword}」不存在", f"there is no SKU `{self.keyword}`")
        if meant:
            suggestion = self.say(
                f"疑似把数字写成了字母，请改用 {meant} 重新查询",
                f"a letter seems to stand for a digit (O for 0, I or l for 1): query {meant} instead",
            )
        else:
            suggestion = self.say("请改用商品名称查询正确的 SKU", "query by the product's name to find the right SKU")
        return {"success": False, "error_code": "SKU_NOT_FOUND", "message": message, "suggestion": suggestion}

    def nothing(self):
        message = self.say(f"没有找到与「{self.keyword}」匹配的商品", f"no product matches `{self.keyword}`")
        suggestion = self.say(
            "请换用更短的商品名称（如「键盘」）重试，或向用户确认商品名称或 SKU",
            "try a shorter product name such as `keyboard`, or ask the user for the name or SKU",
        )
        return {"success": False, "error_code": "NOT_FOUND", "message": message, "suggestion": suggestion}


def answer(keyword, products):
    voice = Voice(keyword)
    by_sku = {row["sku"]: row for row in products}
    asked = tokens(keyword)
    # "A 103" and "a-103" are written as one.
    whole = "".join(asked).upper()
    named = [by_sku[whole]] if whole in by_sku else [row for row in products if row["sku"].lower() in asked]
    rated = scored(asked, products)
    found = named or [row for rate, row in rated if rate >= 1.0]
    if found:
        return voice.one(found[0]) if len(found) == 1 else voice.several(found)
    if SKU_LIKE.fullmatch(whole):
        meant = whole[0] + whole[1:].translate(LOOKALIKES)
        if meant in by_sku:
            return voice.no_sku(meant)
        # A word such as "coil" has no digit.
        if not whole.isalpha():
            return voice.no_sku(None)
    return voice.close([row for _, row in rated]) if rated else voice.nothing()


def main():
    try:
        result = answer(read_keyword(sys.stdin.buffer.read()), read_products())
    except Failure as failure:
        sys.stderr.buffer.write(f"{failure}\n".encode("utf-8", "backslashreplace"))
        return 1
    text = json.dumps(result, ensure_ascii=False, separators=(",", ":"))
    # Bytes, so that the answer is UTF-8 in every locale.
    sys.stdout.buffer.write(f"{text}\n".encode("utf-8", "backslashreplace"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
