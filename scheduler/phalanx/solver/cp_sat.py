"""CP-SAT's model, as this solver uses it."""

from typing import Final

from ortools.sat.python import cp_model

ROUNDING: Final = 1e-6
"""The solver states integer bounds as doubles."""


class CpModel(cp_model.CpModel):
    """Without the old names of its methods: giving them to each takes longer than building a small one."""

    def _add_pre_pep8_methods(self) -> None:
        """The base class calls this for each model."""


def one_worker(seed: int, effort: float) -> cp_model.CpSolver:
    """One worker with strong linear relaxation: measured fastest on these models, and it repeats exactly."""
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.linearization_level = 2
    solver.parameters.random_seed = seed % (1 << 31)
    solver.parameters.max_deterministic_time = max(effort, 0.0)
    return solver


def confirmed_empty(model: cp_model.CpModel, *, seed: int, effort: float) -> tuple[bool, float]:
    """Whether a second configuration agrees that a model has no solution, and what that took.

    The model loses its goal.
    """
    model.clear_objective()  # type: ignore[no-untyped-call]
    solver = one_worker(seed + 1, effort)
    solver.parameters.linearization_level = 0
    solver.parameters.cp_model_probing_level = 0
    status = solver.solve(model)
    return bool(status == cp_model.INFEASIBLE), solver.deterministic_time
