#!/usr/bin/env python3
"""tools/fetch_mnist: where it looks, what it downloads and checks, against a server on loopback."""
import functools
import gzip
import hashlib
import http.server
import os
import shutil
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAMES = ["train-images-idx3-ubyte", "train-labels-idx1-ubyte",
         "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"]
CONTENT = {name: (name * 500).encode() for name in NAMES}


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


class HangingUpHandler(QuietHandler):
    """Announces more bytes than it sends."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"x" * 10)
        self.close_connection = True


class FetchMnist(unittest.TestCase):
    """Each test has a checkout of its own whose checksums are those of small made-up files."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.checkout = self.folder / "checkout"
        (self.checkout / "tools").mkdir(parents=True)
        for name in ("fetch_mnist", "download.sh"):
            shutil.copy(ROOT / "tools" / name, self.checkout / "tools")
        (self.checkout / "tools/mnist.sha256").write_text(
            "".join(f"{hashlib.sha256(CONTENT[n]).hexdigest()}  {n}\n" for n in NAMES))

    def put(self, folder, names=NAMES, zipped=True):
        """Writes the four files into a folder, under the given names."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in zip(names, CONTENT.values()):
            if zipped:
                (folder / f"{name}.gz").write_bytes(gzip.compress(content))
            else:
                (folder / name).write_bytes(content)
        return folder

    def mirror(self, folder, handler=QuietHandler):
        """Serves a folder; returns its address."""
        handler = functools.partial(handler, directory=folder)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"http://127.0.0.1:{server.server_port}"

    def dead_mirror(self):
        """The address of a server that is gone."""
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), QuietHandler)
        server.server_close()
        return f"http://127.0.0.1:{server.server_port}"

    def fetch(self, *arguments, **variables):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("ADRET_")}
        result = subprocess.run([self.checkout / "tools/fetch_mnist", *arguments],
                                env=environment | {"no_proxy": "127.0.0.1"} | variables,
                                capture_output=True, text=True, timeout=60)
        self.assertNotIn("Traceback", result.stderr)
        return result

    def assert_found(self, result, folder):
        self.assertEqual((result.returncode, result.stdout), (0, f"{folder}\n"), result.stderr)

    def assert_failed(self, result, message):
        self.assertEqual((result.returncode, result.stdout), (1, ""), result.stderr)
        self.assertIn(message, result.stderr)

    def assert_nothing_left(self):
        self.assertEqual(list((self.checkout / "datasets").rglob("*")), [])

    def test_finds_every_layout_and_spelling(self):
        dotted = [n.replace("-idx", ".idx") for n in NAMES]
        for number, (subfolder, names, zipped) in enumerate(
                [("", NAMES, True), ("mnist", NAMES, False), ("mnist", dotted, True), ("", dotted, False)]):
            folder = self.folder / str(number)
            files = self.put(folder / subfolder, names, zipped)
            self.assert_found(self.fetch("--data", str(folder)), files)

    def test_prefers_the_option_to_the_variable_to_the_checkout(self):
        option, variable = self.put(self.folder / "option"), self.put(self.folder / "variable")
        datasets = self.put(self.checkout / "datasets/mnist")
        self.assert_found(self.fetch("--data", str(option), ADRET_DATA=str(variable)), option)
        self.assert_found(self.fetch(ADRET_DATA=str(variable)), variable)
        self.assert_found(self.fetch(), datasets)

    def test_refuses_a_named_folder_without_the_data(self):
        folder = self.put(self.folder / "partial")
        (folder / f"{NAMES[2]}.gz").unlink()
        self.assert_failed(self.fetch("--data", str(folder)), f"it lacks {NAMES[2]}")
        self.assert_failed(self.fetch("--data", "/nowhere"), "there is no folder /nowhere")

    def test_looks_further_when_the_variable_names_other_data(self):
        datasets = self.put(self.checkout / "datasets/mnist")
        result = self.fetch(ADRET_DATA=str(self.folder))
        self.assert_found(result, datasets)
        self.assertIn(f"no MNIST in ADRET_DATA={self.folder}", result.stderr)

    def test_downloads_once(self):
        served = self.put(self.folder / "served")
        mirror = self.mirror(served)
        target = self.checkout / "datasets/mnist"
        self.assert_found(self.fetch(ADRET_MNIST_MIRROR=mirror), target)
        self.assertEqual(sorted(p.name for p in target.iterdir()), sorted(f"{n}.gz" for n in NAMES))
        self.assertEqual(gzip.decompress((target / f"{NAMES[0]}.gz").read_bytes()), CONTENT[NAMES[0]])
        self.assert_found(self.fetch(ADRET_MNIST_MIRROR=self.dead_mirror()), target)

    def test_takes_the_next_mirror_when_one_is_down_or_damaged(self):
        damaged = self.put(self.folder / "damaged")
        (damaged / f"{NAMES[0]}.gz").write_bytes(gzip.compress(b"something else"))
        good = self.put(self.folder / "good")
        for first in (self.dead_mirror(), self.mirror(damaged)):
            result = self.fetch(ADRET_MNIST_MIRROR=f"{first} {self.mirror(good)}/")
            self.assert_found(result, self.checkout / "datasets/mnist")
            shutil.rmtree(self.checkout / "datasets")

    def test_rejects_a_wrong_checksum_and_leaves_nothing(self):
        served = self.put(self.folder / "served")
        (served / f"{NAMES[0]}.gz").write_bytes(gzip.compress(CONTENT[NAMES[0]][:-1] + b"?"))
        self.assert_failed(self.fetch(ADRET_MNIST_MIRROR=self.mirror(served)), "its checksum is not the one")
        self.assert_nothing_left()

    def test_rejects_a_file_cut_short_and_leaves_nothing(self):
        served = self.put(self.folder / "served")
        path = served / f"{NAMES[0]}.gz"
        path.write_bytes(path.read_bytes()[:-9])
        self.assert_failed(self.fetch(ADRET_MNIST_MIRROR=self.mirror(served)), "it is cut short")
        self.assert_nothing_left()

    def test_drops_a_transfer_that_breaks_off(self):
        mirror = self.mirror(self.folder, HangingUpHandler)
        result = self.fetch("--mnist-only", ADRET_MNIST_MIRROR=mirror)
        self.assert_failed(result, "could not download")
        self.assert_nothing_left()

    def test_rejects_a_page_in_place_of_a_file(self):
        served = self.put(self.folder / "served")
        (served / f"{NAMES[0]}.gz").write_text("<html>please log in</html>")
        self.assert_failed(self.fetch(ADRET_MNIST_MIRROR=self.mirror(served)), "rejected")
        self.assert_nothing_left()

    def test_says_what_to_do_without_a_mirror(self):
        result = self.fetch("--mnist-only", ADRET_MNIST_MIRROR=self.dead_mirror())
        self.assert_failed(result, "give their folder with --data, or set ADRET_MNIST_MIRROR")
        self.assert_nothing_left()

    def test_falls_back_to_fashion_mnist_and_says_so(self):
        fashion = self.folder / "fashion-mnist"
        script = self.checkout / "tools/fetch_mnist"
        script.write_text(script.read_text().replace("/usr/share/datasets/fashion-mnist", str(fashion)))
        installer = self.checkout / "tools/install_dependencies"
        # Stands for apt-get: it brings the package's files.
        self.put(self.folder / "package")
        installer.write_text(f'#!/bin/sh\n[ "$1" = fashion-mnist ] && mv "{self.folder}/package" "{fashion}"\n')
        installer.chmod(0o755)
        result = self.fetch(ADRET_MNIST_MIRROR=self.dead_mirror())
        self.assert_found(result, fashion)
        self.assertIn("using Fashion-MNIST instead", result.stderr)

    def test_fails_when_the_package_cannot_be_had_either(self):
        script = self.checkout / "tools/fetch_mnist"
        script.write_text(script.read_text().replace("/usr/share/datasets", str(self.folder)))
        installer = self.checkout / "tools/install_dependencies"
        installer.write_text("#!/bin/sh\nexit 1\n")
        installer.chmod(0o755)
        self.assert_failed(self.fetch(ADRET_MNIST_MIRROR=self.dead_mirror()), "on another machine")

    def test_refuses_unknown_arguments(self):
        result = self.fetch("--dat", "x")
        self.assertEqual(result.returncode, 1)
        self.assertIn("unknown argument: --dat", result.stderr)

    def test_knows_the_checksums_of_the_real_files(self):
        data = Path(os.environ.get("ADRET_DATA", "")) / "mnist"
        if not (data / f"{NAMES[0]}.gz").exists():
            self.skipTest("ADRET_DATA holds no gzipped MNIST in mnist/")
        shutil.copy(ROOT / "tools/mnist.sha256", self.checkout / "tools")
        result = self.fetch("--mnist-only", ADRET_MNIST_MIRROR=self.mirror(data))
        self.assert_found(result, self.checkout / "datasets/mnist")


if __name__ == "__main__":
    unittest.main()
