"""Fair shares of tenants, and how equally they are reached."""

from collections.abc import Iterable, Mapping

from phalanx_simulator.lab.engine.cluster import Tenancy


def fair_shares(wanted: Mapping[str, int], tenancy: Tenancy) -> dict[str, float]:
    """The fair share of each tenant: its demand up to its guarantee, and the rest of all GPUs by weight.

    No fair share is above the demand.
    """
    guaranteed, weights = tenancy.guarantees, tenancy.weights
    given = {name: float(min(wanted[name], guaranteed[name])) for name in guaranteed}
    left = tenancy.gpus - sum(given.values())
    hungry = [name for name in guaranteed if wanted[name] > given[name]]
    while hungry and left > 0:
        level = left / sum(weights[name] for name in hungry)
        full = [name for name in hungry if wanted[name] - given[name] <= level * weights[name]]
        for name in full or hungry:
            more = wanted[name] - given[name] if full else level * weights[name]
            given[name] += more
            left -= more
        hungry = [name for name in hungry if name not in full] if full else []
    return given


def jain(values: Iterable[float]) -> float:
    """Jain's fairness index: 1 when all values are equal, 1/n when one has everything; 1 without values."""
    known = list(values)
    squares = sum(value * value for value in known)
    return sum(known) ** 2 / (len(known) * squares) if squares else 1.0
