"""Pages of the site that follow from the code: API, commands, HTTP interface.

`write_pages` writes them into a folder that git ignores. Sphinx calls it before it reads any page.
"""

import inspect
import json
import re
from importlib import import_module
from pathlib import Path
from textwrap import indent

import aftereffect as ae
from aftereffect._core import Spec

#: The order of the packages in the reference, and what their names are for.
PACKAGES = {
    "simulation": "Simulate",
    "sweeps": "Sweeps",
    "bandits": "Bandits",
    "delays": "Delays",
    "rewards": "Rewards",
    "growth": "Growth of rounds",
    "policies": "Policies",
    "planning": "Plan",
    "live": "Live experiments",
    "client": "The client of the service",
    "inference": "Who won",
    "lag": "Lags",
    "theory": "The numbers in the theorems of the paper",
    "gym": "Gymnasium",
    "river": "river",
    "testing": "Check policies, bandits and storages of your own",
    "_core": "Spec strings and contracts",
    "errors": "Errors",
}
#: Names that documents use, though they are exported by a family only.
OF_FAMILIES = {
    "gym": ("AftereffectEnv", "AftereffectVectorEnv"),
    "inference": ("Trial", "UnitTrial", "analyse"),
    "live": (
        *("CommandHook", "ExperimentLike", "FeedForm", "FileReport", "FolderFeed", "Notice"),
        *("Notifier", "Storage", "Webhook", "read_totals_file", "read_totals_query"),
    ),
    "river": ("RiverPolicy",),
}
#: Names that have no docstring of their own.
ALIASES = {
    "aftereffect.State": """\
All that a policy remembers: a named tuple of float64 arrays, or of further such tuples. Each policy
has its own (see :doc:`/extend`).

.. rubric:: Examples

>>> import aftereffect as ae
>>> ae.Ucb1().initial(arms=3).pulls
array([0., 0., 0.])
""",
}


def exported_names() -> dict[str, object]:
    """Every name that users import, with the package to import it from."""
    names = {
        f"aftereffect.{name}": getattr(ae, name)
        for name in ae.__all__
        if name != "__version__" and not inspect.ismodule(getattr(ae, name))
    }
    known = {id(value) for value in names.values()}
    for family in ("delays", "growth", "rewards", "theory", "testing"):
        module = import_module(f"aftereffect.{family}")
        for name in module.__all__:
            value = getattr(module, name)
            is_public = family in ("growth", "theory", "testing") or (
                isinstance(value, type) and issubclass(value, Spec)
            )
            if is_public and id(value) not in known:
                names[f"aftereffect.{family}.{name}"] = value
    for family, members in OF_FAMILIES.items():
        module = import_module(f"aftereffect.{family}")
        for name in members:
            names[f"aftereffect.{family}.{name}"] = getattr(module, name)
    return names


def write_pages(folder: Path) -> None:
    """Write all pages; a page that has not changed keeps its time, so Sphinx does not read it."""
    pages = {**api_pages(), "commands.md": commands_page(), "http.md": http_page()}
    for path in [*folder.rglob("*.md"), *folder.rglob("*.rst")]:
        if path.relative_to(folder).as_posix() not in pages:
            path.unlink()
    for name, text in pages.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def api_pages() -> dict[str, str]:
    """One page per exported name, and an overview by packages."""
    pages: dict[str, str] = {}
    groups: dict[str, list[tuple[str, str]]] = {}
    for path, value in sorted(exported_names().items(), key=lambda item: item[0].lower()):
        package = _package(value)
        groups.setdefault(package, []).append((path, _first_line(value)))
        pages[f"api/{path}.rst"] = _name_page(path, value)
    unknown = groups.keys() - PACKAGES.keys()
    assert not unknown, f"PACKAGES of docs/generate.py lacks {unknown}"
    lines = ["# API", "", "Every name that you can import. Each page has an example.", ""]
    for package in sorted(groups, key=list(PACKAGES).index):
        lines += [f"## {PACKAGES[package]}", "", "| | |", "|---|---|"]
        lines += [
            f"| [`{path.removeprefix('aftereffect.')}`](api/{path}.rst) | {line} |"
            for path, line in groups[package]
        ]
        lines += ["", "```{toctree}", ":hidden:", ""]
        lines += [f"{path} <api/{path}>" for path, _ in groups[package]]
        lines += ["```", ""]
    pages["api.md"] = "\n".join(lines)
    return pages


def _package(value: object) -> str:
    module = getattr(value, "__module__", "")
    return module.split(".")[1] if module.startswith("aftereffect.") else "_core"


