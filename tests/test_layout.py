"""Which way imports run, read from the source."""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIBRARY = sorted((ROOT / "slim_mp").glob("*.py"))
FLAG_ROOMS = (
    "flags.py",
    "flag_groups.py",
    "update_flags.py",
    "input_flags.py",
    "eval_flags.py",
    "flag_checks.py",
    "checkpoint_flags.py",
    "subject_flags.py",
    "export_flags.py",
    "predict_flags.py",
    "report_flags.py",
    "conversion_flags.py",
    "program.py",
)
SOURCES = [*LIBRARY, *sorted((ROOT / "nets").rglob("*.py")), *sorted(ROOT.glob("*.py"))]
# Run as python -m slim_mp.NAME, these build networks, as the programs at the top level do.
PROGRAMS_WITH_NETWORKS = {"precision_report.py", "predict.py"}


def imported_modules(path):
    modules = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            modules.add(node.module)
            modules.update(f"{node.module}.{alias.name}" for alias in node.names)
    return modules


def test_there_is_something_to_check():
    assert len(LIBRARY) > 10
    assert "slim_mp.errors" in imported_modules(ROOT / "slim_mp" / "compat.py")


@pytest.mark.parametrize("path", LIBRARY, ids=lambda path: path.name)
def test_the_library_does_not_import_networks(path):
    modules = imported_modules(path)
    if path.name not in PROGRAMS_WITH_NETWORKS:
        assert not {name for name in modules if name.split(".")[0] == "nets"}
    # A room that imported such a program would import the networks with it.
    programs = {f"slim_mp.{name.removesuffix('.py')}" for name in PROGRAMS_WITH_NETWORKS}
    assert not modules & programs


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_compat_imports_tensorflow_and_only_flags_read_flags(path):
    modules = imported_modules(path)
    # The op callback is the one seam that TensorFlow offers inside its own package.
    allowed = {"tensorflow.python.framework", "tensorflow.python.framework.op_callbacks"}
    if path.name != "op_outputs.py":
        allowed = set()
    frameworks = {"tensorflow", "tf_slim", "tf_keras"}
    if path.name != "compat.py" and path.parent.name != "nets":
        assert {name for name in modules if name.split(".")[0] in frameworks} <= allowed
    if path.name not in FLAG_ROOMS:
        assert "absl.flags" not in modules


def test_imports_of_the_library_have_no_cycle():
    names = {path.stem for path in LIBRARY} - {"__init__"}
    graph = {}
    for path in LIBRARY:
        parts = {
            name.split(".")[1] for name in imported_modules(path) if name.startswith("slim_mp.")
        }
        graph[path.stem] = (parts & names) - {path.stem}
    while graph:
        leaves = {name for name, needed in graph.items() if not needed & graph.keys()}
        assert leaves, f"a cycle among {sorted(graph)}"
        graph = {name: needed for name, needed in graph.items() if name not in leaves}
