#!/usr/bin/env python3
"""The CIFAR-10 examples as users run them, on sets whose classes are colours.

cifar10_test.py FOLDER_OF_THE_PROGRAMS
"""
import json
import math
import os
import random
import re
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAMS = Path(sys.argv.pop()).resolve()
CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
COLOURS = [(230, 20, 20), (20, 230, 20), (20, 20, 230), (230, 230, 20), (230, 20, 230),
           (20, 230, 230), (240, 240, 240), (10, 10, 10), (120, 120, 120), (250, 130, 10)]


def write_batch(path, count, seed):
    """Records of a label and a plane for each colour (the set's own description)."""
    generator = random.Random(seed)
    content = bytearray()
    for i in range(count):
        label = i % 10
        content.append(label)
        for level in COLOURS[label]:
            content += bytes(min(255, max(0, level + generator.randrange(-9, 10)))
                             for _ in range(1024))
    path.write_bytes(content)


def write_ppm(path, colour, side=40):
    path.write_bytes(b"P6 %d %d 255\n" % (side, side) + bytes(colour) * (side * side))


def read_weights(path):
    """Shape and norm by name of the f32 tensors of a safetensors file."""
    content = path.read_bytes()
    start = 8 + struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:start])
    header.pop("__metadata__", None)
    weights = {}
    for name, tensor in header.items():
        if tensor["dtype"] != "F32":
            continue
        first, end = tensor["data_offsets"]
        values = struct.unpack(f"<{(end - first) // 4}f", content[start + first:start + end])
        weights[name] = tensor["shape"], math.hypot(*values)
    return weights


