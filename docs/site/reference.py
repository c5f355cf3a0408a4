"""Reference pages that are made from the CRDs and from the command line, each time the site is built."""

from collections.abc import Iterator
from typing import Any, Final

import yaml
from cyclopts import App
from phalanx.cli.commands import commands_for
from phalanx.resources import data_dir

Schema = dict[str, Any]

_RULES: Final = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "maxProperties": "at most {} entries",
    "pattern": "matches `{}`",
    "default": "default `{}`",
}
"""Keys of a schema that limit the value, and how the page states them."""

_EXPLAINED_BY: Final = {
    "PodGroup": "[Objects](../objects.md) and [roles](../roles.md) explain",
    "Queue": "[Queues](../queues.md) explains",
    "Topology": "[Topology](../topology.md) explains",
}
"""The pages with examples of a kind."""


def pages() -> dict[str, str]:
    """All generated pages, by their path in the site."""
    found = {"reference/command-line.md": command_line_page()}
    for file in sorted(data_dir("crds").glob("*.yaml")):
        document = yaml.safe_load(file.read_text())
        if document["kind"] == "CustomResourceDefinition":
            found[f"reference/{document['spec']['names']['singular']}.md"] = object_page(document)
    return found


def object_page(definition: Schema) -> str:
    """All fields of a kind, the columns of `kubectl get`, and the rules between fields."""
    (version,) = definition["spec"]["versions"]
    schema, names = version["schema"]["openAPIV3Schema"], definition["spec"]["names"]
    api = f"{definition['spec']['group']}/{version['name']}"
    scope = "in a namespace" if definition["spec"]["scope"] == "Namespaced" else "in the whole cluster"
    lines = [
        f"# {names['kind']}: all fields",
        "",
        f"`apiVersion: {api}`, `kind: {names['kind']}`, {scope}; `kubectl get {names['shortNames'][0]}`.",
        "This page is generated from the CustomResourceDefinition.",
        f"{_EXPLAINED_BY[names['kind']]} the fields with examples.",
        "",
        schema["description"],
    ]
    for part in ("spec", "status"):
        if part in schema["properties"]:
            lines += ["", f"## {part}", "", "| field | type | meaning |", "| --- | --- | --- |"]
            lines += _rows(schema["properties"][part], part)
    lines += ["", "## Columns", "", "| column | field | meaning |", "| --- | --- | --- |"]
    lines += [
        f"| {column['name']}{' (`-o wide`)' if column.get('priority') else ''} | `{column['jsonPath']}` | "
        f"{_cell(column.get('description', ''))} |"
        for column in version["additionalPrinterColumns"]
    ]
    return "\n".join(lines) + "\n"


def _rows(schema: Schema, path: str, *, required: bool = True) -> Iterator[str]:
    """A row for this field and each below it."""
    notes = [text.format(schema[key]) for key, text in _RULES.items() if key in schema]
    if "enum" in schema:
        notes.append("one of " + ", ".join(f"`{value}`" for value in schema["enum"]))
    notes += [str(rule.get("message", rule["rule"])) for rule in schema.get("x-kubernetes-validations", ())]
    kind = f"{_type(schema)}{', required' if required else ''}"
    meaning = " ".join([schema.get("description", ""), *(f"{note[:1].upper()}{note[1:]}." for note in notes)])
    yield f"| `{path}` | {kind} | {_cell(meaning)} |"
    for name, child in schema.get("properties", {}).items():
        yield from _rows(child, f"{path}.{name}", required=name in schema.get("required", ()))
    if "properties" in schema.get("items", {}):
        for name, child in schema["items"]["properties"].items():
            inside = name in schema["items"].get("required", ())
            yield from _rows(child, f"{path}[].{name}", required=inside)


def _type(schema: Schema) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if "items" in schema:
        return f"list of {_type(schema['items'])}s"
    if "additionalProperties" in schema:
        return f"map to {_type(schema['additionalProperties'])}"
    return str(schema.get("type", "any"))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def command_line_page() -> str:
    """The help of every command, as the program prints it."""
    app = App(name="phalanx", help="This page is generated from the program.", version_flags=())
    for name, command in sorted(commands_for([]).items()):
        app.command(command.target, name=name, help=command.summary)
    text = app.generate_docs(output_format="markdown")
    return text.replace("# phalanx\n", "# Command line\n", 1)
