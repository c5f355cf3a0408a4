"""The line of a key in the configuration file."""

from typing import Final

import yaml

from phalanx.framework.config import KeyPath

_NAMED: Final = "name"


def position_of(text: str, path: KeyPath) -> tuple[int, int] | None:
    """Line and column of the value at this path, or of what is there of the path; None without a mark.

    The text must be YAML that `load_settings` accepts.
    """
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    if node is None or not path:
        return None
    mark = node.start_mark
    for step in path:
        key, value = _below(node, step)
        if key is None or value is None:
            break
        node, mark = value, key.start_mark
    return mark.line + 1, mark.column + 1


def _below(node: yaml.Node, step: str | int) -> tuple[yaml.Node | None, yaml.Node | None]:
    """The node that shows the step, and the node of its value."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value == step:
                return key, value
    if isinstance(node, yaml.SequenceNode):
        items: list[yaml.Node] = node.value
        for position, item in enumerate(items):
            if step == position or (isinstance(step, str) and _name(item) == step):
                return item, item
    return None, None


def _name(item: yaml.Node) -> str | None:
    """The name of a plugin in the list of them."""
    if isinstance(item, yaml.MappingNode):
        for key, value in item.value:
            if isinstance(value, yaml.ScalarNode) and key.value == _NAMED:
                return str(value.value)
    return None
