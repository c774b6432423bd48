"""Each check finds a fault in a small bad tree, and none in a good one."""
import contextlib
import io
import json
import runpy
import sys
import tempfile
import unittest
from pathlib import Path

import format as format_check
import headers
import layers
import links
import pictures
import tree
import words

COMPILERS = sys.argv[1:]


@contextlib.contextmanager
def made_of(files):
    """A passing tree of `files`."""
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            path = Path(root) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        yield root


def run(check, files, *arguments):
    """Exit code and text of a check on a tree made of `files`."""
    with made_of(files) as root:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            code = check(root, *arguments)
        return code, out.getvalue()


class HygieneTest(unittest.TestCase):
    def expect_fault(self, told, check, files, *arguments):
        code, text = run(check, files, *arguments)
        self.assertEqual(code, 1, text)
        self.assertIn(told, text)

    def expect_clean(self, check, files, *arguments):
        code, text = run(check, files, *arguments)
        self.assertEqual(code, 0, text)


class Layers(HygieneTest):
    def include(self, name, target):
        return {name: f"#pragma once\n#include {target}\n"}

    def test_a_lower_layer_may_be_included(self):
        for name, target in (
                ("sheaf/comm/a.hpp", '"sheaf/base/error.hpp"'),
                ("sheaf/train/a.hpp", '"sheaf/topo/dims.hpp"'),
                ("sheaf/parallel/a.cpp", '"sheaf/plan/format/exchange_plan.hpp"'),
                ("sheaf/tensor/a.cpp", "<torch/torch.h>"),
                ("sheaf/comm/transport/mpi_transport.cpp", "<mpi.h>"),
                ("sheaf/comm/transport/mpi_types.hpp", "<mpi.h>"),
                ("sheaf/comm/mpi_a.cpp", '"sheaf/comm/transport/mpi_types.hpp"'),
                ("tests/cli/mpi_victim.c", "<mpi.h>"),
                ("sheaf/cli/command/commands.cpp", '"sheaf_commands.inc"'),
                ("bench/versus_mpi.cpp", "<mpi.h>")):
            self.expect_clean(layers.check, self.include(name, target))

    def test_a_higher_or_unrelated_layer_may_not(self):
        for name, target in (
                ("sheaf/base/a.hpp", '"sheaf/topo/dims.hpp"'),
                ("sheaf/topo/a.cpp", '"sheaf/comm/group/group.hpp"'),
                ("sheaf/plan/a.hpp", '"sheaf/comm/group/group.hpp"'),
                ("sheaf/report/a.hpp", "<sheaf/topo/dims.hpp>"),
                ("sheaf/nn/a.hpp", '"sheaf/parallel/data/reducer.hpp"'),
                ("sheaf/parallel/a.hpp", '"sheaf/plan/graph/step_replay.hpp"'),
                ("sheaf/comm/a.hpp", '"sheaf/sheaf.hpp"')):
            self.expect_fault(f"{name}:2: ", layers.check,
                              self.include(name, target))

    def test_torch_and_mpi_have_their_places(self):
        for name, target in (("sheaf/comm/a.hpp", "<torch/torch.h>"),
                             ("sheaf/plan/a.cpp", "<c10/util/Half.h>"),
                             ("sheaf/comm/group/group.cpp", "<mpi.h>"),
                             ("sheaf/comm/mpi_other.hpp", "<mpi.h>"),
                             ("sheaf/comm/a.cpp", f'"{layers.MPI_HEADER}"'),
                             ("tests/comm/a_ranks.cpp", '"mpi.h"')):
            self.expect_fault(f"{name}:2: ", layers.check,
                              self.include(name, target))

    def test_rooms_include_those_below_them(self):
        kernels = "sheaf/comm/kernels/a.hpp"
        group = "sheaf/comm/group/a.hpp"
        self.expect_clean(layers.check, self.include(group, f'"{kernels}"'))
        self.expect_clean(
            layers.check, self.include("sheaf/cli/a.cpp",
                                       '"sheaf/cli/bench/b.hpp"'))
        self.expect_fault("may include no other only", layers.check,
                          self.include(kernels, f'"{group}"'))
        self.expect_fault(
            "the room launch of cli", layers.check,
            self.include("sheaf/cli/launch/a.cpp", '"sheaf/cli/bench/b.hpp"'))
        self.expect_fault(
            "unknown room attic", layers.check,
            self.include("sheaf/comm/attic/a.cpp", f'"{kernels}"'))

    def test_folders_are_small_and_tests_mirror_rooms(self):
        many = {f"sheaf/base/a{i}.cpp": "" for i in range(41)}
        self.expect_fault("sheaf/base: 41 sources", layers.check, many)
        many.popitem()
        self.expect_clean(layers.check, many)
        self.expect_clean(layers.check, {"tests/comm/host/a_test.cpp": ""})
        self.expect_fault("comm has no room attic", layers.check,
                          {"tests/comm/attic/a_test.cpp": ""})

    def test_the_manual_names_layers_and_rooms(self):
        layer_names = "".join(f"`{layer}` " for layer in layers.BELOW)
        tables = "".join(
            f"\n\n| `{layer}/` | holds |\n" + "".join(
                f"| `{room}` | |\n" for room in rooms)
            for layer, rooms in layers.ROOMS.items())
        manual = "docs/architecture.md"
        whole = layer_names + tables + "\n\n"
        self.expect_clean(layers.check, {manual: whole})
        self.expect_fault("the layer topo is not named", layers.check,
                          {manual: whole.replace("`topo`", "")})
        self.expect_fault("the room kernels of comm", layers.check,
                          {manual: whole.replace("| `kernels` |", "")})

    def test_an_unknown_layer_and_a_bare_name_are_told(self):
        self.expect_fault("not in layers.py", layers.check,
                          self.include("sheaf/new/a.hpp", "<vector>"))
        self.expect_fault("whole path", layers.check,
                          self.include("sheaf/base/a.cpp", '"error.hpp"'))


