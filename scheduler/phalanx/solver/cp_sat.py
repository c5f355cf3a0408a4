"""CP-SAT's model, as this solver uses it."""

from ortools.sat.python import cp_model


class CpModel(cp_model.CpModel):
    """Without the old names of its methods: giving them to each takes longer than building a small one."""

    def _add_pre_pep8_methods(self) -> None:
        """The base class calls this for each model."""
