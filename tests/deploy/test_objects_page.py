"""The pages about objects and tenants show the examples of the tests, and explain labels and annotations."""

import re

from phalanx.model import names

from tests.crds.files import FOLDER, VALID
from tests.deploy.manifests import REPOSITORY

PAGES = ("objects", "roles", "queues", "topology", "certificates", "sharing", "tenants")
TEXTS = {page: (REPOSITORY / "docs" / f"{page}.md").read_text() for page in PAGES}
ALL = "".join(TEXTS.values())
BLOCKS = re.findall(r"<!-- example: ([-.a-z]+) -->\n```yaml\n(.*?)```", ALL, re.DOTALL)


def test_the_page_shows_the_examples_unchanged() -> None:
    assert BLOCKS
    for name, text in BLOCKS:
        assert text == (FOLDER / "examples" / "valid" / name).read_text()


def test_every_yaml_block_is_an_example() -> None:
    assert ALL.count("```yaml") == len(BLOCKS)
    assert {name for name, _ in BLOCKS} <= {path.name for path in VALID}


def test_the_page_explains_every_label() -> None:
    labels = [getattr(names, name) for name in vars(names) if name.startswith("LABEL_")]
    assert len(labels) == 6
    assert [label for label in labels if f"| `{label}` |" not in TEXTS["objects"]] == []


def test_the_page_explains_every_annotation_and_every_label_of_nodes() -> None:
    prefixes = ("ANNOTATION_", "NODE_")
    named = [getattr(names, name) for name in vars(names) if name.startswith(prefixes)]
    assert len(named) == 12
    assert [each for each in named if f"| `{each}` |" not in ALL] == []
