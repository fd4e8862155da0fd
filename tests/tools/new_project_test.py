#!/usr/bin/env python3
"""tools/new_project: what it writes and what it refuses. The test install.consumer builds what it wrote."""
import subprocess
import tempfile
import unittest
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[2] / "tools"


class NewProject(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def make(self, *arguments, script=TOOLS / "new_project"):
        return subprocess.run([script, *arguments], cwd=self.folder, capture_output=True, text=True)

    def assert_refused(self, words, *arguments):
        done = self.make(*arguments)
        self.assertEqual(done.returncode, 1)
        self.assertIn(words, done.stderr)
        self.assertEqual(done.stdout, "")

    def test_writes_the_template_under_the_projects_name(self):
        done = self.make("deep/my-layers/")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        project = self.folder / "deep/my-layers"
        self.assertEqual({p.name for p in project.iterdir()}, {p.name for p in (TOOLS / "template").iterdir()})
        self.assertIn("project(my-layers LANGUAGES CXX)", (project / "CMakeLists.txt").read_text())
        for path in project.iterdir():
            self.assertNotIn("new_project", path.read_text(), path.name)
        self.assertIn("cmake -B build -DCMAKE_PREFIX_PATH=PREFIX", done.stdout)

    def test_takes_an_empty_folder(self):
        (self.folder / "layers").mkdir()
        self.assertEqual(self.make("layers").returncode, 0)

    def test_an_installed_one_knows_where_it_is(self):
        bin, share = self.folder / "prefix/bin", self.folder / "prefix/share/adret"
        bin.mkdir(parents=True), share.mkdir(parents=True)
        script = bin / "adret-new-project"
        script.write_bytes((TOOLS / "new_project").read_bytes())
        script.chmod(0o755)
        done = self.make("layers", script=script)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"no template in {share}/template; install Adret anew", done.stderr)
        (share / "template").symlink_to(TOOLS / "template")
        done = self.make("layers", script=script)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn(f"-DCMAKE_PREFIX_PATH={self.folder}/prefix\n", done.stdout)

    def test_refuses_folders_with_something_in_them_and_files(self):
        (self.folder / "full").mkdir()
        (self.folder / "full/.hidden").touch()
        (self.folder / "file").touch()
        for name in ("full", "file"):
            self.assert_refused(f"{name} is there already; name a new folder, or an empty one", name)

    def test_refuses_names_that_are_none(self):
        for name in ("9lives", "two words", "dots.too", "-x", "under/café"):
            self.assert_refused("cannot name a project", name)
            self.assertFalse((self.folder / name).exists())

    def test_wants_one_folder(self):
        for arguments in ((), ("",), ("a", "b")):
            self.assert_refused("wants one folder to make", *arguments)
        done = self.make("--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("new_project DIR", done.stdout)


if __name__ == "__main__":
    unittest.main()