class Program(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.data = Path(holder.name)
        for number in range(1, 6):
            write_batch(cls.data / f"data_batch_{number}.bin", 40, number)
        write_batch(cls.data / "test_batch.bin", 40, 6)

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def run_program(self, name, *arguments):
        environment = {k: v for k, v in os.environ.items() if k != "ADRET_DATA"}
        return subprocess.run([PROGRAMS / name, *map(str, arguments), "--device", "cpu"],
                              cwd=self.folder, env=environment, capture_output=True, text=True,
                              timeout=200)


class Cifar10(Program):
    def train(self, *arguments, model="tiny", epochs=2, batch=20):
        result = self.run_program("cifar10", "--data", self.data, "--model", model, "--epochs",
                                  epochs, "--batch", batch, "--save", "weights.safetensors", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def assert_refused(self, message, *arguments):
        """One error, status 1, nothing on standard output, no file."""
        before = sorted(self.folder.iterdir())
        result = self.run_program("cifar10", *arguments)
        self.assertEqual((result.returncode, result.stdout), (1, ""), result.stderr)
        self.assertIn(message, result.stderr)
        self.assertEqual(sorted(self.folder.iterdir()), before)

    def test_ends_with_accuracies_of_classes_the_whole_and_the_place_of_the_weights(self):
        result = self.train(epochs=4)
        for name in CLASSES:
            self.assertRegex(result.stdout, rf"(?m)^{name} +\d+\.\d\d % found$")
        accuracy = float(re.search(r"test accuracy (\d+\.\d\d) %", result.stdout)[1])
        self.assertGreater(accuracy, 50)  # ten colours; 10 by chance
        self.assertRegex(result.stdout, r"weights in /.*safetensors\n$")

    def test_json_is_all_there_is_on_standard_output(self):
        lines = [json.loads(line) for line in self.train("--json").stdout.splitlines()]
        self.assertEqual([line["epoch"] for line in lines[:-1]], [1, 2])
        self.assertLess(lines[1]["train_loss"], lines[0]["train_loss"])
        for line in lines[:-1]:
            self.assertGreaterEqual(line["waiting"], 0)
            self.assertLessEqual(line["waiting"], 1)
        self.assertEqual(list(lines[-1]["classes"]), CLASSES)
        mean = sum(lines[-1]["classes"].values()) / 10  # as many images of each
        self.assertAlmostEqual(lines[-1]["test_accuracy"], mean, delta=1e-9)
        confusion = lines[-1]["confusion"]
        self.assertEqual([sum(row) for row in confusion], [4] * 10)
        self.assertEqual([row[c] / 4 for c, row in enumerate(confusion)],
                         list(lines[-1]["classes"].values()))

    def test_a_seed_gives_the_same_bits_for_any_number_of_threads_and_workers(self):
        files = set()
        for threads, workers in ((1, 0), (2, 2)):
            self.train("--seed", 7, "--threads", threads, "--workers", workers, epochs=1)
            files.add((self.folder / "weights.safetensors").read_bytes())
        self.assertEqual(len(files), 1)
        self.train("--seed", 8, epochs=1)
        self.assertNotIn((self.folder / "weights.safetensors").read_bytes(), files)

    def test_takes_every_precision_schedule_and_augmentation(self):
        for arguments in (("--precision", "bf16", "--schedule", "cosine", "--augment", "mixup"),
                          ("--precision", "fp16", "--schedule", "step", "--augment", "cutmix"),
                          ("--schedule", "constant", "--augment", "none", "--ema", 0.9),
                          ("--augment", "crop", "--test-views", 6, "--label-smoothing", 0),
                          ("--augment", "none", "--test-views", 2)):
            self.assertIn("test accuracy", self.train(*arguments, epochs=1).stdout, arguments)

    def test_muon_keeps_the_norms_of_all_convolutions_but_the_first(self):
        self.train("--muon-lr", 1e-6, epochs=1)  # steps too small to be seen
        weights = read_weights(self.folder / "weights.safetensors")
        filters = {name for name, (shape, _) in weights.items() if len(shape) == 4}
        of_muon = {name for name in filters
                   if abs(weights[name][1] - math.sqrt(weights[name][0][0])) < 1e-3}
        self.assertEqual(filters - of_muon, {"conv1.weight"})

    def test_muon_learns(self):
        lines = [json.loads(line) for line in
                 self.train("--muon-lr", 0.05, "--ema", 0.9, "--json").stdout.splitlines()]
        self.assertLess(lines[1]["train_loss"], lines[0]["train_loss"])

    def test_trains_and_predicts_with_every_network(self):
        write_ppm(self.folder / "blue.ppm", COLOURS[2])
        for model in ("resnet18", "wideresnet", "mobilenetv2", "vgg11"):
            self.train("--augment", "none", model=model, epochs=1, batch=100)
            result = self.run_program("cifar10", "--predict", "blue.ppm", "--weights",
                                      "weights.safetensors")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(len(result.stdout.splitlines()), 10, model)

    def test_predicts_what_an_image_shows(self):
        self.train(epochs=6)
        write_ppm(self.folder / "blue.ppm", COLOURS[2])
        result = self.run_program("cifar10", "--predict", "blue.ppm", "--weights",
                                  "weights.safetensors")
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = re.findall(r"^(\w+) +([01]\.\d{4})$", result.stdout, re.MULTILINE)
        self.assertEqual([name for name, _ in lines], CLASSES)
        probabilities = [float(probability) for _, probability in lines]
        self.assertAlmostEqual(sum(probabilities), 1, delta=1e-3)
        self.assertEqual(CLASSES[probabilities.index(max(probabilities))], "bird")

    def test_refuses_flags_that_are_wrong(self):
        self.assert_refused("--model: lenet not in", "--model", "lenet")
        self.assert_refused("--precision: fp8 not in", "--precision", "fp8")
        self.assert_refused("--epochs: 0 is no whole number in 1..", "--epochs", 0)
        self.assert_refused("--ema: 1 is no number from 0 to below 1", "--ema", 1)
        self.assert_refused("--muon-lr: -1 is no number from 0", "--muon-lr=-1")
        self.assert_refused("--precision fp16, whose loss scaling serves one optimizer", "--data",
                            self.data, "--precision", "fp16", "--muon-lr", 0.05)
        self.assert_refused("--lr: nan is no number above 0", "--lr", "nan")
        self.assert_refused("the CPU has no tf32", "--data", self.data, "--precision", "tf32")
        self.assert_refused("--predict requires --weights", "--predict", "a.png")
        self.assert_refused("--seed: -1 is no whole number in 0..", "--seed=-1")
        self.assert_refused("cannot write into", "--data", self.data, "--save", "gone/w")

    def test_refuses_data_that_is_missing_or_damaged(self):
        self.assert_refused("no such folder", "--data", "nowhere")
        damaged = self.folder / "damaged"
        damaged.mkdir()
        for file in self.data.iterdir():
            (damaged / file.name).write_bytes(file.read_bytes())
        (damaged / "data_batch_3.bin").write_bytes(bytes(3072))
        self.assert_refused("data_batch_3.bin", "--data", damaged)

    def test_refuses_weights_of_another_program(self):
        self.train(epochs=1)
        weights = self.folder / "weights.safetensors"
        write_ppm(self.folder / "blue.ppm", COLOURS[2])
        (self.folder / "cut.jpg").write_bytes(b"\xff\xd8\xff\xe0")
        self.assert_refused("cut.jpg", "--predict", "cut.jpg", "--weights", weights)
        content = weights.read_bytes()
        mean = re.search(rb'"mean":"(.*?)"', content)[1]
        weights.write_bytes(content.replace(mean, b"x" * len(mean)))
        self.assert_refused('says that "mean" is "xxx', "--predict", "blue.ppm", "--weights",
                            weights)


class SpeedRun(Program):
    def test_reports_accuracy_and_both_clocks(self):
        result = self.run_program("cifar10_speedrun", "--data", self.data, "--epochs", 1, "--batch",
                                  40, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        line, means = map(json.loads, result.stdout.splitlines())
        self.assertEqual(means["mean_accuracy"], line["accuracy"])
        self.assertEqual(line["run"], 1)
        self.assertGreaterEqual(line["accuracy"], 0)
        self.assertLessEqual(line["accuracy"], 1)
        self.assertLess(0, line["seconds"])
        self.assertLess(line["seconds"], line["since_start"])

    def test_says_why_it_has_no_batch(self):
        result = self.run_program("cifar10_speedrun", "--data", self.data)
        self.assertEqual(result.returncode, 1)
        self.assertIn("batch", result.stderr)


if __name__ == "__main__":
    unittest.main()
