"""The site: its pages agree with the code, and whatever it shows runs."""

import ast
import builtins
import doctest
import importlib.util
import inspect
import json
import os
import re
import shlex
import socket
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

import aftereffect as ae
from aftereffect.cli import app
from aftereffect.live import events

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
DOCUMENTS = [
    ROOT / "README.md",
    *sorted(path for path in DOCS.rglob("*.md") if not {"generated", "_build"} & {*path.parts}),
]
#: Languages of blocks that are files or output: nothing runs.
SHOWN = {"", "text", "toml", "yaml", "nginx", "ini", "console"}
#: Directives, which Sphinx reads.
DIRECTIVES = {"{toctree}", "{include}", "{literalinclude}"}


def load(name):
    """A program that builds the site."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def blocks(document):
    """The language and the text of each block."""
    return re.findall(r"^```([^\n]*)\n(.*?)^```", document.read_text(), re.DOTALL | re.MULTILINE)


GENERATE = load("generate")


@pytest.mark.parametrize("path", GENERATE.exported_names())
def test_every_exported_name_has_a_page_with_an_example(path):
    value = GENERATE.exported_names()[path]
    text = GENERATE.ALIASES.get(path) or inspect.getdoc(value) or ""
    examples = doctest.DocTestParser().get_examples(text)
    assert any(re.search(r"\d", example.want) for example in examples)
    assert path in GENERATE.api_pages()[f"api/{path}.rst"]
    assert f"(api/{path}.rst)" in GENERATE.api_pages()["api.md"]


@pytest.mark.parametrize("path", GENERATE.exported_names())
def test_examples_in_the_reference_import_what_they_use(path):
    """Else whoever pastes one gets a NameError, though it runs here, within its module."""
    value = GENERATE.exported_names()[path]
    known = {*dir(builtins), *(name.rpartition(".")[2] for name in GENERATE.exported_names())}
    members = vars(value).values() if isinstance(value, type) else ()
    for text in map(inspect.getdoc, (value, *members)):
        examples = doctest.DocTestParser().get_examples(text or "")
        names = list(ast.walk(ast.parse("".join(example.source for example in examples))))
        bound = {
            *(node.id for node in names if isinstance(node, ast.Name) and is_stored(node)),
            *(node.asname or node.name for node in names if isinstance(node, ast.alias)),
            *(getattr(node, "name", None) for node in names),
            *(node.arg for node in names if isinstance(node, ast.arg)),
        }
        used = {node.id for node in names if isinstance(node, ast.Name)}
        assert not used - bound - known, path


def is_stored(node):
    return isinstance(node.ctx, ast.Store)


@pytest.mark.parametrize("path", GENERATE.ALIASES)
def test_examples_of_names_without_a_docstring_run(path):
    found = doctest.DocTestParser().get_doctest(GENERATE.ALIASES[path], {}, path, None, 0)
    assert doctest.DocTestRunner().run(found).failed == 0


def test_all_of_all_is_in_the_reference():
    names = {path.removeprefix("aftereffect.") for path in GENERATE.exported_names()}
    modules = {name for name in ae.__all__ if inspect.ismodule(getattr(ae, name))}
    assert set(ae.__all__) - modules - {"__version__"} <= names


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_what_documents_import_is_in_the_reference(document):
    """Nobody should have to read the sources to find out what an example calls."""
    for family, names in re.findall(
        r"from (aftereffect[.\w]*) import ([^\n#]*)", document.read_text()
    ):
        for name in names.strip().split(", "):
            assert f"{family}.{name}" in GENERATE.exported_names(), f"{family}.{name}"


def test_every_command_has_its_help():
    page = GENERATE.commands_page()
    names = [name for name in app if not name.startswith("-")]
    names += [f"token {name}" for name in app["token"] if not name.startswith("-")]
    for name in names:
        assert re.search(rf"^##+ {name}$", page, re.MULTILINE), name
    assert "--stop-when-loss-below" in page


def test_every_request_is_in_the_reference():
    page = GENERATE.http_page()
    guide = (DOCS / "service.md").read_text()
    for method, path in set(re.findall(r"`(GET|POST|PUT|DELETE) (/[^?` ]*)", guide)):
        assert f"### {method} {path}\n" in page
    assert "| `stop_when_loss_below` |" in page


def test_the_event_log_is_described():
    text = (DOCS / "files.md").read_text()
    for kind in events.EventKind.__args__:
        assert f"| `{kind}` |" in text
    header = ae.live.records.SlotRecord._fields[:-3]
    assert ",".join(header) in text


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_block_is_run_or_marked_as_shown(document):
    """Blocks with prompts run as doctests. Others must at least be possible: Python is compiled and
    its names exist, and every command line is one that the command understands."""
    for language, text in blocks(document):
        kind = language.split()[0] if language else ""
        if kind in SHOWN or kind in DIRECTIVES or kind == "math":
            continue
        if kind in ("python", "py"):
            if ">>>" not in text:
                check_python(text)
        else:
            assert kind in ("sh", "json"), f"{document.name}: what is a block of {language!r}?"
            json.loads(text) if kind == "json" else check_commands(text)


def check_python(text):
    """Compile it, and look up what it names of this package."""
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "ae"
        ):
            assert hasattr(ae, node.attr), f"ae.{node.attr}"


def check_commands(text):
    """Parse each line that begins with `aftereffect`."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        words = [word for word in words if word not in ("&", "env")]
        if words[:1] == ["aftereffect"] and ">" not in words:
            arguments = drop_imports(words[1:])
            app.parse_args(arguments)


