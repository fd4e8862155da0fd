#!/usr/bin/env python3
"""bench/compare_decode, with stand-ins for both sides."""
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "bench/compare_decode"


class CompareDecode(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.log = self.folder / "log"

    def side(self, name, rate):
        """A program that logs its name and claims this rate, by processor time twice as much."""
        path = self.folder / name
        path.write_text(f"""#!/bin/sh
echo {name} >>{self.log}
echo '{{"items_per_s": {rate}, "items_per_processor_s": {2 * rate}}}'
""")
        path.chmod(0o755)
        return path

    def compare(self, ours, peer, *options):
        return subprocess.run([SCRIPT, "images", f"--ours={ours}", *options], capture_output=True, text=True,
                              check=False, env=os.environ | {"PYTHON": str(peer)})

    def test_prints_rates_of_a_thread_and_their_ratio(self):
        result = self.compare(self.side("ours", 6000), self.side("peer", 2000), "--pairs=3", "--threads=2")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("| images/s | 3,000 | 1,000 | 3.00 | 3.00 - 3.00 |", result.stdout)
        self.assertIn("| images per second of processor time | 12,000 | 4,000 | 3.00 |", result.stdout)
        self.assertEqual(self.log.read_text().split(), ["ours", "peer", "peer", "ours", "ours", "peer"])

    def test_fails_with_a_side_that_fails(self):
        result = self.compare("/bin/false", self.side("peer", 1))
        self.assertEqual(result.returncode, 1)
        self.assertIn("compare_decode: /bin/false failed (1)", result.stderr)


if __name__ == "__main__":
    unittest.main()