class Format(HygieneTest):
    STYLE = {".clang-format": "BasedOnStyle: Google\n"}

    def setUp(self):
        program, reason = format_check.clang_format()
        if program is None:
            self.skipTest(reason)

    def test_clean_and_unclean(self):
        self.expect_clean(format_check.check,
                          {**self.STYLE, "a.cpp": "int main() {}\n"})
        self.expect_fault("a.cpp:1", format_check.check,
                          {**self.STYLE, "a.cpp": "int  main( ) { }\n"})


class Headers(HygieneTest):
    def test_a_header_brings_what_it_uses(self):
        good = "#pragma once\n#include <string>\nstd::string f();\n"
        self.expect_clean(headers.check, {"sheaf/base/a.hpp": good}, COMPILERS)
        self.expect_fault("sheaf/base/a.hpp", headers.check,
                          {"sheaf/base/a.hpp": "std::string f();\n"}, COMPILERS)

    def test_only_the_first_include_is_proven_by_the_build(self):
        bad = {"sheaf/base/a.hpp": "std::string f();\n"}
        first = '#include "sheaf/base/a.hpp"\n'
        self.expect_clean(headers.check,
                          {**bad, "sheaf/base/a.cpp": first}, COMPILERS)
        late = "#include <string>\n" + first
        self.expect_fault("sheaf/base/a.hpp", headers.check,
                          {**bad, "sheaf/base/a.cpp": late}, COMPILERS)

    def test_what_cannot_be_compiled_here_is_skipped(self):
        bad = {"sheaf/nn/a.hpp": "std::string f();\n"}
        self.expect_clean(headers.check, bad,
                          [*COMPILERS, "--skip=sheaf/nn/"])

    def test_a_c_header_is_c(self):
        good = "#include <stddef.h>\nint f(size_t count);\n"
        self.expect_clean(headers.check, {"sheaf/a.h": good}, COMPILERS)
        self.expect_fault("sheaf/a.h", headers.check,
                          {"sheaf/a.h": "namespace a {}\n"}, COMPILERS)


