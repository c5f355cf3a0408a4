"""Draws a tree of racks with one sign for each GPU, and describes a certificate."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from phalanx.model.api.phalanx import CertificateStatus
from rich.text import Text

from phalanx_simulator.demos.fabric import GPUS, NodeUse, Tree

FREE: Final = "·"
BUSY: Final = "░"
_ROLE_STYLES: Final = ("bold black on green", "bold black on cyan", "bold black on yellow")

_PROVERS: Final = {
    "cp-sat": "CP-SAT",
    "tree-dp": "a dynamic program on the tree",
    "closed-form": "counting",
    "relaxation": "a lower bound that it meets",
}
_DOMAINS: Final = "domains:"


def picture(tree: Tree, *, roles: Sequence[str]) -> list[Text]:
    """A line for each rack below its spine, with the gang's pods at its end."""
    lines: list[Text] = []
    for spine, racks in tree.items():
        free = [node.free for nodes in racks.values() for node in nodes]
        whole = _count("whole node", free.count(GPUS))
        lines.append(Text.assemble((spine, "bold"), f"  {sum(free)} GPUs free, {whole}"))
        lines += [_rack(rack, nodes, roles=roles) for rack, nodes in racks.items()]
    return lines


def legend(roles: Mapping[str, str]) -> Text:
    """The legend; `roles` describes a pod of each role."""
    parts: list[str | tuple[str, str]] = ["one sign is one GPU:  "]
    for role, words in roles.items():
        parts += [(_letter(role), _style(role, list(roles))), f" {words}   "]
    parts += [(BUSY, "dim"), " of other jobs   ", (FREE, "dim"), " free"]
    return Text.assemble(*parts)


def certificate_in_words(certificate: CertificateStatus) -> str:
    """The number of domains of each level, and whether it is proven minimal."""
    counts = [
        _count(term.removeprefix(_DOMAINS), value)
        if value == bound
        else f"{_count(term.removeprefix(_DOMAINS), value)} (at least {bound})"
        for term, value, bound in zip(
            certificate.terms, certificate.objective, certificate.bound, strict=True
        )
        if term.startswith(_DOMAINS)
    ]
    levels = ", ".join(counts)
    if not is_fewest(certificate):
        return f"{levels}: not proven to be the fewest"
    by = certificate.by or ""
    return f"{levels}: proven by {_PROVERS.get(by, by)}, no placement uses fewer"


def is_fewest(certificate: CertificateStatus) -> bool:
    """Whether no placement spans fewer domains.

    Tightness and cost are not compared.
    """
    counted = max(
        [at for at, term in enumerate(certificate.terms, 1) if term.startswith(_DOMAINS)], default=0
    )
    agree = certificate.objective[:counted] == certificate.bound[:counted]
    return certificate.proven or (counted > 0 and agree)


def racks_used(tree: Tree) -> Iterator[tuple[str, str]]:
    """Spine and rack of every rack that holds a pod of the gang."""
    for spine, racks in tree.items():
        for rack, nodes in racks.items():
            if any(node.gang for node in nodes):
                yield spine, rack


def _rack(name: str, nodes: Sequence[NodeUse], *, roles: Sequence[str]) -> Text:
    line = Text(f"  {name:<10}", no_wrap=True, overflow="ellipsis")
    for node in nodes:
        line.append_text(_node(node, roles=roles)).append(" ")
    return line.append(_share(nodes, roles=roles))


def _node(node: NodeUse, *, roles: Sequence[str]) -> Text:
    text = Text().append(BUSY * node.others, style="dim")
    for role in roles:
        text.append(_letter(role) * sum(node.gang.get(role, ())), style=_style(role, roles))
    return text.append(FREE * node.free, style="dim")


def _share(nodes: Sequence[NodeUse], *, roles: Sequence[str]) -> str:
    pods = [(role, sum(len(node.gang.get(role, ())) for node in nodes)) for role in roles]
    return ", ".join(_count(role, count) for role, count in pods if count)


def _letter(role: str) -> str:
    return role[:1].upper()


def _style(role: str, roles: Sequence[str]) -> str:
    return _ROLE_STYLES[roles.index(role) % len(_ROLE_STYLES)]


def _count(noun: str, count: int) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