def drop_imports(words):
    """Without ``--import MODULE``, which is not an option of the commands."""
    while "--import" in words:
        place = words.index("--import")
        words = words[:place] + words[place + 2 :]
    return words


def test_pictures_of_the_gallery_are_drawn_by_its_code():
    text = (DOCS / "gallery.md").read_text()
    shown = re.findall(r"\]\(pictures/(\w+\.png)\)", text)
    assert shown == re.findall(r'savefig\("(\w+\.png)"', text)
    assert sorted(shown) == sorted(path.name for path in (DOCS / "pictures").iterdir())


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_to_files_of_the_repository(document):
    """Who reads the documents without building the site comes to no page that `make docs` writes."""
    text = document.read_text()
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        assert "://" in target or "generated/" not in target, target
        assert "://" in target or (document.parent / target).exists(), target


def test_paths_have_three_pages_that_lead_on():
    """From the front page, row by row, and each page links the next."""
    rows = re.findall(r"^\| an? \*\*\w+\*\* .*$", (DOCS / "index.md").read_text(), re.MULTILINE)
    assert len(rows) == 3
    for row in rows:
        pages = re.findall(r"\]\(([\w/]+\.md)\)", row)
        assert len(pages) == 3
        for page, following in pairwise(pages):
            assert Path(following).name in (DOCS / page).read_text()


def test_a_link_that_leads_nowhere_is_found(tmp_path):
    check = load("check_site")
    (tmp_path / "a.html").write_text(
        '<a href="b.html#there">1</a><a href="b.html#gone">2</a><a href="c.html">3</a>'
        '<script src="https://elsewhere.org/x.js"></script><a href="https://elsewhere.org">4</a>'
    )
    (tmp_path / "b.html").write_text('<h1 id="there">b</h1><a href="#top">5</a>')
    assert check.find_problems(tmp_path) == [
        "a.html: b.html#gone has no such heading",
        "a.html: c.html does not exist",
        "a.html: loads https://elsewhere.org/x.js",
        "b.html: #top has no such heading",
    ]


def run_document(name, folder, *, only=None):
    """Run the commands of a document in one shell, as a reader who copies them would."""
    scripts = [text for language, text in blocks(DOCS / name) if language == "sh"]
    for text in re.findall(
        r"^```\w+\n(# \w+\.\w+\n.*?)^```", (DOCS / name).read_text(), re.DOTALL | re.MULTILINE
    ):
        (folder / text.split()[1]).write_text(text)
    for entry in ("benchmarks", "deploy"):
        (folder / entry).symlink_to(ROOT / entry)
    script = "".join(scripts if only is None else scripts[only])
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ | {"PATH": path, "OPENBLAS_NUM_THREADS": "1"},
    )


@pytest.mark.compiled
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "promised"),
    [
        (
            "start/researcher.md",
            "settle-ucb(burn_in=0.85, look=0.7, wait=1.5, hold=120)         73.2  2.2  132.9",
        ),
        ("start/analyst.md", "next: slot 1 (2026-03-03 00:00)"),
        (
            "tutorials/policy.md",
            "commit(hold=60)                                               727.2  44.8",
        ),
        ("tutorials/care.md", "banner: whole, 2 events"),
    ],
)
def test_the_commands_of_the_paths(name, promised, tmp_path):
    done = run_document(name, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert promised in done.stdout


@pytest.mark.compiled
@pytest.mark.slow
def test_the_sweep_of_the_tutorial(tmp_path):
    done = run_document("tutorials/reproduce.md", tmp_path, only=slice(1, None))
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(r"^\S*(?:ars-ucb|ucb1)", done.stdout, re.MULTILINE)) == 9


@pytest.mark.server
def test_the_first_service(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    text = (DOCS / "start" / "operator.md").read_text().replace("8750", str(port))
    scripts = "".join(re.findall("```sh\n(.*?)```", text, re.DOTALL))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", f"trap 'kill %1' EXIT\n{scripts}"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PATH": path},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"received":1' in done.stdout.replace(" ", "")
    assert "banner: whole, 2 events" in done.stdout
