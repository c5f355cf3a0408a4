"""The rules of the house that a machine can check: sizes, time and chance, dead modules, documentation."""

import ast
import re
import statistics
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import grimp
import pytest
from grimp import ImportGraph

from tests.packages_contract import PackagesContract

ROOT = Path(__file__).resolve().parent.parent
SOURCES = (ROOT / "scheduler", ROOT / "plugins")
PACKAGE = ROOT / "scheduler" / "phalanx"
PLUGINS = ROOT / "plugins" / "phalanx_plugins"
FILES = sorted(path for source in SOURCES for path in source.rglob("*.py"))
PACKAGES = ("phalanx", "phalanx_controlplane", "phalanx_plugins", "phalanx_simulator")
TREES = {path: ast.parse(path.read_text()) for path in FILES}

FUNCTION_LINES_MAX = 60
FUNCTION_LINES_P90 = 30
FUNCTION_LINES_MEDIAN = 10
FILE_LINES_MAX = 500

CLOCK = PACKAGE / "clock.py"
WALL_CLOCK_AND_CHANCE = {"now", "utcnow", "today", "urandom", "getrandom", "uuid1", "uuid4"}
OFFERED: set[str] = set()
"""What these rooms offer to benchmarks and tests, which are their only users so far."""

UNIT_OF_SUFFIX = {"_S": "Seconds", "_MS": "Milliseconds", "_BYTES": "Bytes"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions() -> Iterator[tuple[str, int]]:
    """Each function with its length in lines."""
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, Function):
                yield f"{name_of(path)}:{node.lineno} {node.name}", (node.end_lineno or 0) - node.lineno + 1


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts[1:]).removesuffix(".__init__")


def constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Each module constant with the docstring below it, which may be empty."""
    for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, docstring(after)


def docstring(node: ast.stmt | None) -> str:
    if (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ):
        return node.value.value
    return ""


def words_of_other_files(*paths: Path) -> set[str]:
    """Every identifier and word that the package uses outside these files."""
    text = "\n".join(path.read_text() for path in FILES if path not in paths)
    return set(re.findall(r"\w+", text))


def test_no_function_is_too_long() -> None:
    assert [name for name, lines in functions() if lines > FUNCTION_LINES_MAX] == []


def test_most_functions_are_short() -> None:
    lengths = [lines for _, lines in functions()]
    assert statistics.median(lengths) <= FUNCTION_LINES_MEDIAN
    assert statistics.quantiles(lengths, n=10)[-1] <= FUNCTION_LINES_P90


def test_no_file_is_too_long() -> None:
    long = [name_of(path) for path in FILES if len(path.read_text().splitlines()) > FILE_LINES_MAX]
    assert long == []


def test_a_package_file_only_says_what_belongs_in_its_folder() -> None:
    packages = {path: tree for path, tree in TREES.items() if path.name == "__init__.py"}
    assert [name_of(path) for path, tree in packages.items() if not only_a_docstring(tree)] == []


def only_a_docstring(tree: ast.Module) -> bool:
    return len(tree.body) == 1 and docstring(tree.body[0]) != ""


def test_every_folder_of_the_package_has_such_a_file() -> None:
    folders = {path.parent for path in FILES}
    assert [name_of(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


def test_wall_clock_and_chance_come_from_clock_py_only() -> None:
    found = [
        f"{name_of(path)}:{node.lineno} {ast.unparse(node)}"
        for path, tree in TREES.items()
        if path != CLOCK
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and asks_the_machine(node)
    ]
    assert found == []


def asks_the_machine(node: ast.Attribute) -> bool:
    """`datetime.now` and its like, by the module's or class's own name; `clock.now_ms` is another thing."""
    owner = node.value
    name = owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""
    return node.attr in WALL_CLOCK_AND_CHANCE and name in {"datetime", "date", "os", "uuid"}


@pytest.fixture(scope="module")
def graph() -> ImportGraph:
    return grimp.build_graph(*PACKAGES, include_external_packages=True, cache_dir=None)


def test_every_module_is_used(graph: ImportGraph) -> None:
    """By an import, by its dotted name in a string (commands load late), or as an entry point."""
    strings = {text for tree in TREES.values() for text in string_constants(tree)} | entry_points()
    dead = [
        module
        for path in FILES
        if path.name not in ("__init__.py", "__main__.py")
        and path.parent != PLUGINS
        and not graph.find_modules_that_directly_import(module := module_of(path))
        and module not in strings
        and module not in OFFERED
    ]
    assert dead == []


def string_constants(tree: ast.Module) -> Iterator[str]:
    """Strings that may name a module, without the function that follows a colon."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value.partition(":")[0]


