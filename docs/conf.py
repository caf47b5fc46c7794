"""How Sphinx builds the site: `make docs`."""

import os
import sys
from pathlib import Path

# Help texts show the default storage, which must not be that of whoever builds the site. It is
# named before the package is imported.
os.environ["XDG_DATA_HOME"] = "~/.local/share"
os.environ.pop("AFTEREFFECT_STORAGE", None)
sys.path.insert(0, str(Path(__file__).parent))

import generate
from docutils import nodes

from aftereffect import __version__

project = "aftereffect"
author = "The aftereffect authors"
project_copyright = author
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build"]
templates_path = []
default_role = "name"

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
# Formulas are written as text: MathJax would have to be loaded from another site.
html_math_renderer = None

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 80
napoleon_google_docstring = False
napoleon_use_rtype = False

# Help texts have options and spec strings, which must stay as they are typed.
smartquotes = False

# A prompt is not copied, nor is output.
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

html_theme = "furo"
html_title = f"aftereffect {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {
    "source_repository": "",
    "top_of_page_buttons": [],
}


_EXPORTED = {path.removeprefix("aftereffect."): path for path in generate.exported_names()}


def link_name(role, rawtext, text, lineno, inliner, options=None, content=()):
    """What a docstring has in single backticks: a link if it is exported, as in `Study.load`."""
    name = text.removeprefix("aftereffect.").removesuffix("()")
    first, dot, rest = name.partition(".")
    if name in _EXPORTED:
        target = _EXPORTED[name]
    elif first in _EXPORTED and dot:
        target = f"{_EXPORTED[first]}.{rest}"
    else:
        return [nodes.literal(rawtext, text)], []
    domain = inliner.document.settings.env.get_domain("py")
    return domain.role("obj")("py:obj", rawtext, f"{text} <{target}>", lineno, inliner, {}, [])


def setup(app):
    """Write the pages that follow from the code before Sphinx looks for pages."""
    app.connect("builder-inited", lambda app: generate.write_pages(Path(app.srcdir) / "generated"))
    app.add_role("name", link_name)
