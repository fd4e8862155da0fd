#!/usr/bin/env python3
"""tools/list_functions: finds a function without proof, and a proof without its other half."""
import importlib.machinery
import importlib.util
import tempfile
import unittest
from pathlib import Path
from unittest import mock

SCRIPT = Path(__file__).resolve().parents[2] / "tools/list_functions"
loader = importlib.machinery.SourceFileLoader("list_functions", str(SCRIPT))
tool = importlib.util.module_from_spec(importlib.util.spec_from_loader("list_functions", loader))
loader.exec_module(tool)

HEADER = "Tensor sine(const Tensor& x);\ninline Tensor operator+(const Tensor& a);\nTensor draw(Shape shape,\n            int n);\n"


class ListFunctions(unittest.TestCase):
    def survey(self, header=HEADER, cases='one("sine", sine), {"sine/large", f}', golden=("sine", "sine/large"),
               excepted=("draw",)):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(
                tool, "ELSEWHERE", {name: ("core/draw_test.cpp", "draws", "core/draw_test.cpp") for name in excepted}):
            root = Path(folder)
            for path, text in {"cmake/private_headers.txt": "autograd/ops/check.h\n", "autograd/ops/a.h": header,
                               "autograd/ops/check.h": "Tensor hidden();\n", "tests/support/functions.cpp": cases,
                               "tests/core/draw_test.cpp": ""}.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            (root / "tests/golden").mkdir()
            tool.safetensors_file.write(root / "tests/golden/functions.safetensors",
                                        {f"{name}:{key}": ("F64", [], [1.0]) for name in golden
                                         for key in ("0", "y", "d0")})
            return tool.survey(root)

    def test_every_function_is_a_row_with_its_proofs(self):
        rows, missing = self.survey()
        self.assertEqual(missing, [])
        self.assertEqual([row[0] for row in rows], ["sine", "draw"])
        self.assertEqual(rows[0][2:4], ("2 of PyTorch's", "first and second"))
        self.assertIn("| `draw` | a.h | core/draw_test.cpp | draws |", tool.page(rows))

    def test_a_function_without_a_case(self):
        missing = self.survey(header=HEADER + "Tensor cosine(const Tensor& x);\n")[1]
        self.assertEqual(missing, ["autograd/ops/a.h: cosine has no case in tests/support/functions*.cpp"])

    def test_a_case_without_golden_values_and_the_other_way_round(self):
        self.assertIn("sine/large: a case without golden values", self.survey(golden=("sine",))[1][0])
        self.assertIn("sine/large: golden values without a case", self.survey(cases='one("sine", sine)')[1][0])

    def test_an_exception_that_nothing_needs(self):
        missing = self.survey(header="Tensor sine(const Tensor& x);\n")[1]
        self.assertEqual(missing, ["tools/list_functions: draw is excepted but not there"])

    def test_an_exception_for_what_has_a_case(self):
        missing = self.survey(excepted=("draw", "sine"))[1]
        self.assertEqual(missing, ["tools/list_functions: sine is excepted but has a case"])


if __name__ == "__main__":
    unittest.main()
