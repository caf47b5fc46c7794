"""Documents that must agree with the code and with each other."""

import re
from pathlib import Path

import pytest

import aftereffect as ae
from aftereffect._core import Spec, list_registered, name_of, usage

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document):
    text = document.read_text()
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if "://" not in target:
            assert (document.parent / target).exists(), target


def test_the_reference_has_every_name():
    text = (ROOT / "docs" / "reference.md").read_text()
    prose = " ".join(text.split())
    for kind in (ae.Policy, ae.Delay, ae.Bandit):
        for cls in list_registered(kind):
            assert f"| `{usage(cls)}` |" in text
    for cls in list_registered(Spec):
        assert f"`{name_of(cls)}" in prose


def test_hooks_run_what_make_lint_runs():
    hooks = re.findall(r"entry: (.*)", (ROOT / ".pre-commit-config.yaml").read_text())
    makefile = (ROOT / "Makefile").read_text()
    recipes = re.findall(r"^\t(\$\(BIN\)/(?:ruff|mypy|lint-imports).*)$", makefile, re.MULTILINE)
    assert hooks == [recipe.replace("$(BIN)", ".venv/bin") for recipe in recipes]


def test_versions_agree():
    changelog = (ROOT / "CHANGELOG.md").read_text()
    _, latest = re.findall(r"^## (.*)$", changelog, re.MULTILINE)[:2]
    citation = (ROOT / "CITATION.cff").read_text()
    assert latest.split(" - ")[0] == ae.__version__
    assert f"version: {ae.__version__}\n" in citation
    assert f"date-released: {latest.split(' - ')[1]}\n" in citation
