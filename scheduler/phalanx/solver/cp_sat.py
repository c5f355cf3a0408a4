"""What all CP-SAT models share: the solver's parameters and the confirmation of infeasibility."""

from typing import Final

from ortools.sat.python import cp_model

ROUNDING: Final = 1e-6
"""CP-SAT states integer bounds as doubles; bounds are rounded with this tolerance."""


class CpModel(cp_model.CpModel):
    """A model without aliases of its methods: creating those takes longer than building a small model."""

    def _add_pre_pep8_methods(self) -> None:
        """The base class calls this for each model."""


def one_worker(seed: int, effort: float) -> cp_model.CpSolver:
    """Create a deterministic solver with one worker and an effort limit.

    A strong linear relaxation was measured fastest on these models.
    """
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.linearization_level = 2
    solver.parameters.random_seed = seed % (1 << 31)
    solver.parameters.max_deterministic_time = max(effort, 0.0)
    return solver


def confirmed_empty(model: cp_model.CpModel, *, seed: int, effort: float) -> tuple[bool, float]:
    """Return whether a second configuration agrees that the model is infeasible, and its effort.

    Two configurations must agree before a gang is reported as impossible. The model loses its objective.
    """
    model.clear_objective()  # type: ignore[no-untyped-call]
    solver = one_worker(seed + 1, effort)
    solver.parameters.linearization_level = 0
    solver.parameters.cp_model_probing_level = 0
    status = solver.solve(model)
    return bool(status == cp_model.INFEASIBLE), solver.deterministic_time
