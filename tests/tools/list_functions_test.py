#!/usr/bin/env python3
"""tools/list_functions: finds a function without proof, and a proof that is less than it looks."""
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
PROPERTIES = 'for_random_cases(\n "sine", [](Draw& draw) {});\n {"draw", draw},\n'
COMPARED = 'not_comparable = {"sine/large",\n "other/kink"};'


class ListFunctions(unittest.TestCase):
    def survey(self, header=HEADER, cases='one("sine", sine), {"sine/large", f}', golden=("sine", "sine/large"),
               excepted=("draw",), properties=PROPERTIES, compared=COMPARED, drawn="draws", drawing_test=""):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(
                tool, "ELSEWHERE", {name: ("core/draw_test.cpp", drawn, "core/draw_test.cpp") for name in excepted}
        ):
            root = Path(folder)
            for path, text in {"cmake/private_headers.txt": "autograd/ops/check.h\n", "autograd/ops/a.h": header,
                               "autograd/ops/check.h": "Tensor hidden();\n", "tests/support/functions.cpp": cases,
                               "tests/core/draw_test.cpp": drawing_test,
                               "tests/properties/sine_test.cpp": properties,
                               "tests/autograd/functions_test.cpp": compared}.items():
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
        self.assertEqual(rows[0][2:5], ("2 of PyTorch's", "1 of 2 cases", "properties/sine_test.cpp"))
        self.assertIn("| `draw` | a.h | core/draw_test.cpp | draws | properties/sine_test.cpp |", tool.page(rows))

    def test_a_function_without_a_case(self):
        missing = self.survey(header=HEADER + "Tensor cosine(const Tensor& x);\n",
                              properties=PROPERTIES + '{"cosine", cosine}')[1]
        self.assertEqual(missing, ["autograd/ops/a.h: cosine has no case in tests/support/functions*.cpp"])

    def test_a_function_without_a_property_test(self):
        missing = self.survey(properties='for_random_cases("sine", f); // "draw", and {"other", 1}')[1]
        self.assertEqual(missing, ['autograd/ops/a.h: draw has no property test: for_random_cases("draw", ...)'])

    def test_a_property_test_may_be_anywhere(self):
        in_words = 'for_random_cases("draw", [](Draw& draw) {});'
        rows, missing = self.survey(properties='{"sine", sine}', drawing_test=in_words)
        self.assertEqual((missing, rows[1][4]), ([], "core/draw_test.cpp"))

    def test_a_table_elsewhere_is_no_property_test(self):
        missing = self.survey(properties='{"sine", sine}', drawing_test='{"draw", draw}')[1]
        self.assertEqual(len(missing), 1)

    def test_gradients_of_pytorch_are_no_gradient_check(self):
        missing = self.survey(compared='not_comparable = {"sine", "sine/large"};')[1]
        self.assertEqual(missing, ["autograd/ops/a.h: sine has gradients of PyTorch's, but no case that is compared with "
                                   "differences"])
        self.assertEqual(self.survey(compared="")[0][0][3], "every case")

    def test_a_gradient_check_elsewhere_calls_the_function(self):
        file = "core/draw_test.cpp"
        self.assertEqual(self.survey(drawn=file, drawing_test="expect_gradients(f, {draw(1)})")[1], [])
        for without in ("draw(1)", "expect_gradients(f, {other(1)})"):
            missing = self.survey(drawn=file, drawing_test=without)[1]
            self.assertEqual(missing, [f"tools/list_functions: draw: no gradient check in tests/{file}"])

    def test_a_case_without_golden_values_and_the_other_way_round(self):
        self.assertIn("sine/large: a case without golden values", self.survey(golden=("sine",))[1][0])
        self.assertIn("sine/large: golden values without a case", self.survey(cases='one("sine", sine)')[1][0])

    def test_an_exception_that_nothing_needs(self):
        missing = self.survey(header="Tensor sine(const Tensor& x);\n")[1]
        self.assertEqual(missing, ["tools/list_functions: draw is excepted but not there"])

    def test_an_exception_for_what_has_a_case(self):
        missing = self.survey(excepted=("draw", "sine"))[1]
        self.assertEqual(missing, ["tools/list_functions: sine is excepted but has a case"])


LAYERS = ("class Plain : public Layer<Plain> {};\nstruct Wide : Base<Wide, 2> {};\nclass Loose : public Layer<Other> {};\n"
          "template <class Self>\nclass Base : public Layer<Self> {};\n")
STEPS = [f"{name}.0.{dtype}.a" for name in ("good",) for dtype in ("f32", "f64")]


