#!/usr/bin/env python3
"""The example programs as users run them: flags, output, exit status, files, repeatability.

examples_test.py FOLDER_OF_THE_PROGRAMS
"""
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "golden"))
import safetensors_file  # noqa: E402

PROGRAMS = Path(sys.argv.pop()).resolve()
LIBRARIES = PROGRAMS.parent  # of the same build
FAKE_PLUGINS = LIBRARIES / "tests/plugins"
FIELDS = ["epoch", "train_loss", "train_accuracy", "test_loss", "test_accuracy", "images_per_s",
          "seconds", "waiting", "skipped_steps"]


def write_idx(path, sizes, content):
    path.write_bytes(struct.pack(f">HBB{len(sizes)}I", 0, 8, len(sizes), *sizes) + content)


def write_set(folder, kind, count, seed):
    """Images whose label is the height of a white bar."""
    generator = random.Random(seed)
    labels = bytes(generator.randrange(10) for _ in range(count))
    images = b"".join(
        bytes(255 if 2 * label <= y - 3 < 2 * label + 3 else generator.randrange(40)
              for y in range(28) for _ in range(28)) for label in labels)
    write_idx(folder / f"{kind}-images-idx3-ubyte", (count, 28, 28), images)
    write_idx(folder / f"{kind}-labels-idx1-ubyte", (count,), labels)


def write_png(path, rows):
    """Gray, 8 bits (PNG, third edition)."""
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(
            ">I", zlib.crc32(kind + content))
    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + bytes(row) for row in rows))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) +
                     chunk(b"IEND", b""))


