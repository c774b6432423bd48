"""Makes a program from the code blocks of a tutorial, and compares what the
program prints with the output that the tutorial shows. CMakeLists.txt calls it
for docs/tutorial/tensors_to_processes.md.

usage: tutorial.py make TUTORIAL OUTPUT.cpp
       tutorial.py check TUTORIAL COMMAND...
"""
import pathlib
import re
import subprocess
import sys

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OUTSIDE = re.compile(r"^(#include|struct |class |TORCH_MODULE)")


def sections(text):
    """Pairs of a heading and its blocks: (kind, text)."""
    parts = re.split(r"^## ", text, flags=re.MULTILINE)
    return [(part.split("\n", 1)[0], BLOCK.findall(part)) for part in parts]


def program(text):
    outside, functions, calls = [], [], []
    for number, (_, blocks) in enumerate(sections(text)):
        body = []
        for kind, code in blocks:
            if kind == "cpp":
                (outside if OUTSIDE.match(code) else body).append(code)
        if body:
            functions.append(f"void section_{number}(const sheaf::World& world)"
                             " {\n" + "".join(body) + "(void)world;\n}\n")
            calls.append(f"  section_{number}(world);\n"
                         "  sheaf::barrier(world).wait();\n")
    return ("".join(outside) + "\n" + "\n".join(functions) +
            "\nint main(int argc, char** argv) {\n"
            "  const auto world = sheaf::init(argc, argv);\n"
            # Only rank 0 is compared.
            "  if (world.rank() != 0) std::cout.setstate(std::ios::badbit);\n" +
            "".join(calls) + "}\n")


def expected(text):
    return "".join(block for _, blocks in sections(text)
                   for kind, block in blocks if kind == "output")


def main():
    text = pathlib.Path(sys.argv[2]).read_text()
    if sys.argv[1] == "make":
        pathlib.Path(sys.argv[3]).write_text(program(text))
        return 0
    done = subprocess.run(sys.argv[3:], capture_output=True, text=True)
    sys.stderr.write(done.stderr)
    if done.returncode != 0:
        return done.returncode
    if done.stdout != expected(text):
        sys.stderr.write(f"printed:\n{done.stdout}expected:\n{expected(text)}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
