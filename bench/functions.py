"""User instructions of one response by Python function, what it calls included, and by thread.

Callgrind sees the functions of C, and all Python code is one of them. So this program compiles an
extension module with some thousand functions of C that each do nothing but evaluate a frame, and
gives each Python function one of its own (`_PyInterpreterState_SetEvalFrameFunc`, CPython 3.11). A
call of a Python function takes some 250 instructions more than without that: compare the figures of
this program with each other, and let `bench/instructions.py` judge.

    python bench/functions.py [SCENARIO] [--responses N] [--checkout CHECKOUT] [--least K]

Needs valgrind and a C compiler.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from instructions import (
    CONFIG,
    LAUNCH,
    SCENARIOS,
    Client,
    Cost,
    Provider,
    free_port,
    read_calls,
    running_gateway,
)

FUNCTIONS = 4000

EVALUATE = """\
__attribute__((noinline))
PyObject *evaluate_{number}(PyThreadState *thread, Frame *frame, int raise)
{{ PyObject *result = _PyEval_EvalFrameDefault(thread, frame, raise);
  __asm__ volatile("" ::: "memory"); return result; }}
"""

MODULE = """\
static Py_ssize_t place;  // of the number in a code object
static long used = 0;
static FILE *names;

static PyObject *evaluate(PyThreadState *thread, Frame *frame, int raise) {{
    PyObject *code = (PyObject *)frame->f_code;
    void *number = NULL;
    _PyCode_GetExtra(code, place, &number);
    if (number == NULL && used < {last}) {{
        number = (void *)++used;
        _PyCode_SetExtra(code, place, number);
        fprintf(names, "%ld %s:%d %s\\n", used, PyUnicode_AsUTF8(frame->f_code->co_filename),
                frame->f_code->co_firstlineno, PyUnicode_AsUTF8(frame->f_code->co_qualname));
        fflush(names);
    }}
    return evaluators[(long)number](thread, frame, raise);
}}

static PyObject *start(PyObject *self, PyObject *path) {{
    names = fopen(PyUnicode_AsUTF8(path), "w");
    place = _PyEval_RequestCodeExtraIndex(NULL);
    _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), evaluate);
    Py_RETURN_NONE;
}}

static PyMethodDef methods[] = {{{{"start", start, METH_O, ""}}, {{0}}}};
static struct PyModuleDef module = {{PyModuleDef_HEAD_INIT, "named_frames", NULL, -1, methods}};
PyMODINIT_FUNC PyInit_named_frames(void) {{ return PyModule_Create(&module); }}
"""


def compile_module(directory: Path) -> None:
    """Make the extension module `named_frames`."""
    lines = ["#define Py_BUILD_CORE 1", "#include <Python.h>", "#include <internal/pycore_frame.h>"]
    lines += ["typedef struct _PyInterpreterFrame Frame;"]
    lines += [EVALUATE.format(number=number) for number in range(FUNCTIONS)]
    all_of_them = ", ".join(f"evaluate_{number}" for number in range(FUNCTIONS))
    lines += [f"static _PyFrameEvalFunction evaluators[] = {{{all_of_them}}};"]
    lines += [MODULE.format(last=FUNCTIONS - 1)]
    source = directory / "named_frames.c"
    source.write_text("\n".join(lines))
    include = f"-I{sysconfig.get_paths()['include']}"
    command = ["cc", "-O1", "-fno-optimize-sibling-calls", "-shared", "-fPIC", include]
    subprocess.run([*command, source, "-o", directory / "named_frames.so"], check=True)


def measure(name: str, responses: int, checkout: Path) -> Iterator[tuple[dict[str, Cost], int]]:
    """Yield the costs of Python functions, and the total, for each thread."""
    provider = Provider()
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="antiphon-functions-") as directory:
        work = Path(directory)
        compile_module(work)
        (work / "antiphon.toml").write_text(CONFIG.format(port=port, provider_port=provider.port))
        start = f"lambda *_: named_frames.start({str(work / 'names')!r})"
        launch = f"import signal, sys; sys.path.append({str(work)!r}); import named_frames\n"
        launch += f"signal.signal(signal.SIGUSR1, {start})\n{LAUNCH}"
        with running_gateway(work, checkout, port, launch) as gateway:
            client = Client(port, provider)
            for _ in range(10):  # imports, caches, a connection to the provider
                client.send(name)
            os.kill(gateway.pid, signal.SIGUSR1)
            time.sleep(1)
            for _ in range(6):
                client.send(name)
            gateway.control("instrumentation", "on")
            gateway.control("zero")
            for _ in range(responses):
                client.send(name)
            gateway.wait_until_idle()
            gateway.control("dump")
            names = (line.strip().partition(" ") for line in (work / "names").open())
            functions = {f"evaluate_{number}": function for number, _, function in names}
            for path in sorted(work.glob("profile.1-*")):
                with path.open() as lines:
                    found, total = read_calls(lines)
                yield {functions[each]: found[each] for each in found if each in functions}, total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("scenario", nargs="?", choices=SCENARIOS, default="whole")
    parser.add_argument("--responses", type=int, default=20)
    parser.add_argument("--checkout", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--least", type=float, default=1.0, help="thousand instructions to show")
    args = parser.parse_args()
    for found, total in measure(args.scenario, args.responses, args.checkout.resolve()):
        thousands = args.responses * 1000
        if total < args.least * thousands:
            continue
        print(f"{total / thousands:9.1f}          a thread")
        for function, cost in sorted(found.items(), key=lambda each: -each[1].instructions):
            if cost.instructions < args.least * thousands:
                break
            place = re.sub(r".*?/(antiphon|site-packages|lib/python[^/]*)/", "", function)
            print(
                f"{cost.instructions / thousands:9.1f} {cost.calls / args.responses:8.2f}  {place}"
            )


if __name__ == "__main__":
    main()