class Mnist(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.data = Path(holder.name)
        write_set(cls.data, "train", 600, 1)
        write_set(cls.data, "t10k", 100, 2)

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def run_program(self, *arguments, environment=None):
        """On the CPU, unless the environment has another library."""
        environment = {k: v for k, v in os.environ.items() if k != "ADRET_DATA"} | (environment or {})
        if "LD_PRELOAD" not in environment and "--device" not in arguments:
            arguments += ("--device", "cpu")
        return subprocess.run([PROGRAMS / "mnist", *map(str, arguments)], cwd=self.folder,
                              env=environment, capture_output=True, text=True, timeout=100)

    def with_plugin(self, name):
        """The library in a folder beside another CUDA backend, or beside none."""
        folder = self.folder.parent / (self.folder.name + "-" + (name or "none"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        folder.mkdir()
        for file in LIBRARIES.glob("libadret*.so*"):
            if file.name != "libadret_cuda.so":
                (folder / file.name).symlink_to(file)
        if name:
            (folder / "libadret_cuda.so").symlink_to(FAKE_PLUGINS / name / "libadret_cuda.so")
        return {"LD_PRELOAD": str(folder / "libadret.so.0")}

    def train(self, *arguments, epochs=2, environment=None):
        result = self.run_program("--data", self.data, "--epochs", epochs, "--save",
                                  "weights.safetensors", *arguments, environment=environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def assert_refused(self, message, *arguments, environment=None):
        """One error, status 1, nothing on standard output, no file."""
        before = sorted(self.folder.iterdir())
        result = self.run_program(*arguments, environment=environment)
        self.assertEqual((result.returncode, result.stdout), (1, ""), result.stderr)
        self.assertIn(message, result.stderr)
        self.assertLess(len(result.stderr), 400, result.stderr)
        self.assertEqual(sorted(self.folder.iterdir()), before)

    def test_ends_with_the_accuracy_and_the_place_of_the_weights(self):
        result = self.train()
        self.assertRegex(result.stdout, r"test accuracy \d+\.\d\d %\nweights in /.*safetensors\n$")
        self.assertTrue((self.folder / "weights.safetensors").exists())

    def test_json_is_all_there_is_on_standard_output(self):
        epochs = [json.loads(line) for line in self.train("--json").stdout.splitlines()]
        self.assertEqual([epoch["epoch"] for epoch in epochs], [1, 2])
        self.assertEqual([list(epoch) for epoch in epochs], [FIELDS] * 2)
        self.assertLess(epochs[1]["train_loss"], epochs[0]["train_loss"])

    def test_a_seed_gives_the_same_bits_for_any_number_of_threads_and_workers(self):
        for model in ("mlp", "lenet", "cnn"):
            files = set()
            for threads, workers in ((1, 0), (2, 1), (2, 3), (3, 0)):
                self.train("--model", model, "--seed", 7, "--threads", threads, "--workers",
                           workers)
                files.add((self.folder / "weights.safetensors").read_bytes())
            self.assertEqual(len(files), 1, model)
            self.train("--model", model, "--seed", 8)
            self.assertNotIn((self.folder / "weights.safetensors").read_bytes(), files)

    def test_predicts_what_an_image_shows(self):
        self.train("--model", "mlp", epochs=8)
        write_png(self.folder / "6.png",
                  [[255 if 12 <= y - 3 < 15 else 0] * 28 for y in range(28)])
        result = self.run_program("--predict", "6.png", "--weights", "weights.safetensors")
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = re.findall(r"^(\d)  ([01]\.\d{4})$", result.stdout, re.MULTILINE)
        self.assertEqual([int(digit) for digit, _ in lines], list(range(10)))
        probabilities = [float(probability) for _, probability in lines]
        self.assertAlmostEqual(sum(probabilities), 1, delta=1e-3)
        self.assertEqual(probabilities.index(max(probabilities)), 6)

    def test_refuses_flags_that_are_wrong(self):
        self.assert_refused("--bogus", "--bogus")
        self.assert_refused("extra", "extra")
        self.assert_refused("resnet not in {mlp,lenet,cnn}", "--model", "resnet")
        self.assert_refused("--epochs: 0 is no whole number in 1..", "--epochs", 0)
        self.assert_refused("--epochs: 99999999999999999999 is no whole", "--epochs", "9" * 20)
        self.assert_refused("--batch: -3 is no whole number in 1..", "--batch=-3")
        self.assert_refused("--workers: 2000000000 is no whole", "--workers", 2 * 10**9)
        self.assert_refused("--threads: 1.5 is no whole number in 1..", "--threads", 1.5)
        self.assert_refused("--lr: 0 is no number above 0", "--lr", 0)
        self.assert_refused("--lr: nan is no number above 0", "--lr", "nan")

    def test_trains_the_same_weights_on_a_second_device(self):
        plugin = self.with_plugin("working")
        for arguments in (("--model", "cnn"), ("--workers", 2), ("--tf32",)):
            self.train(*arguments, "--device", "cpu")
            on_cpu = (self.folder / "weights.safetensors").read_bytes()
            for device in ("cuda", "auto"):
                # Replays add up the products of a flattened image in another order.
                result = self.train(*arguments, "--device", device, "--mode", "eager",
                                    environment=plugin)
                self.assertIn("mnist: trains on cuda:0: a fake\n", result.stderr)
                self.assertEqual((self.folder / "weights.safetensors").read_bytes(), on_cpu)

    def test_says_why_auto_is_the_cpu(self):
        for plugin, reason in ((None, "libadret_cuda.so is not there"),
                               ("without_device", "[cuda] the fake finds no device"),
                               ("other_build", "belongs to another build of the library")):
            result = self.train("--json", epochs=1, environment=self.with_plugin(plugin))
            self.assertRegex(result.stderr, r"mnist: trains on the CPU: \[")
            self.assertIn(reason, result.stderr)
            self.assertEqual(len(result.stdout.splitlines()), 1)

    def test_refuses_a_device_that_cannot_be_used(self):
        for plugin, reason in ((None, "libadret_cuda.so is not there"),
                               ("without_device", "[cuda] the fake finds no device"),
                               ("other_build", "belongs to another build of the library")):
            self.assert_refused(reason, "--data", self.data, "--device", "cuda",
                                environment=self.with_plugin(plugin))
        self.assert_refused('unknown device "gpu"; use auto, cpu, cuda or cuda:N', "--data",
                            self.data, "--device", "gpu")

    def test_ends_with_an_error_when_the_device_is_out_of_memory(self):
        environment = self.with_plugin("working") | {"ADRET_FAKE_BYTES": str(5 << 20)}
        result = self.run_program("--data", self.data, "--model", "cnn", "--batch", 500,
                                  environment=environment)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"mnist: \[memory\] cuda:0 has no room for .* free, .* in "
                                        r"use, .*most is held by .*use a smaller batch or model")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_refuses_before_training_what_it_could_not_save(self):
        self.assert_refused("cannot write into", "--data", self.data, "--save", "gone/w")
        (self.folder / "taken").mkdir()
        self.assert_refused("taken is not a file", "--data", self.data, "--save", "taken")
        self.assert_refused("taken/ is not a file", "--data", self.data, "--save", "taken/")

    def test_refuses_data_that_is_missing_or_damaged(self):
        self.assert_refused("no such folder", "--data", "nowhere")
        self.assert_refused("lacks train-images-idx3-ubyte", "--data", self.folder)
        damaged = self.folder / "damaged"
        damaged.mkdir()
        for file in self.data.iterdir():
            (damaged / file.name).write_bytes(file.read_bytes()[:-1])
        self.assert_refused("the file is cut off", "--data", damaged)

    def test_refuses_images_and_weights_that_do_not_fit(self):
        self.train()
        weights = self.folder / "weights.safetensors"
        image = self.folder / "black.png"
        write_png(image, [[0] * 28] * 28)
        (self.folder / "text.png").write_text("no image")
        self.assert_refused("needs --weights", "--predict", image)
        self.assert_refused("there is no such file", "--predict", image, "--weights", "gone")
        self.assert_refused("found a PNG image", "--predict", image, "--weights", image)
        self.assert_refused("expected a JPEG, PNG", "--predict", "text.png", "--weights", weights)
        self.assert_refused("there is no such", "--predict", "gone.png", "--weights", weights)
        content = weights.read_bytes()
        weights.write_bytes(content[:-1])
        self.assert_refused("pass the end", "--predict", image, "--weights", weights)
        mean = re.search(rb'"mean":"(.*?)"', content)[1]
        weights.write_bytes(content.replace(mean, b"x" * len(mean)))
        self.assert_refused('says that "mean" is "xxx', "--predict", image, "--weights", weights)


@unittest.skipUnless((LIBRARIES / "libadret_cuda.so").exists(), "the CUDA backend was not built")
class CudaBuild(unittest.TestCase):
    def test_says_that_no_device_is_visible(self):
        environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
        with tempfile.TemporaryDirectory() as holder:
            folder = Path(holder)
            write_set(folder, "train", 64, 1)
            write_set(folder, "t10k", 16, 2)
            for device, status in (("cuda", 1), ("auto", 0)):
                result = subprocess.run(
                    [PROGRAMS / "mnist", "--device", device, "--data", folder, "--epochs", "1", "--json"],
                    cwd=folder, env=environment, capture_output=True, text=True, timeout=100)
                self.assertEqual(result.returncode, status, result.stderr)
                self.assertRegex(result.stderr, r'\[cuda\] (there is no NVIDIA driver|no device is to be seen: .*'
                                                r'CUDA_VISIBLE_DEVICES is ""; change or unset it)')


class LinearRegression(unittest.TestCase):
    def test_reaches_what_its_header_states(self):
        result = subprocess.run([PROGRAMS / "linear_regression"], capture_output=True, text=True,
                                timeout=60, check=True)
        weight, bias = map(float, re.search(r"weight (\S+)  bias (\S+)", result.stdout).groups())
        self.assertAlmostEqual(weight, 2, delta=0.02)
        self.assertAlmostEqual(bias, -1, delta=0.02)


class CharGpt(unittest.TestCase):
    SIZES = ["--context", "8", "--features", "16", "--heads", "2", "--depth", "1", "--batch", "16"]

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        self.text = self.folder / "text"
        self.text.write_bytes(b"0123456789" * 300)

    def run_it(self, *flags):
        return subprocess.run([PROGRAMS / "char_gpt", "--device", "cpu", *map(str, flags)], cwd=self.folder,
                              capture_output=True, text=True, timeout=300, check=False)

    def train(self, *flags, steps):
        return self.run_it(self.text, *self.SIZES, "--steps", steps, "--every", 75, "--lr", 0.01, "--length", 20, *flags)

    def test_learns_the_text_and_says_it(self):
        result = self.train("--dropout", 0, steps=150)
        self.assertEqual(result.returncode, 0, result.stderr)
        losses = [float(loss) for loss in re.findall(r"held out ([0-9.]+)", result.stdout)]
        self.assertEqual(len(losses), 2)
        self.assertLess(losses[1], 0.5)  # of log(10) = 2.3 without learning; the first byte stays a guess
        says = self.run_it("--weights", "char_gpt.safetensors", "--prompt", "456", "--length", 20,
                           "--temperature", 0.1)
        self.assertEqual(says.stdout, "45678901234567890123456\n"[:23] + "\n", says.stderr)

    def test_training_that_diverges_is_an_error_and_leaves_the_weights(self):
        self.train(steps=1)
        before = (self.folder / "char_gpt.safetensors").read_bytes()
        result = self.run_it(self.text, *self.SIZES, "--steps", 10, "--lr", "1e30")
        self.assertNotEqual(result.returncode, 0, result.stdout)
        self.assertIn("at step 10 the loss is not finite; train with a lower --lr", result.stderr)
        self.assertEqual((self.folder / "char_gpt.safetensors").read_bytes(), before)

    def test_the_same_seed_gives_the_same_samples(self):
        first = self.train(steps=10)
        self.assertEqual(first.stdout, self.train(steps=10).stdout)
        self.assertNotEqual(first.stdout, self.train("--seed", 2, steps=10).stdout)

    def test_says_what_is_wrong(self):
        (self.folder / "short").write_bytes(b"abc")
        (self.folder / "empty").write_bytes(b"")
        self.train(steps=1)
        tensors, metadata = safetensors_file.read(self.folder / "char_gpt.safetensors")
        for name, key, value in (("half", "heads", "1.5"), ("deep", "depth", "1000000000"),
                                 ("wide", "features", "2000000000"), ("long", "context", "2000000000")):
            safetensors_file.write(self.folder / f"{name}.safetensors", tensors, {**metadata, key: value})
        for flags, text in (
                (["none"], "none cannot be read"),
                (["empty"], "empty is empty"),
                (["short"], "wanted more than the 64 of --context"),
                ([], "name a text file to learn from, or --weights FILE"),
                (["text", "--heads", "3"], "3 heads do not divide 128 features"),
                (["text", "--prompt", "a"], "byte 0 of the prompt is 0x61"),
                (["."], ". cannot be read"),
                (["--weights", "char_gpt.safetensors", "--prompt", "x"], "byte 0 of the prompt is 0x78"),
                (["--weights", "text"], "text"),
                (["--weights", "half.safetensors"], 'says that "heads" is 1.5, wanted a whole number from 1'),
                (["--weights", "deep.safetensors"], "asks for"),
                (["--weights", "wide.safetensors"], "asks for"),
                (["--weights", "long.safetensors"], "weights or more, but the file has"),
                (["text", "--save", "./text", "--steps", 1], "./text would be written over text"),
                (["text", "--steps", "0"], "0 is no whole number")):
            result = self.run_it(*flags)
            self.assertNotEqual(result.returncode, 0, flags)
            self.assertIn(text, result.stderr, flags)


class CustomLayer(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        write_set(self.folder, "train", 600, 1)
        write_set(self.folder, "t10k", 100, 2)

    def train(self, *flags):
        result = subprocess.run([PROGRAMS / "custom_layer", "--device", "cpu", "--data", self.folder, "--epochs", "2",
                                 "--batch", "20", *flags], cwd=self.folder, capture_output=True, text=True, timeout=300,
                                check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_learns_in_replayed_steps(self):
        accuracy, replays = re.search(r"test accuracy (\S+) %\n(\d+) of 60 steps were replayed\n$", self.train()).groups()
        self.assertGreater(float(accuracy), 95)
        self.assertGreaterEqual(int(replays), 56)

    def test_learns_in_eager_steps(self):
        accuracy = re.search(r"test accuracy (\S+) %\n$", self.train("--mode", "eager"))[1]
        self.assertGreater(float(accuracy), 95)


class Autoencoder(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        write_set(self.folder, "train", 600, 1)
        write_set(self.folder, "t10k", 20, 2)

    def run_it(self, *flags):
        return subprocess.run([PROGRAMS / "autoencoder", "--device", "cpu", "--data", self.folder, *map(str, flags)],
                              cwd=self.folder, capture_output=True, text=True, timeout=300, check=False)

    def test_learns_its_images_and_draws_them(self):
        result = self.run_it("--code", 8, "--epochs", 10, "--batch", 20, "--images", 4, "--grid", "rows.pgm")
        self.assertEqual(result.returncode, 0, result.stderr)
        loss = float(re.search(r"reconstruction loss (\S+)\nweights in /.*autoencoder.safetensors\n"
                               r"images in /.*rows.pgm\n$", result.stdout)[1])
        self.assertLess(loss, 0.02)  # the images' variance is 0.07
        width, height = 4 * 28, 2 * 28
        head = f"P5\n{width} {height}\n255\n".encode()
        grid = (self.folder / "rows.pgm").read_bytes()
        self.assertEqual((grid[:len(head)], len(grid)), (head, len(head) + width * height))
        pixels = grid[len(head):]
        given = (self.folder / "t10k-images-idx3-ubyte").read_bytes()[16:]
        for i in range(4):
            drawn = b"".join(pixels[y * width + i * 28:y * width + i * 28 + 28] for y in range(28))
            self.assertEqual(drawn, given[784 * i:784 * (i + 1)])
        above, below = pixels[:28 * width], pixels[28 * width:]
        squares = sum((a - b) ** 2 for a, b in zip(above, below)) / len(above) / 255**2
        self.assertLess(squares, 0.02)

    def test_training_that_diverges_saves_nothing(self):
        write_set(self.folder, "train", 20, 1)
        result = self.run_it("--epochs", 1, "--lr", "1e30")
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn("train with a lower --lr", result.stderr)
        self.assertFalse((self.folder / "autoencoder.safetensors").exists())

    def test_the_same_seed_gives_the_same_bits(self):
        results = set()
        for seed, threads in ((1, 1), (1, 2), (2, 1)):
            self.assertEqual(self.run_it("--epochs", 1, "--seed", seed, "--threads", threads).returncode, 0)
            results.add((self.folder / "autoencoder.safetensors").read_bytes() +
                        (self.folder / "autoencoder.pgm").read_bytes())
        self.assertEqual(len(results), 2)

    def test_says_what_is_wrong(self):
        for flags, text in ((["--code", 0], "--code: 0 is no whole number"),
                            (["--grid", "gone/rows.pgm"], "cannot write into gone"),
                            (["--save", "gone/weights"], "cannot write into gone"),
                            (["--grid", "."], ". is not a file; name one with --grid FILE"),
                            (["--grid", "same", "--save", "same", "--epochs", 1], "same would be written over same"),
                            (["--lr", "0"], "0 is no number above 0")):
            result = self.run_it(*flags)
            self.assertEqual(result.returncode, 1, flags)
            self.assertIn(text, result.stderr, flags)
        (self.folder / "t10k-images-idx3-ubyte").unlink()
        self.assertIn("lacks t10k-images-idx3-ubyte", self.run_it().stderr)


if __name__ == "__main__":
    unittest.main()
