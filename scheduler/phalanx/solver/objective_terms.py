"""The objective's terms as expressions over the counting model, equal to what `objective` gives them."""

from ortools.sat.python import cp_model

from phalanx.limits import OBJECTIVE_COEFFICIENT_MAX
from phalanx.solver.arrays import TooLarge
from phalanx.solver.counting.model import CountingModel
from phalanx.solver.objective import DOMAINS, OF_SUBGROUPS, PRICE, ROOM, UNPLACED, anchored_domains


def objective_term(model: CountingModel, name: str) -> cp_model.LinearExpr:
    """The term of this name. TooLarge when a price is too large to be safe in the model."""
    if name == UNPLACED:
        return sum(role.maximum for role in model.problem.roles) - model.total(list(model.pods.values()))
    if name == PRICE:
        return _price(model)
    if name.startswith(ROOM):
        return _room(model)
    if name.startswith(OF_SUBGROUPS):
        return _of_subgroups(model, model.problem.levels.index(name.removeprefix(OF_SUBGROUPS)))
    return _domains(model, model.problem.levels.index(name.removeprefix(DOMAINS)))


def _price(model: CountingModel) -> cp_model.LinearExpr:
    costs = [model.groups[index].cost[role] for role, index in model.pods]
    if any(abs(cost) > OBJECTIVE_COEFFICIENT_MAX for cost in costs):
        raise TooLarge
    return model.total(list(model.pods.values()), costs)


def _domains(model: CountingModel, level: int) -> cp_model.LinearExpr:
    """Domains spanned: those where the gang runs, those opened, and the one of a required level."""
    anchored = len(anchored_domains(model.problem, level))
    if level in model.opened:
        return anchored + model.total(list(model.opened[level].values()))
    return model.cp.new_constant(anchored or 1) + 0


def _of_subgroups(model: CountingModel, level: int) -> cp_model.LinearExpr:
    """Domains spanned by each subgroup that wishes for few: those where it runs, and those it opens."""
    deep = [(one, opened[level]) for one, opened in model.gathered if level in opened]
    variables = [each for _, opened in deep for each in opened.values()]
    return sum(len(one.anchored(level)) for one, _ in deep) + model.total(variables)


def _room(model: CountingModel) -> cp_model.LinearExpr:
    """The room of the domains opened on the deepest level; a required one is that of the whole model."""
    room = model.rows.room
    if room is None:
        raise AssertionError("room is a term only where nodes have room")
    level = model.rows.book.gang_depth - 1
    if level in model.opened:
        opened = model.opened[level]
        return model.total(list(opened.values()), room[list(opened)].tolist())
    homes = {group.domains[level] for group in model.groups}
    closed = [int(room[home]) for home in homes if not model.rows.tree.open[level][home]]
    return model.cp.new_constant(sum(closed)) + 0
