"""Project rules: layout, sizes, imports, time and randomness, documentation, words."""

import ast
import re
import shutil
import statistics
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest
from grimp import ImportGraph

from tests.packages_contract import PackagesContract
from tests.private_words import INSTEAD, occurrences, private_words

ROOT = Path(__file__).resolve().parent.parent
SOURCES = (ROOT / "scheduler", ROOT / "plugins")
PACKAGE = ROOT / "scheduler" / "phalanx"
PLUGINS = ROOT / "plugins" / "phalanx_plugins"
FILES = sorted(path for source in SOURCES for path in source.rglob("*.py"))
PACKAGES = (
    *("phalanx", "phalanx_controlplane", "phalanx_dashboard", "phalanx_dialects", "phalanx_plugins"),
    "phalanx_simulator",
)

TOP_LEVEL = {
    *(".ci", ".gitignore", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md"),
    *("mkdocs.yml", "pyproject.toml"),
    *("CHANGELOG.md", "CODE_OF_CONDUCT.md", "GOVERNANCE.md", "MAINTAINERS.md", "ROADMAP.md", "SECURITY.md"),
    *(".github", "scheduler", "plugins", "crds", "deploy", "tests", "bench", "docs"),
}

FUNCTION_LINES_MAX = 60
FUNCTION_LINES_P90 = 30
FUNCTION_LINES_MEDIAN = 10
FILE_LINES_MAX = 500

CLOCK = PACKAGE / "clock.py"
TIME_AND_RANDOMNESS = {"now", "utcnow", "today", "urandom", "getrandom", "uuid1", "uuid4"}
UNIT_OF_SUFFIX = {"_S": "Seconds", "_MS": "Milliseconds", "_BYTES": "Bytes"}


pytestmark = pytest.mark.xdist_group("tidy")
"""One process reads all files once."""


class _Trees(dict[Path, ast.Module]):
    """Syntax trees, parsed on first use, so that not every process that collects tests parses them."""

    def __missing__(self, path: Path) -> ast.Module:
        self[path] = tree = ast.parse(path.read_text())
        return tree


TREES = _Trees()

Function = ast.FunctionDef | ast.AsyncFunctionDef


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions() -> Iterator[tuple[str, int]]:
    """Each function with its length in lines."""
    for path in FILES:
        for node in ast.walk(TREES[path]):
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


def words_of(path: Path) -> set[str]:
    """Every word of a file."""
    return set(re.findall(r"\w+", path.read_text()))


@pytest.mark.skipif(not (ROOT / ".git").exists() or not shutil.which("git"), reason="not a git checkout")
def test_the_top_level_contains_the_expected_names_only() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {name.partition("/")[0] for name in listed.stdout.split("\0") if name} == TOP_LEVEL


def test_the_source_roots_hold_the_packages_only() -> None:
    folders = [path for source in SOURCES for path in source.iterdir() if path.is_dir()]
    assert sorted(path.name for path in folders if path.name != "__pycache__") == sorted(PACKAGES)


def test_no_function_is_too_long() -> None:
    assert [name for name, lines in functions() if lines > FUNCTION_LINES_MAX] == []


def test_most_functions_are_short() -> None:
    lengths = [lines for _, lines in functions()]
    assert statistics.median(lengths) <= FUNCTION_LINES_MEDIAN
    assert statistics.quantiles(lengths, n=10)[-1] <= FUNCTION_LINES_P90


def test_no_file_is_too_long() -> None:
    long = [name_of(path) for path in FILES if len(path.read_text().splitlines()) > FILE_LINES_MAX]
    assert long == []


def test_a_package_file_is_only_a_docstring() -> None:
    packages = {path: TREES[path] for path in FILES if path.name == "__init__.py"}
    assert [name_of(path) for path, tree in packages.items() if not only_a_docstring(tree)] == []


def only_a_docstring(tree: ast.Module) -> bool:
    return len(tree.body) == 1 and docstring(tree.body[0]) != ""


def test_every_package_folder_has_a_package_file() -> None:
    folders = {path.parent for path in FILES}
    assert [name_of(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


def test_time_and_randomness_come_from_clock_py_only() -> None:
    found = [
        f"{name_of(path)}:{node.lineno} {ast.unparse(node)}"
        for path in FILES
        if path != CLOCK
        for node in ast.walk(TREES[path])
        if isinstance(node, ast.Attribute) and reads_time_or_randomness(node)
    ]
    assert found == []


def reads_time_or_randomness(node: ast.Attribute) -> bool:
    """Whether this is `datetime.now` or the like, by the name of the module or class; not `clock.now_ms`."""
    owner = node.value
    name = owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""
    return node.attr in TIME_AND_RANDOMNESS and name in {"datetime", "date", "os", "uuid"}


@pytest.fixture(scope="module")
def graph() -> ImportGraph:
    return grimp.build_graph(*PACKAGES, include_external_packages=True, cache_dir=None)


def test_no_modules_import_each_other_in_a_cycle(graph: ImportGraph) -> None:
    """Imports for type checking count too."""
    assert cycle({module: imported_by(module, graph) for module in modules(graph)}) == []


def test_no_packages_import_each_other_in_a_cycle(graph: ImportGraph) -> None:
    """Checks the sub-packages and single modules of `phalanx`, and the other packages."""
    imports: dict[str, set[str]] = {}
    for module in modules(graph):
        importer = package_of(module)
        imported = {package_of(other) for other in imported_by(module, graph)}
        imports.setdefault(importer, set()).update(imported - {importer})
    assert cycle(imports) == []


def modules(graph: ImportGraph) -> list[str]:
    return sorted(module for module in graph.modules if module.partition(".")[0] in PACKAGES)


def imported_by(module: str, graph: ImportGraph) -> set[str]:
    """The modules of our packages that this one imports."""
    imported = graph.find_modules_directly_imported_by(module)
    return {other for other in imported if other.partition(".")[0] in PACKAGES}


def package_of(module: str) -> str:
    return ".".join(module.split(".")[:2]) if module.startswith("phalanx.") else module.partition(".")[0]


def cycle(imports: Mapping[str, Iterable[str]]) -> list[str]:
    """Return one import cycle, or an empty list."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return [str(name) for name in error.args[1]]
    return []


def test_every_module_is_used(graph: ImportGraph) -> None:
    """By an import, by its dotted name in a string (commands are imported on use), or as an entry point."""
    strings = {text for path in FILES for text in string_constants(TREES[path])} | entry_points()
    dead = [
        module
        for path in FILES
        if path.name not in ("__init__.py", "__main__.py")
        and path.parent != PLUGINS
        and not graph.find_modules_that_directly_import(module := module_of(path))
        and module not in strings
    ]
    assert dead == []


def string_constants(tree: ast.Module) -> Iterator[str]:
    """Strings that may name a module, without the function that follows a colon."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value.partition(":")[0]


def entry_points() -> set[str]:
    files = (ROOT / "pyproject.toml", ROOT / "deploy" / "simulator" / "pyproject.toml")
    projects = [tomllib.loads(file.read_text())["project"] for file in files]
    groups = [group for each in projects for group in each["entry-points"].values()]
    groups += [projects[0]["scripts"]]
    return {target.partition(":")[0] for group in groups for target in group.values()}


def test_every_bound_has_its_unit_and_reason() -> None:
    """Those that one module alone needs are in that module, in these packages."""
    folders = [PACKAGE / name for name in ("cli", "kube", "service")]
    folders += [SOURCES[0] / "phalanx_dashboard", SOURCES[0] / "phalanx_dialects"]
    with_unit = [path for folder in folders for path in FILES if path.is_relative_to(folder)]
    bounds = [
        (name, text)
        for path in FILES
        for name, text in constants(TREES[path])
        if path.name == "limits.py" or (path in with_unit and name.endswith(tuple(UNIT_OF_SUFFIX)))
    ]
    assert [name for name, text in bounds if not explains(name, text)] == []


def explains(name: str, text: str) -> bool:
    units = [unit for suffix, unit in UNIT_OF_SUFFIX.items() if name.endswith(suffix)]
    return text != "" and all(text.startswith(unit) for unit in units)


def test_every_bound_is_used() -> None:
    """In another file than the one that defines it."""
    files_with = Counter(word for path in FILES for word in words_of(path))
    limits = [path for path in FILES if path.name == "limits.py"]
    assert [name for path in limits for name, _ in constants(TREES[path]) if files_with[name] < 2] == []


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
    scenarios = text_of(
        path for glob in ("*.yaml", "*.py") for path in (ROOT / "tests" / "scenarios").rglob(glob)
    )
    documentation = text_of([ROOT / "docs" / "reasons.md"])
    assert [reason for reason in reasons if f"`{reason}`" not in documentation] == [], (
        "not in docs/reasons.md"
    )
    tests = text_of((ROOT / "tests" / "reasons").glob("*.py"))
    names = [re.sub(r"(?<!^)(?=[A-Z])", "_", reason).upper() for reason in reasons]
    missing = [
        reason
        for reason, name in zip(reasons, names, strict=True)
        if reason not in scenarios and f"Reason.{name}" not in tests
    ]
    assert missing == [], "not in tests/scenarios, nor in tests/reasons"


def test_every_metric_is_documented() -> None:
    text = text_of([PACKAGE / "observe" / "metrics.py"])
    documentation = text_of([ROOT / "docs" / "metrics.md"])
    metrics = re.findall(r'"(phalanx_\w+)"', text)
    assert [metric for metric in metrics if f"`{metric}`" not in documentation] == []


def text_of(paths: Iterable[Path]) -> str:
    """The joined text of these files; missing files count as empty."""
    return "\n".join(path.read_text() for path in sorted(paths) if path.is_file())


@pytest.mark.parametrize("name", sorted(path.name for path in ROOT.iterdir() if path.name in TOP_LEVEL))
def test_no_private_words_are_used(name: str) -> None:
    """tests/private_words.py lists the standard terms."""
    found = list(occurrences(ROOT / name))
    assert not found, f"{len(found)} private words, of which the first are:\n" + "\n".join(found[:20])


def test_private_words_are_found_in_identifiers_and_prose() -> None:
    word = next(each for each in INSTEAD if " " not in each)
    phrase = next(each for each in INSTEAD if " " in each)
    name = phrase.replace(" ", "_")
    text = (
        f"class {word.title()}Table:\n    # a {word} {phrase} it\n    {name}, {name.upper()}, x{word} = 1\n"
    )
    assert list(private_words(text)) == [(1, word), (2, word), (2, phrase), (3, phrase), (3, phrase)]
    assert all(words == words.lower() for words in INSTEAD)


ALLOWED = {
    "packages": ["model: limits", "solver: model.problem", "phalanx_plugins: model"],
    "only": ["ortools: solver"],
}


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
        ("phalanx_plugins.drf", "phalanx.model.gangs", True),
        ("phalanx_plugins.drf", "phalanx.solver.single.greedy", False),
        ("phalanx_plugins.drf", "phalanx_plugins.queues", True),
        ("phalanx.solver.single.greedy", "phalanx_plugins.drf", False),
        ("phalanx_cellar.rack", "phalanx.model.pods", False),
    ],
)
def test_the_packages_contract(importer: str, imported: str, *, kept: bool) -> None:
    graph = ImportGraph()
    graph.add_import(importer=importer, imported=imported)
    roots = ["phalanx", "phalanx_plugins", "phalanx_cellar"]
    contract = PackagesContract(
        name="packages", session_options={"root_packages": roots}, contract_options=ALLOWED
    )
    assert contract.check(graph, verbose=False).kept is kept
