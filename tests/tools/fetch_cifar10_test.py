#!/usr/bin/env python3
"""tools/fetch_cifar10: where it looks, what it downloads and checks, against a server on loopback."""
import functools
import hashlib
import http.server
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
import threading
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAMES = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]
ARCHIVE, FOLDER = "cifar-10-binary.tar.gz", "cifar-10-batches-bin"
MD5 = "c32a1d4ab5d03f1284b67883e8d87530"  # as the authors' page has it


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


def archive(names):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        for name in names:
            member = tarfile.TarInfo(f"{FOLDER}/{name}")
            member.size = len(name)
            tar.addfile(member, io.BytesIO(name.encode()))
    return file.getvalue()


class FetchCifar10(unittest.TestCase):
    """Each test has a checkout of its own, and an archive of six small files."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.checkout = self.folder / "checkout"
        (self.checkout / "tools").mkdir(parents=True)
        for name in ("fetch_cifar10", "download.sh"):
            shutil.copy(ROOT / "tools" / name, self.checkout / "tools")
        self.archive = archive(NAMES)
        script = self.checkout / "tools/fetch_cifar10"
        script.write_text(script.read_text().replace(MD5, hashlib.md5(self.archive).hexdigest()))
        self.target = self.checkout / "datasets" / FOLDER

    def put(self, folder, names=NAMES):
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            (folder / name).write_text(name)
        return folder

    def serve(self, name, content):
        """A mirror with this archive; its address."""
        folder = self.folder / name
        folder.mkdir()
        (folder / ARCHIVE).write_bytes(content)
        server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), functools.partial(QuietHandler, directory=folder))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"http://127.0.0.1:{server.server_port}"

    def dead_mirror(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), QuietHandler)
        server.server_close()
        return f"http://127.0.0.1:{server.server_port}"

    def fetch(self, *arguments, **variables):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("ADRET_")}
        return subprocess.run([self.checkout / "tools/fetch_cifar10", *arguments], check=False,
                              env=environment | {"no_proxy": "127.0.0.1"} | variables, capture_output=True, text=True, timeout=60)

    def assert_found(self, result, folder):
        self.assertEqual((result.returncode, result.stdout), (0, f"{folder}\n"), result.stderr)

    def assert_failed(self, result, message):
        self.assertEqual((result.returncode, result.stdout), (1, ""), result.stderr)
        self.assertIn(message, result.stderr)

    def assert_nothing_left(self):
        self.assertEqual(list((self.checkout / "datasets").rglob("*")), [])

    def test_finds_every_layout(self):
        for number, subfolder in enumerate(["", "cifar-10-batches-bin", "cifar-10", "cifar10"]):
            folder = self.folder / str(number)
            files = self.put(folder / subfolder)
            self.assert_found(self.fetch("--data", str(folder)), files)

    def test_prefers_the_option_to_the_variable_to_the_checkout(self):
        option, variable = self.put(self.folder / "option"), self.put(self.folder / "variable")
        self.put(self.target)
        self.assert_found(self.fetch(f"--data={option}", ADRET_DATA=str(variable)), option)
        self.assert_found(self.fetch(ADRET_DATA=str(variable)), variable)
        self.assert_found(self.fetch(), self.target)
        result = self.fetch(ADRET_DATA=str(self.folder / "checkout/tools"))
        self.assert_found(result, self.target)
        self.assertIn("no CIFAR-10 in ADRET_DATA=", result.stderr)

    def test_refuses_a_named_folder_without_the_data(self):
        folder = self.put(self.folder / "partial", NAMES[:3])
        self.assert_failed(self.fetch("--data", str(folder)), f"it lacks {NAMES[3]}")
        (folder / ARCHIVE).write_bytes(self.archive)
        self.assert_failed(self.fetch("--data", str(folder)), f"but {ARCHIVE}: unpack that")
        self.assert_failed(self.fetch("--data", "/nowhere"), "there is no folder /nowhere")

    def test_downloads_once(self):
        mirror = self.serve("good", self.archive)
        self.assert_found(self.fetch(ADRET_CIFAR10_MIRROR=mirror), self.target)
        self.assertEqual(sorted(p.name for p in self.target.iterdir()), NAMES)
        self.assertEqual([p.name for p in self.target.parent.iterdir()], [FOLDER])
        self.assert_found(self.fetch(ADRET_CIFAR10_MIRROR=self.dead_mirror()), self.target)

    def test_completes_a_folder_that_lacks_files(self):
        self.put(self.target, NAMES[:2])
        self.assert_found(self.fetch(ADRET_CIFAR10_MIRROR=self.serve("good", self.archive)), self.target)

    def test_takes_the_next_mirror_when_one_is_down_or_damaged(self):
        damaged = self.serve("damaged", self.archive[:-1] + b"?")
        good = self.serve("good", self.archive)
        for first in (self.dead_mirror(), damaged):
            self.assert_found(self.fetch(ADRET_CIFAR10_MIRROR=f"{first} {good}/"), self.target)
            shutil.rmtree(self.target.parent)

    def test_rejects_a_wrong_checksum_and_leaves_nothing(self):
        for name, content in (("cut", self.archive[:-9]), ("page", b"<html>please log in</html>")):
            result = self.fetch(ADRET_CIFAR10_MIRROR=self.serve(name, content))
            self.assert_failed(result, "its MD5 is not the published")
            self.assert_nothing_left()

    def test_says_what_to_do_without_a_mirror(self):
        result = self.fetch(ADRET_CIFAR10_MIRROR=self.dead_mirror())
        self.assert_failed(result, "or set ADRET_CIFAR10_MIRROR")
        self.assert_nothing_left()

    def test_refuses_unknown_arguments(self):
        self.assert_failed(self.fetch("--dat", "x"), "unknown argument: --dat")


if __name__ == "__main__":
    unittest.main()