def entry_points() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {target.partition(":")[0] for target in project["scripts"].values()}


def test_every_bound_has_its_unit_and_reason() -> None:
    files = [path for path in FILES if path.name == "limits.py"]
    named = [each for file in files for each in constants(TREES[file])]
    assert [name for name, text in named if not explains(name, text)] == []


def explains(name: str, text: str) -> bool:
    units = [unit for suffix, unit in UNIT_OF_SUFFIX.items() if name.endswith(suffix)]
    return text != "" and all(text.startswith(unit) for unit in units)


def test_every_bound_bounds_something() -> None:
    limits = PACKAGE / "limits.py"
    used = words_of_other_files(limits)
    assert [name for name, _ in constants(TREES[limits]) if name not in used] == []


def test_every_plugin_documents_itself_for_users() -> None:
    plugins = [path for path in FILES if path.parent == PLUGINS and path.name != "__init__.py"]
    assert [name_of(path) for path in plugins if len(module_doc(path).splitlines()) < 3] == []


def module_doc(path: Path) -> str:
    return ast.get_docstring(TREES[path]) or ""


def members_of_enum(path: Path, name: str) -> list[str]:
    """The values of a string enum, read from the source."""
    classes = [node for node in TREES[path].body if isinstance(node, ast.ClassDef) and node.name == name]
    return [
        str(node.value.value)
        for each in classes
        for node in each.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
    ]


def test_every_reason_is_documented_and_has_a_scenario() -> None:
    reasons = members_of_enum(PACKAGE / "model" / "reasons.py", "Reason")
    assert reasons
    scenarios = text_of((ROOT / "tests" / "scenarios").rglob("*.*"))
    documentation = text_of([ROOT / "docs" / "reasons.md"])
    assert [reason for reason in reasons if f"`{reason}`" not in documentation] == [], (
        "not in docs/reasons.md"
    )
    assert [reason for reason in reasons if reason not in scenarios] == [], "not in tests/scenarios"


def test_every_metric_is_documented() -> None:
    text = text_of([PACKAGE / "observe" / "metrics.py"])
    documentation = text_of([ROOT / "docs" / "metrics.md"])
    metrics = re.findall(r'"(phalanx_\w+)"', text)
    assert [metric for metric in metrics if f"`{metric}`" not in documentation] == []


def text_of(paths: Iterable[Path]) -> str:
    """All that these files say; a file that is not there says nothing."""
    return "\n".join(path.read_text() for path in sorted(paths) if path.is_file())


ALLOWED = {"packages": ["model: limits", "solver: model.problem"], "only": ["ortools: solver"]}


@pytest.mark.parametrize(
    ("importer", "imported", "kept"),
    [
        ("phalanx.model.pods", "phalanx.limits", True),
        ("phalanx.model.pods", "phalanx.model.gangs", True),
        ("phalanx.solver.single.greedy", "phalanx.model.problem", True),
        ("phalanx.solver.single.greedy", "phalanx.model.problems", False),
        ("phalanx.solver.counting.exact", "ortools", True),
        ("phalanx.model.pods", "ortools", False),
        ("phalanx.model.pods", "phalanx.solver.single.greedy", False),
        ("phalanx.model.pods", "phalanx", True),
        ("phalanx.cellar.rack", "phalanx.model.pods", False),
    ],
)
def test_the_contract_of_rooms_keeps_and_breaks(importer: str, imported: str, *, kept: bool) -> None:
    graph = ImportGraph()
    graph.add_import(importer=importer, imported=imported)
    contract = PackagesContract(
        name="packages", session_options={"root_packages": ["phalanx"]}, contract_options=ALLOWED
    )
    assert contract.check(graph, verbose=False).kept is kept
