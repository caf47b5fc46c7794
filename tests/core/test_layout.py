"""The layout of the package and the names in it, as CONTRIBUTING.md promises them."""

import ast
import re
import tomllib
from pathlib import Path

import aftereffect

PACKAGE = Path(aftereffect.__file__).parent
ROOT = Path(__file__).parents[2]
SOURCES = sorted(PACKAGE.rglob("*.py"))
SCRIPTS = sorted(PACKAGE.rglob("*.js"))
#: Words that once named too many things to name any.
WORN_OUT = {"told", "kept", "hired", "desk", "shelf", "ledger", "unsigned"}


def test_files_are_few():
    """As many as a newcomer can look through; a new one needs an idea of its own."""
    assert 100 < len(SOURCES) <= 250


def name_parts(name):
    """The words of a name, whether it is written with underscores or with capitals."""
    return {part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}


def names_in(path):
    """The names of a module, of what it defines, of parameters and of attributes; no local ones."""
    tree = ast.parse(path.read_bytes())
    yield path.stem
    for node in [*tree.body, *(each for each in ast.walk(tree) if isinstance(each, ast.ClassDef))]:
        for target in getattr(node, "targets", [getattr(node, "target", None)]):
            yield from (
                each.id for each in ast.walk(target or ast.Pass()) if isinstance(each, ast.Name)
            )
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, (ast.arg, ast.keyword)) and node.arg:
            yield node.arg
        elif isinstance(node, ast.Attribute):
            yield node.attr


def test_parts_of_names():
    assert name_parts("_guardrails_told") == {"guardrails", "told"}
    assert name_parts("KeptDesk") == {"kept", "desk"}
    assert worn_out(["toldness", "TOLD_AT", "bookkeeping"]) == {"TOLD_AT"}


def worn_out(names):
    return {name for name in names if name_parts(name) & WORN_OUT}


def test_no_name_is_one_of_the_worn_out_words():
    found = {path.relative_to(PACKAGE): worn_out(names_in(path)) for path in SOURCES}
    assert not {path: names for path, names in found.items() if names}
    assert len(found) > 100


def test_no_name_in_a_script_is_one_of_the_worn_out_words():
    found = {}
    for path in SCRIPTS:
        code = re.sub(r"/\*.*?\*/|//[^\n]*", " ", path.read_text(), flags=re.DOTALL)
        names = re.findall(r"\b(?:function|const|let|class)\s+([\w$]+)|\b([\w$]+)\s*=>", code)
        found[path.name] = worn_out(name for pair in names for name in pair)
        assert names
    assert not {path: names for path, names in found.items() if names}


def contracts():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return settings["tool"]["importlinter"]["contracts"]


def test_the_guide_lists_the_layers_that_are_enforced():
    enforced = next(each["layers"] for each in contracts() if each["type"] == "layers")
    table = (ROOT / "CONTRIBUTING.md").read_text().partition("| layer,")[2].partition("\n\n")[0]
    listed = [re.findall(r"`(\w+)`", row.split("|")[1]) for row in table.splitlines()[2:]]
    assert [set(names) for names in listed] == [set(names.split(" | ")) for names in enforced]


def test_every_package_is_imported_through_its_init_only():
    """A new package has a contract of its own: import-linter does not know that one is missing."""
    protected = {
        module.removesuffix(".*")
        for contract in contracts()
        if contract["type"] == "protected"
        for module in contract["protected_modules"]
    }
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert protected == {f"aftereffect.{package}" for package in packages}


def test_tests_mirror_the_packages():
    packages = {path.parent.name.lstrip("_") for path in PACKAGE.glob("*/__init__.py")}
    folders = {path.parent.name for path in Path(__file__).parents[1].glob("*/test_*.py")}
    assert folders <= packages
    #: The checks in `testing` run over our own policies, bandits and storages; the client's tests
    #: need a service and are beside those of the service.
    assert packages - folders == {"client", "testing"}
