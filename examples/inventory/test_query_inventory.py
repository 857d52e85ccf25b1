"""Tests of query_inventory.py, run as Tollgate runs it: `python3 -m unittest` in this folder."""

import ctypes
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent

PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1


def obey_permissions():
    """Takes from root what lets it write everywhere, so that the test means the same for everybody (Linux)."""
    if os.geteuid() == 0 and ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0) != 0:
        raise OSError("cannot drop CAP_DAC_OVERRIDE")


class Shop(unittest.TestCase):
    """A copy of the shop, without its database."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="shop-"))
        self.addCleanup(shutil.rmtree, self.folder)
        for name in ("query_inventory.py", "inventory.sql"):
            shutil.copy(HERE / name, self.folder)

    def start(self, **options):
        command = [sys.executable, "-B", str(self.folder / "query_inventory.py")]
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        # The answer must be UTF-8 also where the locale is not.
        environment = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "PYTHONUTF8": "0"}
        return subprocess.Popen(command, cwd="/", env=environment, **pipes, **options)

    def run_raw(self, data, **options):
        program = self.start(**options)
        out, err = program.communicate(data, timeout=30)
        return program.returncode, out, err.decode("utf-8")

    def query(self, keyword, **options):
        status, out, err = self.run_raw(json.dumps({"keyword": keyword}).encode(), **options)
        self.assertEqual((status, err), (0, ""), keyword)
        return json.loads(out.decode("utf-8"))


class Answers(Shop):
    def test_exact_sku_in_every_spelling(self):
        for keyword in ("A103", "a103", "Ａ１０３", " A103 ", "A-103", "a 103", "SKU: A103"):
            result = self.query(keyword)
            self.assertTrue(result["success"], keyword)
            self.assertEqual((result["sku"], result["available"]), ("A103", 37), keyword)
        self.assertEqual(self.query("B208")["available"], 0)
        self.assertEqual(self.query("F603")["available"], 0)

    def test_a_clear_name_answers_at_once(self):
        cases = {
            "无线键盘": "A103",
            "无线机械键盘": "A103",
            "wireless keyboard": "A103",
            "Wireless Mechanical Keyboards": "A103",
            "有线键盘": "A101",
            "蓝牙鼠标": "B208",
            "27寸显示器": "C301",
            "ＵＳＢ－Ｃ 扩展坞": "D401",
            "webcam": "F601",
        }
        for keyword, sku in cases.items():
            self.assertEqual(self.query(keyword).get("sku"), sku, keyword)

    def test_several_are_listed_for_the_user_to_choose(self):
        cases = {
            "键盘": {"A101", "A103", "A105", "A107"},
            "mouse": {"B201", "B208", "B210"},
            "A103 和 B208": {"A103", "B208"},
            "键盘无线": {"A103"},
            "wireles keybord": {"A103"},
        }
        for keyword, skus in cases.items():
            result = self.query(keyword)
            self.assertTrue(result["success"], keyword)
            self.assertLessEqual(skus, {match["sku"] for match in result["matches"]}, keyword)
            self.assertTrue(result["note"], keyword)
            self.assertNotIn("available", result, keyword)

    def test_a_letter_for_a_digit_is_named(self):
        cases = {"A1O3": "A103", "a1o3": "A103", "AlO3": "A103", "AI03": "A103", "AIOI": "A101", "b2O8": "B208"}
        for keyword, meant in cases.items():
            result = self.query(keyword)
            self.assertEqual((result["success"], result["error_code"]), (False, "SKU_NOT_FOUND"), keyword)
            self.assertIn(meant, result["suggestion"], keyword)

    def test_what_is_not_there(self):
        cases = {"A999": "SKU_NOT_FOUND", "Z0OO": "SKU_NOT_FOUND"}
        nothing = ("toaster", "电饭煲", "coil", "🙂", "\ud800", "'; DROP TABLE product; --")
        cases.update(dict.fromkeys(nothing, "NOT_FOUND"))
        for keyword, code in cases.items():
            result = self.query(keyword)
            self.assertEqual((result["success"], result["error_code"]), (False, code), keyword)
            self.assertTrue(result["message"] and result["suggestion"], keyword)

    def test_the_answer_speaks_the_language_of_the_question(self):
        self.assertEqual(self.query("无线键盘")["unit"], "件")
        self.assertEqual(self.query("wireless keyboard")["name"], "Wireless Mechanical Keyboard")
        self.assertIn("没有找到", self.query("电饭煲")["message"])
        self.assertIn("no product", self.query("toaster")["message"])

    def test_what_is_reserved_is_never_shown(self):
        text = (HERE / "inventory.sql").read_text(encoding="utf-8")
        with sqlite3.connect(":memory:") as shop:
            shop.executescript(text)
            products = shop.execute("SELECT sku, name_zh, name_en FROM product").fetchall()
        keywords = [word for product in products for word in product] + ["键盘", "线", "A1O3", "toaster", "reserve"]
        for keyword in keywords:
            out = json.dumps(self.query(keyword), ensure_ascii=False)
            for secret in ("42", "reserved", "stock", "预扣", "预留", "库存"):
                self.assertNotIn(secret, out, keyword)


class Failures(Shop):
    def test_input_that_is_no_question(self):
        cases = [b"", b"{", b"[]", b"null", b"{}", b'{"keyword": 103}', b'{"keyword": " "}', b'\xff\xfe{"']
        cases += [b"[" * 200_000, json.dumps({"keyword": "x" * 101}).encode()]
        for data in cases:
            status, out, err = self.run_raw(data)
            self.assertEqual((status, out), (1, b""), data[:20])
            self.assertTrue(err.strip() and "Traceback" not in err, err)

    def test_a_database_that_is_none(self):
        (self.folder / "inventory.db").write_text("no database at all, but long enough to look like a file of one")
        status, out, err = self.run_raw(b'{"keyword": "A103"}')
        self.assertEqual((status, out), (1, b""))
        self.assertIn("inventory.db cannot be used", err)


class FirstStart(Shop):
    def test_many_at_once_make_one_database(self):
        programs = [self.start() for _ in range(8)]
        for program in programs:
            program.stdin.write(b'{"keyword": "A103"}')
        answers = [program.communicate(timeout=30) for program in programs]
        for program, (out, err) in zip(programs, answers):
            self.assertEqual((program.returncode, err), (0, b""))
            self.assertEqual(json.loads(out)["available"], 37)
        names = sorted(path.name for path in self.folder.iterdir())
        self.assertEqual(names, ["inventory.db", "inventory.sql", "query_inventory.py"])

    def test_what_the_shop_changed_stays(self):
        self.query("A103")
        with sqlite3.connect(self.folder / "inventory.db") as shop:
            shop.execute("UPDATE product SET reserved = 40 WHERE sku = 'A103'")
        self.assertEqual(self.query("A103")["available"], 2)

    def test_a_database_that_is_there_needs_no_write_access(self):
        self.query("A103")
        before = {path.name: path.stat().st_mtime_ns for path in self.folder.iterdir()}
        for path in self.folder.iterdir():
            path.chmod(0o444)
        self.folder.chmod(0o555)
        self.addCleanup(self.folder.chmod, 0o755)
        self.assertEqual(self.query("A103", preexec_fn=obey_permissions)["available"], 37)
        self.assertEqual({path.name: path.stat().st_mtime_ns for path in self.folder.iterdir()}, before)

    def test_a_folder_that_cannot_be_written_is_named(self):
        self.folder.chmod(0o555)
        self.addCleanup(self.folder.chmod, 0o755)
        status, out, err = self.run_raw(b'{"keyword": "A103"}', preexec_fn=obey_permissions)
        self.assertEqual((status, out), (1, b""))
        self.assertIn("inventory.db cannot be used", err)


if __name__ == "__main__":
    unittest.main()
