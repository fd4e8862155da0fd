#!/usr/bin/env python3
"""tools/extract_snippets: what becomes of each kind of block."""
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "tools/extract_snippets"

PAGE = """# A page

```cpp
struct Net {};
```

```sh
not c++
```

<!-- snippet: fragment(const Net& net) -->
```cpp
use(net);
```

```cpp
#include <cstdio>
int main() {}
```
"""


class ExtractSnippets(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.page, self.output = Path(folder.name) / "My-page.md", Path(folder.name) / "out"

    def extract(self, text, output=None):
        self.page.write_text(text)
        done = subprocess.run([SCRIPT, output or self.output, self.page], capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    def test_declarations_and_fragments_share_a_source_and_programs_stand_alone(self):
        self.assertEqual(self.extract(PAGE), (0, ""))
        self.assertEqual(sorted(p.name for p in self.output.iterdir()), ["my_page.cpp", "my_page_17.cpp"])
        self.assertEqual((self.output / "my_page.cpp").read_text(), f"""#include <adret/adret.h>

using namespace adret;

#line 4 "{self.page.resolve()}"
struct Net {{}};

void my_page_13(const Net& net) {{
#line 13 "{self.page.resolve()}"
use(net);
}}
""")
        self.assertTrue((self.output / "my_page_17.cpp").read_text().endswith("#include <cstdio>\nint main() {}\n"))

    def test_leaves_unchanged_sources_alone_and_removes_stale_ones(self):
        self.extract(PAGE)
        before = (self.output / "my_page.cpp").stat().st_mtime_ns
        self.extract(PAGE.replace("int main", "int domain"))
        self.assertEqual([p.name for p in self.output.iterdir()], ["my_page.cpp"])
        self.extract(PAGE)
        self.extract(PAGE)
        self.assertGreater((self.output / "my_page.cpp").stat().st_mtime_ns, before)
        last = (self.output / "my_page.cpp").stat().st_mtime_ns
        self.extract(PAGE)
        self.assertEqual((self.output / "my_page.cpp").stat().st_mtime_ns, last)

    def check(self, block, file="layers.h", language="cpp"):
        return self.extract(f"<!-- from: net/{file} -->\n```{language}\n{block}```\n", "--check-quotes")

    def test_a_block_from_a_file_is_lines_of_it_and_not_compiled(self):
        sources = self.page.parent / "net"
        sources.mkdir()
        (sources / "layers.h").write_text("// Layers.\nstruct Net {\n  int a;\n};\n")
        (sources / "list.txt").write_text("add_library(net)\n")
        mark = "<!-- from: net/layers.h -->\n```cpp\n"
        self.assertEqual(self.extract(mark + "struct Net {\n  int a;\n};\n```\n"), (0, ""))
        self.assertEqual(list(self.output.iterdir()), [])
        self.assertEqual(self.check("struct Net {\n  int a;\n};\n"), (0, ""))
        self.assertEqual(self.check("add_library(net)\n", "list.txt", "cmake"), (0, ""))
        for block in ("struct Net {\n  int b;\n};\n", "Net {\n  int a;\n", "struct Net {\n int a;\n", "  int\n"):
            code, message = self.check(block)
            self.assertEqual(code, 1, block)
            self.assertIn("My-page.md:3: this block is not in net/layers.h as it stands here", message)
        code, message = self.check("x\n", "gone.h")
        self.assertEqual(code, 1)
        self.assertIn("My-page.md:1: there is no file net/gone.h", message)

    def test_refuses_marks_it_does_not_know_or_that_mark_nothing(self):
        code, message = self.extract("<!-- snippet: fragmnt -->\n```cpp\nx\n```\n")
        self.assertEqual(code, 1)
        self.assertIn("unknown mark: fragmnt", message)
        code, message = self.extract("<!-- snippet: fragment -->\ntext\n")
        self.assertEqual(code, 1)
        self.assertIn("no block follows", message)
        code, message = self.extract("```cpp\nx\n")
        self.assertIn("not closed", message)


if __name__ == "__main__":
    unittest.main()