class ListLayersAndOthers(unittest.TestCase):
    def tree(self, files, golden):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        root = Path(folder.name)
        for path, text in ({"cmake/private_headers.txt": ""} | files).items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        (root / "tests/golden").mkdir(parents=True, exist_ok=True)
        for file, keys in golden.items():
            tool.safetensors_file.write(root / f"tests/golden/{file}.safetensors",
                                        {key: ("F64", [], [1.0]) for key in keys})
        return root

    def layers(self, cases='of("Plain", Plain()), of("Wide/more", Wide(2))', golden=("Plain:x", "Wide/more:y"),
               tests="Plain(), Wide(1)", excepted=None):
        root = self.tree({"layers/a.h": LAYERS, "tests/golden/layers_test.cpp": cases, "tests/layers/a_test.cpp": tests},
                         {"layers": golden})
        with mock.patch.object(tool, "LAYERS", excepted or {}):
            return tool.survey_layers(root)

    def test_layers_are_rows_with_their_cases_and_tests(self):
        rows, missing = self.layers()
        self.assertEqual(missing, [])
        self.assertEqual(rows, [("Plain", "layers/a.h", "1 of PyTorch's", "layers/a_test.cpp"),
                                ("Wide", "layers/a.h", "1 of PyTorch's", "layers/a_test.cpp")])

    def test_a_layer_without_golden_values_or_tests(self):
        self.assertEqual(self.layers(cases='of("Plain", Plain())', golden=("Plain:x",), tests="Plain()")[1],
                         ["layers/a.h: Wide has no case in tests/golden/layers_test.cpp",
                          "layers/a.h: Wide is in no test of tests/layers"])
        self.assertEqual(self.layers(golden=("Plain:x", "Wide/other:x"))[1],
                         ["tests/golden/layers_test.cpp: Wide/more: a case without golden values",
                          "tests/golden/layers_test.cpp: Wide/other: golden values without a case"])

    def test_an_exception_of_a_layer_names_a_test_that_is_there(self):
        only = dict(cases='of("Plain", Plain())', golden=("Plain:x",))
        test = "layers/a_test.cpp: Layers, WideDraws"
        self.assertEqual(self.layers(tests="Plain() TEST(Layers, WideDraws) Wide(1)", excepted={"Wide": test}, **only)[1], [])
        self.assertEqual(self.layers(tests="Plain() Wide(1)", excepted={"Wide": test}, **only)[1],
                         ["tools/list_functions: Wide: no test Layers, WideDraws in tests/layers/a_test.cpp"])
        self.assertEqual(self.layers(tests="Plain() Wide() TEST(Layers, WideDraws)", excepted={"Wide": test, "Gone": test})[1],
                         ["tools/list_functions: Wide is excepted but has a case",
                          "tools/list_functions: Gone is excepted but not there"])

    def test_optimizers_have_golden_values_in_both_dtypes(self):
        files = {"optim/a.h": "class Good final : public Optimizer {\n", "tests/optim/a_test.cpp": "Good(model)",
                 "tests/golden/optim_test.cpp": '{"good.0", make<Good>()}'}
        rows, missing = tool.survey_optimizers(self.tree(files, {"optim": STEPS}))
        self.assertEqual((rows, missing), ([("Good", "optim/a.h", "1 of PyTorch's", "optim/a_test.cpp")], []))
        self.assertEqual(tool.survey_optimizers(self.tree(files, {"optim": STEPS[:1]}))[1],
                         ["optim/a.h: Good has no golden values in f64"])
        files["optim/b.h"] = "class Other final : public Family {\n"
        self.assertIn("optim/b.h: Other has no golden values in f32",
                      tool.survey_optimizers(self.tree(files, {"optim": STEPS}))[1])

    def test_schedules_have_rates(self):
        files = {"optim/lr_schedule.h": "LrSchedule step_lr(int);\n", "tests/optim/a_test.cpp": "step_lr(1)",
                 "tests/golden/schedules_test.cpp": 'expect_rates("step", step_lr(1));'}
        with mock.patch.object(tool, "SCHEDULES", {}):
            rows, missing = tool.survey_schedules(self.tree(files, {"schedules": ["step"]}))
            self.assertEqual((rows, missing), ([("step_lr", "optim/lr_schedule.h", "1 of PyTorch's", "optim/a_test.cpp")], []))
            files["optim/lr_schedule.h"] += "LrSchedule other_lr(int);\n"
            self.assertEqual(tool.survey_schedules(self.tree(files, {"schedules": ["step"]}))[1],
                             ["optim/lr_schedule.h: other_lr has no case in tests/golden/schedules_test.cpp",
                              "optim/lr_schedule.h: other_lr is in no test of tests/optim"])

    def test_initialisers_have_a_test_each(self):
        files = {"layers/init.h": "void ones_(int);\nvoid draw_(int);\n",
                 "tests/layers/init_test.cpp": "TEST(Init, Ones) { init::ones_(x); }"}
        listed = {"ones_": ("values", "layers/init_test.cpp: Init, Ones")}
        with mock.patch.object(tool, "INITIALISERS", listed):
            rows, missing = tool.survey_initialisers(self.tree(files, {}))
            self.assertEqual([row[0] for row in rows], ["ones_"])
            self.assertEqual(missing, ["layers/init.h: draw_ is not in INITIALISERS of tools/list_functions"])

    def test_reports_name_tests_that_are_there(self):
        root = self.tree({"tests/core/a_test.cpp": "TEST_P(Suite,\n       Holds)"}, {})
        with mock.patch.object(tool, "REPORTS", (("a#1", "It holds", "core/a_test.cpp: Suite, Holds"),)):
            self.assertEqual(tool.survey_reports(root), ([("It holds", "a#1", "`Suite.Holds`")], []))
        with mock.patch.object(tool, "REPORTS", (("a#1", "It holds", "core/a_test.cpp: Suite, Gone"),)):
            self.assertEqual(len(tool.survey_reports(root)[1]), 1)


if __name__ == "__main__":
    unittest.main()