class Links(HygieneTest):
    TREE = {"docs/errors.md": "# The kinds\n", "sheaf/base/error.hpp": ""}

    def page(self, text):
        return {**self.TREE, "README.md": text}

    def test_what_exists(self):
        for text in ("[a](docs/errors.md#the-kinds) [b](#top)\n# Top\n",
                     "`sheaf/base/error.hpp`, `sheaf/base/*.hpp`, `docs/`\n",
                     "```\n#include <sheaf/base/error.hpp>\n```\n",
                     "`tests/<layer>/x.cpp`, plain tests/none.cpp\n"):
            self.expect_clean(links.check, self.page(text))

    def test_what_does_not(self):
        for text in ("[a](docs/none.md)\n", "[a](docs/errors.md#none)\n",
                     "`sheaf/base/none.hpp`\n", "`sheaf/none/*.hpp`\n",
                     "```\n#include <sheaf/none.hpp>\n```\n",
                     "```sh\nscripts/none up\n```\n", "see `NONE.md`\n",
                     "[`a`](docs/none.md)\n"):
            self.expect_fault("README.md:", links.check, self.page(text))


class Pictures(HygieneTest):
    def results(self, ratio):
        row = {"ranks": 2, "buffer": "arena", "size_bytes": 64, "date": "",
               "versus": "mpi", "ratio": ratio, "command": "sheaf bench"}
        lines = [json.dumps(dict(row, buffer=buffer, size_bytes=size))
                 for buffer in ("arena", "plain") for size in (8, 1 << 20)]
        return {f"results/all_reduce_{cores}_cores.jsonl": "\n".join(lines)
                for cores in (2, 16)}

    def picture_of(self, files):
        drawing = runpy.run_path(str(pictures.SCRIPT))
        with made_of(files) as root:
            return {drawing["PICTURE"]: drawing["draw"](root)}

    def test_a_picture_of_other_results(self):
        now = self.results(2)
        self.expect_clean(pictures.check, {**now, **self.picture_of(now)})
        self.expect_fault("draw-results", pictures.check, now)
        before = self.picture_of(self.results(3))
        self.expect_fault("draw-results", pictures.check, {**now, **before})


class Words(HygieneTest):
    def test_neutral_text(self):
        text = ("see /usr/lib, $HOME/x, ../work/x\n"
                "tcp://localhost:1 http://127.0.0.1/ https://a.example.org/\n")
        self.expect_clean(words.check, {"a.txt": text})

    def test_private_paths_and_foreign_hosts(self):
        # In two pieces each: this file is checked as well.
        for text in ("cd /ho" + "me/ann/src", "/ro" + "ot/.cache",
                     "/wor" + "k/main", "curl https:/" + "/get.foreign.io/x"):
            self.expect_fault("a.txt:1", words.check, {"a.txt": text})

    def test_idioms_and_spelling(self):
        for text in ("the error is " + "told", "measured in " + "turns",
                     "an optimi" + "ser", "its neighbou" + "rs"):
            self.expect_fault("a.txt:1", words.check, {"a.txt": text})
        self.expect_clean(words.check, {"a.txt": "raises a promise; otherwise"})

    def test_inputs_of_fuzz_targets_may_contain_anything(self):
        self.expect_clean(words.check, {
            "tests/fuzz/corpus/a/seed": "https:/" + "/get.foreign.io/x"})


class Tree(unittest.TestCase):
    def test_build_folders_are_left_out(self):
        with tempfile.TemporaryDirectory() as root:
            for name in ("a.cpp", "build-dev/b.cpp", "sheaf/c.cpp"):
                (Path(root) / name).parent.mkdir(exist_ok=True)
                (Path(root) / name).touch()
            self.assertEqual(tree.files_of(root, ".cpp"),
                             ["a.cpp", "sheaf/c.cpp"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
