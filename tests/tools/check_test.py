#!/usr/bin/env python3
"""tools/check: each rule finds its breach, and a tree that keeps the rules passes."""
import importlib.machinery
import importlib.util
import tempfile
import unittest
from pathlib import Path
from unittest import mock

SCRIPT = Path(__file__).resolve().parents[2] / "tools/check"
loader = importlib.machinery.SourceFileLoader("check", str(SCRIPT))
check = importlib.util.module_from_spec(importlib.util.spec_from_loader("check", loader))
loader.exec_module(check)

HEADER = "// Owns a thing.\n#pragma once\n"
GOOD = {
    "cmake/private_headers.txt": "# Private.\ncore/cpu/\ncore/inner.h\n",
    "core/inner.h": HEADER + "#include <fmt/core.h>\n",
    "adret.h": HEADER + "#include <adret/layers/linear.h>\n",
    "core/shape.h": HEADER + "#include <vector>\n",
    "core/kernels/conv.h": HEADER + "#include <adret/core/shape.h>\n",
    "core/cpu/conv.cpp": "// Convolution.\n#include <Eigen/Core>\n#include <adret/core/cpu/kernels.h>\n",
    "core/cpu/conv_backward.cpp": "// Its backward.\n",
    "core/cpu/kernels.h": HEADER + "#include <Eigen/Core>\n",
    "autograd/node.h": HEADER + "#include <adret/core/kernels/conv.h>\n",
    "layers/linear.h": HEADER + "#include <adret/autograd/node.h>\n",
    "tests/core/shape_test.cpp": '// Shapes.\n#include "tests/support/fake.h"\n',
}


class Check(unittest.TestCase):
    def breaches(self, changes):
        with tempfile.TemporaryDirectory() as folder:
            for path, text in (GOOD | changes).items():
                (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
                (Path(folder) / path).write_text(text)
            # The exceptions are those of this repository's own files.
            with mock.patch.object(check, "LONGER_FUNCTIONS", {}):
                return list(check.breaches(Path(folder)))

    def assert_breach(self, path, text, message):
        found = self.breaches({path: text})
        self.assertEqual(len(found), 1, found)
        self.assertIn(message, found[0])

    def test_a_tree_that_keeps_the_rules_passes(self):
        self.assertEqual(self.breaches({}), [])

    def test_line_budgets(self):
        source = "// Owns a thing.\n" + "int x;\n" * 499
        self.assertEqual(self.breaches({"core/shape.cpp": source}), [])
        self.assert_breach("core/shape.cpp", source + "int x;\n", "501 lines, at most 500")
        self.assert_breach("core/shape.h", HEADER + "int x;\n" * 249, "251 lines, at most 250")

    def test_functions_have_a_limit(self):
        body = "#pragma unroll\n    x();\n\n"
        for head, end in (("int f() {\n", "}\n"), ("TEST(F, G) {\n", "}\n"),
                          ("int f(int a,\n      int b) {\n", "}\n"),
                          ("struct S {\n  int a;\n  int f() const {\n", "  }\n  int b;\n};\n")):
            before = head.startswith("struct") and 2  # lines of the class
            text = "// Owns a thing.\n" + head + body + "    x();\n" * (59 + before - (head + body).count("\n"))
            self.assertEqual(self.breaches({"core/shape.cpp": text + end}), [])
            self.assert_breach("core/shape.cpp", text + "    x();\n" + end,
                               f"line {before + 2}: a function of 61 lines, at most 60")

    def test_exceptions_are_needed(self):
        with mock.patch.object(check, "LONGER_FUNCTIONS", {("core/shape.cpp", "f"): "a table"}):
            long = "// A.\nint f() {\n" + "  x();\n" * 60 + "}\n"
            self.assertEqual(list(check.check_functions("core/shape.cpp", long)), [])
            found = list(check.check_functions("core/shape.cpp", "// A.\nint f() {\n}\n"))
            self.assertEqual(len(found), 1)
            self.assertIn("f is excepted in tools/check, but of at most 60 lines", found[0])

    def test_first_line_and_guard(self):
        self.assert_breach("core/shape.cpp", "#include <vector>\n", "not a comment")
        self.assert_breach("core/shape.h", "// Owns a thing.\n", "no #pragma once")

    def test_unfinished_work(self):
        self.assert_breach("core/shape.cpp", "// Owns a thing.\n// TO" + "DO: more\n", "line 2")

    def test_cuda_kernels_begin_alike(self):
        kernel = ("// Convolution.\ntemplate <class T>\n__global__ void __launch_bounds__(128)\n"
                  "    conv(const T* x,\n         T* y) {\n  %s\n  y[0] = x[0];\n}\n")
        self.assertEqual(self.breaches({"core/cuda/conv.cu": kernel % "begin_kernel();"}), [])
        self.assert_breach("core/cuda/conv.cu", kernel % "const int i = 0;",
                           "line 3: a CUDA kernel begins with begin_kernel()")

    def test_includes_point_one_way(self):
        for path, target in [("core/shape.cpp", "autograd/node.h"), ("autograd/a.cpp", "layers/linear.h"),
                             ("layers/a.cpp", "optim/sgd.h"), ("data/a.cpp", "autograd/node.h"),
                             ("optim/a.cpp", "train/trainer.h")]:
            self.assert_breach(path, f"// A.\n#include <adret/{target}>\n", "must not include")
        self.assertEqual(self.breaches({"train/a.cpp": "// A.\n#include <adret/data/loader.h>\n"}), [])

    def test_backends_stay_inside(self):
        self.assert_breach("layers/a.cpp", "// A.\n#include <adret/core/cpu/kernels.h>\n", "only core")
        self.assert_breach("core/shape.h", HEADER + "#include <adret/core/cpu/kernels.h>\n",
                           "must not include a private one")
        self.assert_breach("core/shape.h", HEADER + "#include <adret/core/inner.h>\n",
                           "must not include a private one")

    def test_public_headers_include_no_other_library(self):
        for name in ("Eigen/Core", "fmt/core.h", "zlib.h", "nlohmann/json.hpp"):
            self.assert_breach("core/shape.h", HEADER + f"#include <{name}>\n", "only the standard library")

    def test_includes_are_written_from_the_root(self):
        self.assert_breach("core/shape.cpp", '// A.\n#include "shape.h"\n', "write <adret/")
        self.assert_breach("core/shape.cpp", "// A.\n#include <adret/adret.h>\n", "what it uses")

    def test_the_umbrella_reaches_every_public_header(self):
        self.assert_breach("layers/conv.h", HEADER, "adret.h: does not reach layers/conv.h")

    def test_backend_files_have_a_namesake(self):
        self.assert_breach("core/cpu/convolve.cpp", "// A.\n", "named after no kernel family")


if __name__ == "__main__":
    unittest.main()
