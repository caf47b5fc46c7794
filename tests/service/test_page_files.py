"""The files of the page, without a browser: they are served, they parse, and their imports exist."""

import re
import shutil
import subprocess
from importlib.resources import files

import pytest

from aftereffect.service._app import page_files

FOLDER = files("aftereffect.service") / "page"
SCRIPTS = sorted(file.name for file in FOLDER.iterdir() if file.name.endswith(".js"))


def test_every_file_is_served():
    names = {file.name for file in FOLDER.iterdir()}
    assert set(page_files()) == {f"/{name}" for name in names if name != "index.html"} | {"/"}
    assert all(content for _, content in page_files().values())


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_parses(name, tmp_path):
    """With Node where it is installed; browsers parse the same in the tests of `page`."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed")
    copy = tmp_path / f"{name}.mjs"  # so that Node takes it for a module
    copy.write_bytes((FOLDER / name).read_bytes())
    done = subprocess.run([node, "--check", str(copy)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_is_checked_by_editors_and_its_imports_exist_and_are_used(name):
    text = (FOLDER / name).read_text(encoding="utf-8")
    assert text.startswith("// @ts-check\n// ")
    assert max(map(len, text.splitlines())) <= 120
    for names, module in re.findall(r'import \{ ([^}]+) \} from "\./([\w-]+\.js)";', text):
        other = (FOLDER / module).read_text(encoding="utf-8")
        for each in names.split(", "):
            assert re.search(rf"^export (?:async )?(?:function|class|const) {each}\b", other, re.M)
            assert len(re.findall(rf"\b{each}\b", text)) > 1, f"{each} is imported and not used"
    for each in re.findall(r"^export (?:async )?(?:function|class|const) (\w+)", text, re.M):
        others = [
            (FOLDER / other).read_text(encoding="utf-8") for other in SCRIPTS if other != name
        ]
        assert any(re.search(rf"\b{each}\b", other) for other in others), f"nobody imports {each}"
