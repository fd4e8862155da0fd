#!/usr/bin/env python3
"""cmake/cuda_checks.cmake and nvcc.cmake: compilers that do not work, and cuDNN's headers in many states."""
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VERSION = "#define CUDNN_MAJOR {}\n#define CUDNN_MINOR {}\n#define CUDNN_PATCHLEVEL {}\n"


class Checks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def check(self, name, **variables):
        """What the check finds missing, and the version of cuDNN that it sets."""
        script = self.folder / "check.cmake"
        script.write_text(f"include({ROOT}/cmake/cuda_checks.cmake)\n{name}(missing)\n"
                          'message("${missing}\\nversion: ${CUDNN_VERSION}")\n')
        variables = {"PROJECT_BINARY_DIR": self.folder, "CMAKE_CXX_COMPILER": shutil.which("c++")} | variables
        done = subprocess.run(["cmake", *(f"-D{k}={v}" for k, v in variables.items()), "-P", script],
                              capture_output=True, text=True, check=True)
        missing, version = done.stderr.rstrip("\n").rsplit("\nversion: ", 1)
        return missing, version

    def compiler(self, text):
        path = self.folder / "nvcc"
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)
        return path

    def cudnn(self, **headers):
        folder = self.folder / "include"
        folder.mkdir(exist_ok=True)
        for name, text in ({"cudnn_graph": ""} | headers).items():
            (folder / f"{name}.h").write_text(text)
        return self.check("check_cudnn", CUDNN_INCLUDE_DIR=folder, CUDNN_LIBRARY="unused")

    def test_quotes_the_first_error_of_a_compiler_that_does_not_work(self):
        nvcc = self.compiler("echo 'nvcc warning : of something' >&2\n"
                             "echo 'nvcc fatal   : Failed to preprocess host compiler properties.' >&2\nexit 1\n")
        self.assertEqual(self.check("check_nvcc", CMAKE_CUDA_COMPILER=nvcc)[0],
                         f"nvcc at {nvcc} does not work: nvcc fatal   : Failed to preprocess host compiler properties.")

    def test_names_a_compiler_that_is_not_there(self):
        missing = self.check("check_nvcc", CMAKE_CUDA_COMPILER=self.folder / "gone")[0]
        self.assertIn(f"nvcc at {self.folder}/gone does not work: No such file", missing)

    def test_takes_a_compiler_that_works(self):
        self.assertEqual(self.check("check_nvcc", CMAKE_CUDA_COMPILER=self.compiler("exit 0\n"))[0], "")

    def test_finds_the_version_in_whatever_header_it_is(self):
        for headers in ({"cudnn": VERSION.format(9, 15, 1)},
                        {"cudnn": '#include "cudnn_version.h"\n', "cudnn_version": VERSION.format(9, 15, 1)},
                        {"cudnn": '#include "deep.h"\n', "deep": '#include "cudnn_version_v9.h"\n',
                         "cudnn_version_v9": VERSION.format("9", 15, 1)}):
            self.assertEqual(self.cudnn(**headers), ("", "9.15.1"))

    def test_quotes_the_first_error_of_headers_that_do_not_work(self):
        missing, _ = self.cudnn(cudnn='#include "not_there.h"\n#error later\n')
        self.assertIn(f"cuDNN's headers in {self.folder}/include do not work: ", missing)
        self.assertIn("not_there.h: No such file or directory", missing)
        self.assertNotIn("later", missing)

    def test_names_versions_that_are_too_old_or_new(self):
        for major, minor in ((9, 13), (8, 9), (10, 0)):
            missing, _ = self.cudnn(cudnn=VERSION.format(major, minor, 0))
            self.assertIn(f"is version {major}.{minor}.0, wanted 9.14 or later of 9", missing)

    def test_names_headers_without_a_version(self):
        self.assertIn("does not say its version", self.cudnn(cudnn="")[0])


if __name__ == "__main__":
    unittest.main()
