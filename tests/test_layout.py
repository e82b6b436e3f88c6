"""Which way imports run, read from the source."""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIBRARY = sorted((ROOT / "slim_mp").rglob("*.py"))
FLAG_ROOMS = ROOT / "slim_mp" / "flags"
SOURCES = [*LIBRARY, *sorted((ROOT / "nets").rglob("*.py")), *sorted(ROOT.glob("*.py"))]
# Run as python -m slim_mp.NAME, these build networks, as the programs at the top level do.
PROGRAMS_WITH_NETWORKS = {"slim_mp.precision_report", "slim_mp.predict"}
PROGRAMS = PROGRAMS_WITH_NETWORKS | {"slim_mp.fetch", "slim_mp.inspect"}


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(path):
    modules = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            modules.add(node.module)
            modules.update(f"{node.module}.{alias.name}" for alias in node.names)
    return modules


def assert_no_cycle(graph):
    """Takes a dict of a name to the set of names that it needs."""
    while graph:
        leaves = {name for name, needed in graph.items() if not needed & graph.keys()}
        assert leaves, f"a cycle among {sorted(graph)}"
        graph = {name: needed for name, needed in graph.items() if name not in leaves}


def test_there_is_something_to_check():
    assert len(LIBRARY) > 100
    assert "slim_mp.errors" in imported_modules(ROOT / "slim_mp" / "compat.py")
    with pytest.raises(AssertionError, match="a cycle among"):
        assert_no_cycle({"a": {"b"}, "b": {"a"}, "c": set()})


@pytest.mark.parametrize("path", LIBRARY, ids=module_name)
def test_the_library_does_not_import_networks(path):
    modules = imported_modules(path)
    if module_name(path) not in PROGRAMS_WITH_NETWORKS:
        assert not {name for name in modules if name.split(".")[0] == "nets"}
    # A room that imported such a program would import the networks with it.
    assert not modules & PROGRAMS_WITH_NETWORKS


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_only_compat_imports_tensorflow_and_only_flags_read_flags(path):
    modules = imported_modules(path)
    # The op callback is the one seam that TensorFlow offers inside its own package.
    allowed = {"tensorflow.python.framework", "tensorflow.python.framework.op_callbacks"}
    if path.name != "op_outputs.py":
        allowed = set()
    frameworks = {"tensorflow", "tf_slim", "tf_keras"}
    if path.name != "compat.py" and path.parent.name != "nets":
        assert {name for name in modules if name.split(".")[0] in frameworks} <= allowed
    if path.parent != FLAG_ROOMS:
        assert "absl.flags" not in modules


def test_imports_of_the_library_have_no_cycle():
    rooms = {module_name(path): path for path in LIBRARY if path.stem != "__init__"}
    assert_no_cycle(
        {name: imported_modules(path) & rooms.keys() - {name} for name, path in rooms.items()}
    )


def test_imports_of_its_packages_have_no_cycle():
    """Each package needs only packages below it; what lies in none is below all of them."""
    packages = {path.parent.name for path in LIBRARY if path.parent.parent.name == "slim_mp"}
    graph = {package: set() for package in packages}
    for path in LIBRARY:
        used = {name.split(".")[1] for name in imported_modules(path) if "slim_mp." in name}
        if path.parent.name in packages:
            graph[path.parent.name] |= used & packages - {path.parent.name}
        elif module_name(path) not in PROGRAMS:
            assert not used & packages, path
    assert_no_cycle(graph)
