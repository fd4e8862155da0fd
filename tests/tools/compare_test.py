#!/usr/bin/env python3
"""bench/compare, run against programs that print made-up figures."""
import stat
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Prints the next figure of its list at every call, as a measuring program does.
FAKE = """#!/usr/bin/env python3
import json, pathlib, sys
case = sys.argv[1]
log = pathlib.Path(__file__).with_name("calls")
log.write_text((log.read_text() if log.exists() else "") + pathlib.Path(__file__).name + " " + " ".join(sys.argv[1:]) + "\\n")
count = sum(line.split()[:2] == [pathlib.Path(__file__).name, case] for line in log.read_text().splitlines())
print("a line that is no result")
print(json.dumps({"items_per_s": FIGURES[case][count - 1]}))
"""


class Compare(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def program(self, name, text):
        path = self.folder / name
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    def compare(self, ours, peer, *arguments):
        return subprocess.run(
            [ROOT / "bench/compare", "--ours", ours, "--peer", peer, "--threads", "1", *arguments],
            capture_output=True, text=True, check=False, timeout=60)

    def test_takes_the_peers_better_mode_and_the_median_of_the_pairs(self):
        ours = self.program("ours", FAKE.replace("FIGURES", '{"lenet:64:fp32:eager": [200, 300, 130]}'))
        peer = self.program("peer", FAKE.replace(
            "FIGURES", '{"lenet:64:fp32:eager": [50, 50, 400], "lenet:64:fp32:nhwc": [100, 100, 100]}'))
        result = self.compare(ours, peer, "lenet:64:fp32", "--pairs", "3", "--seconds", "1")
        self.assertEqual(result.returncode, 0, result.stderr)
        # Medians: nhwc 100 beats eager 50; the ratios are 2, 3 and 1.3.
        self.assertIn("| lenet:64:fp32 | 200 | 100 (nhwc) | 2.00 | 1.30 - 3.00 |", result.stdout)
        self.assertIn("bench/compare --ours", result.stdout)
        calls = (self.folder / "calls").read_text().splitlines()
        self.assertEqual([c.split()[0] for c in calls], ["ours", "peer", "peer", "peer", "peer", "ours"] + ["ours", "peer", "peer"])
        self.assertEqual(calls[0], "ours lenet:64:fp32:eager --seconds 1.0 --threads 1 --device cpu")

    def test_compares_on_a_gpu_in_the_modes_asked_for(self):
        ours = self.program("ours", FAKE.replace("FIGURES", '{"lenet:64:tf32:eager": [400]}'))
        peer = self.program("peer", FAKE.replace("FIGURES", '{"lenet:64:tf32:eager": [100]}'))
        result = self.compare(ours, peer, "lenet:64:tf32", "--pairs", "1", "--seconds", "1", "--device", "cuda")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("| lenet:64:tf32 | 400 | 100 (eager) | 4.00 |", result.stdout)
        calls = (self.folder / "calls").read_text().splitlines()
        self.assertEqual(calls[1], "peer lenet:64:tf32:eager --seconds 1.0 --threads 1 --device cuda")

    def test_quotes_the_error_of_a_case_that_failed(self):
        ours = self.program("ours", FAKE.replace("FIGURES", '{"mlp:64:tf32:eager": [1]}'))
        peer = self.program("peer", "#!/bin/sh\necho '{\"torch\": \"2\"}'\necho '{\"case\": \"x\", \"error\": \"no GPU\"}'\n")
        result = self.compare(ours, peer, "mlp:64:tf32", "--device", "cuda")
        self.assertEqual(result.returncode, 1)
        self.assertIn("no GPU", result.stderr)

    def test_a_failing_side_is_an_error_with_its_message(self):
        bad = self.program("bad", "#!/bin/sh\necho 'no such workload' >&2\nexit 1\n")
        result = self.compare(bad, bad, "mlp:64:fp32")
        self.assertEqual(result.returncode, 1)
        self.assertIn("no such workload", result.stderr)
        self.assertEqual(result.stdout, "")

    def test_refuses_a_case_with_a_mode_and_a_missing_program(self):
        result = self.compare("/bin/true", "/bin/true", "mlp:64:fp32:eager")
        self.assertEqual(result.returncode, 2)
        self.assertIn("wants workload:batch:precision", result.stderr)
        self.assertIn("there is no program /nowhere", self.compare("/nowhere", "/bin/true", "mlp:64:fp32").stderr)


if __name__ == "__main__":
    unittest.main()
