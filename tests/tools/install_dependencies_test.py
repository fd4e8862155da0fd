#!/usr/bin/env python3
"""tools/install_dependencies, with stand-ins for the system's commands."""
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "tools/install_dependencies"


class InstallDependencies(unittest.TestCase):
    """A path with only what a test puts there, and a table of two made-up dependencies."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.bin, self.log = self.folder / "bin", self.folder / "log"
        self.bin.mkdir()
        for name in ("bash", "env", "sed", "sort"):
            (self.bin / name).symlink_to(shutil.which(name))
        text = SCRIPT.read_text()
        start = text.index("readonly table='") + len("readonly table='")
        self.script = self.folder / "install_dependencies"
        self.script.write_text(text[:start] + """
build | CMake       | cmake 3.25          | cmake
build | a compiler  | command compiler    | compiler-package
build | a library   | header library/it.h | library-dev
test  | another one | command other       | other-package
""" + text[text.index("'", start):])
        self.script.chmod(0o755)
        self.command("cmake", "echo 'cmake version 3.28.3'")
        self.command("id", "echo 0")

    def command(self, name, body="exit 0"):
        (self.bin / name).write_text(f"#!/bin/sh\n{body}\n")
        (self.bin / name).chmod(0o755)

    def apt_get(self):
        """Records its calls; installing the compiler's package brings the compiler."""
        self.command("apt-get", f'echo "$@" >>{self.log}; [ "$1" = update ] || echo >{self.bin}/compiler')

    def run_script(self, *arguments):
        return subprocess.run([self.script, *arguments], capture_output=True, text=True, check=False,
                              env={"PATH": str(self.bin), "CMAKE_PREFIX_PATH": f"/a;{self.folder}/prefix"})

    def add_library(self):
        (self.folder / "prefix/include/library").mkdir(parents=True)
        (self.folder / "prefix/include/library/it.h").touch()

    def calls(self):
        return self.log.read_text().splitlines() if self.log.exists() else []

    def test_does_nothing_when_all_is_there(self):
        self.apt_get()
        self.command("compiler")
        self.add_library()
        result = self.run_script()
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
        self.assertEqual(self.calls(), [])

    def test_installs_only_what_the_groups_lack(self):
        self.apt_get()
        self.add_library()
        result = self.run_script("build")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([c.split()[0] for c in self.calls()], ["update", "install"])
        self.assertTrue(self.calls()[1].endswith(" compiler-package"), self.calls())

    def test_check_names_what_is_missing_and_installs_nothing(self):
        self.apt_get()
        result = self.run_script("--check", "all")
        self.assertEqual(result.returncode, 1)
        self.assertIn("- a compiler\n  - a library\n  - another one\n", result.stderr)
        self.assertIn("apt-get install compiler-package library-dev other-package", result.stderr)
        self.assertEqual(self.calls(), [])

    def test_takes_sudo_unless_root(self):
        self.apt_get()
        self.command("id", "echo 1000")
        result = self.run_script()
        self.assertEqual(result.returncode, 1)
        self.assertIn("neither root nor sudo", result.stderr)
        self.command("sudo", f'echo "sudo $1" >>{self.log}; exec "$@"')
        self.assertEqual(self.run_script().returncode, 0)
        self.assertIn("sudo apt-get", self.calls())

    def test_says_what_to_install_on_other_systems(self):
        result = self.run_script()
        self.assertEqual(result.returncode, 1)
        self.assertIn("- a library", result.stderr)
        self.assertIn("install them with its own package manager", result.stderr)

    def test_an_old_cmake_is_not_enough(self):
        self.command("compiler")
        self.add_library()
        self.command("cmake", "echo 'cmake version 3.22.1'")
        self.assertIn("- CMake", self.run_script("--check").stderr)
        self.apt_get()
        result = self.run_script()
        self.assertEqual(result.returncode, 1)
        self.assertIn("older than 3.25", result.stderr)

    def test_refuses_unknown_groups(self):
        result = self.run_script("tests")
        self.assertEqual(result.returncode, 1)
        self.assertIn("unknown group or option: tests", result.stderr)


if __name__ == "__main__":
    unittest.main()
