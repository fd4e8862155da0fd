#!/usr/bin/env python3
"""tools/sanitize_gpu, with a compute-sanitizer that only says how it was called."""
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FAKE = """#!/usr/bin/env bash
echo "$ADRET_TEST_DEVICE $ADRET_CUDA_POOL $*"
[ "$2" != racecheck ]
"""


class SanitizeGpu(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.program = self.make("tests/test_kernels", "")

    def make(self, name, text):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    def sanitize(self, *arguments):
        environment = os.environ | {"BUILD": str(self.folder),
                                    "PATH": f"{self.folder}/bin:{os.environ['PATH']}"}
        return subprocess.run([ROOT / "tools/sanitize_gpu", *arguments], env=environment,
                              capture_output=True, text=True, check=False, timeout=60)

    def test_runs_the_tools_on_the_gpu_without_a_pool(self):
        self.make("bin/compute-sanitizer", FAKE)
        done = self.sanitize("memcheck", "initcheck", "--", "--gtest_filter=A")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines(), [
            line for tool in ("memcheck", "initcheck") for line in
            (f"== {tool}", f"cuda off --tool {tool} --error-exitcode 9 {self.program} --gtest_brief=1 "
                           "--gtest_filter=A")])

    def test_fails_after_all_tools_when_one_finds_something(self):
        self.make("bin/compute-sanitizer", FAKE)
        done = self.sanitize()
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout.count("== "), 3)

    def test_says_what_is_missing(self):
        self.assertIn("unknown tool --fast", self.sanitize("--fast").stderr)
        self.program.unlink()
        done = self.sanitize()
        self.assertEqual(done.returncode, 1)
        self.assertIn("test_kernels is not there", done.stderr)


if __name__ == "__main__":
    unittest.main()