def _first_line(value: object) -> str:
    text = (inspect.getdoc(value) or "").partition("\n\n")[0]
    text = re.sub(r"`+([^`]+)`+", r"`\1`", " ".join(text.split()))
    return text.replace("|", "\\|")


def _name_page(path: str, value: object) -> str:
    name = path.rpartition(".")[2]
    module = path.rpartition(".")[0]
    lines = [name, "=" * len(name), "", f".. currentmodule:: {module}", ""]
    if path in ALIASES:
        return "\n".join([*lines[:3], f".. data:: {path}", "", indent(ALIASES[path], "   ")])
    if isinstance(value, type):
        lines += [f".. autoclass:: {path}", "   :members:"]
        if issubclass(value, tuple):
            lines += ["   :exclude-members: count, index"]
        if value.__bases__ != (object,):
            lines += ["   :show-inheritance:"]
    elif inspect.isroutine(value):
        lines += [f".. autofunction:: {path}"]
    else:
        lines += [f".. autodata:: {path}", "   :no-value:"]
    return "\n".join([*lines, ""])


def commands_page() -> str:
    """Every command with its help."""
    from aftereffect.cli import app

    text = app.generate_docs(output_format="markdown", recursive=True, heading_level=1)
    text = re.sub(r"^## Table of Contents\n.*?(?=^\*\*)", "", text, flags=re.MULTILINE | re.DOTALL)
    text = text.replace("# aftereffect\n", "# Commands\n", 1)
    # Links of the overview lead to the headings below, without their first word.
    text = re.sub(r"^(#+) aftereffect ", r"\1 ", text, flags=re.MULTILINE)
    text = text.replace("](#aftereffect-", "](#")
    # An angle bracket in a help text is no HTML.
    return re.sub(r"<(?=[A-Za-z])", "&lt;", text)


def http_page() -> str:
    """The HTTP interface, as the service itself describes it."""
    from aftereffect.live import open_storage
    from aftereffect.service._app import create_app
    from aftereffect.service._scans import Scans

    with open_storage("memory://") as storage:
        document = create_app(storage, Scans(storage)).openapi()
    lines = [
        "# HTTP interface",
        "",
        "What the service says of itself at `/openapi.json`. [The service](../service.md) explains "
        "how to run it, tokens, limits and errors.",
        "",
        "## Requests",
        "",
    ]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            lines += _operation_lines(f"{method.upper()} {path}", operation)
    lines += ["## Schemas", ""]
    for name, schema in sorted(document["components"]["schemas"].items()):
        lines += [f"### {name}", ""]
        if "description" in schema:
            lines += [schema["description"], ""]
        lines += _fields(schema)
    return "\n".join(lines)


def _operation_lines(title: str, operation: dict) -> list[str]:
    lines = [f"### {title}", "", operation.get("description", operation["summary"]), ""]
    if parameters := operation.get("parameters"):
        lines += ["| parameter | in | type | |", "|---|---|---|---|"]
        lines += [
            f"| `{each['name']}` | {each['in']} | {_type(each['schema'])} | "
            f"{_cell(each.get('description', ''))} |"
            for each in parameters
        ]
        lines.append("")
    if body := operation.get("requestBody"):
        lines += [f"Body: {_type(body['content']['application/json']['schema'])}", ""]
    lines += ["| status | answer | |", "|---|---|---|"]
    for status, answer in sorted(operation["responses"].items()):
        kinds = ", ".join(
            _type(content["schema"]) if content.get("schema") else f"`{kind}`"
            for kind, content in answer.get("content", {}).items()
        )
        lines.append(f"| {status} | {kinds} | {_cell(answer.get('description', ''))} |")
    return [*lines, ""]


def _fields(schema: dict) -> list[str]:
    if "properties" not in schema:
        return [_type(schema), ""]
    required = schema.get("required", [])
    lines = ["| field | type | |", "|---|---|---|"]
    for name, field in schema["properties"].items():
        default = f" Default: `{json.dumps(field['default'])}`." if "default" in field else ""
        needed = " Required." if name in required else ""
        text = _cell(field.get("description", "")) + needed + default
        lines.append(f"| `{name}` | {_type(field)} | {text.strip()} |")
    return [*lines, ""]


def _type(schema: dict) -> str:
    """Name a type of JSON schema in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(each)}`" for each in schema["enum"])
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if schema.get("type") == "array":
        items = schema.get("items") or schema.get("prefixItems", [{}])[0]
        return f"list of {_type(items)}"
    return schema.get("type", "any")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
