"""`phalanx lab`: a recorded history through the real scheduler, once for each of several configurations."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from cyclopts import Parameter
from phalanx.cli.exits import BadInput, Exit

from phalanx_simulator.commands.options import HERE, NO_STUDY, StudyOptions, WorkerOptions
from phalanx_simulator.commands.progress import progress

if TYPE_CHECKING:
    from phalanx_simulator.lab.report.results import Results
    from phalanx_simulator.lab.study.study import Study
    from phalanx_simulator.lab.study.variants import Plan

_AS_IT_IS = "as it is"


def lab(
    study: Path | None = None,
    *,
    options: StudyOptions = NO_STUDY,
    workers: WorkerOptions = HERE,
    resume: Path | None = None,
    page: Path | None = None,
    output: Annotated[Literal["text", "json"], Parameter(name=["--output", "-o"])] = "text",
) -> int:
    """Play a recorded history through the real scheduler in virtual time, once for each configuration.

    Compares waits, use, fairness, evictions and goodput. The study is a YAML file, or it is given by options.

    Parameters
    ----------
    study
        The file of the study.
    resume
        A folder for finished runs. Runs that it has already are not played again.
    page
        Write a page with tables and plots to this file (HTML). Needs the extra lab.
    output
        text, or json.
    """
    if workers.jobs is not None and workers.jobs < 1:
        raise BadInput(f"--jobs: expected a number above 0, found {workers.jobs}")
    _check_page(page)
    _check_folder(resume)
    results = _results(_study(study, options), workers, resume)
    if results is None:
        return Exit.FAILED
    if page is not None:
        _write_page(page, results)
    if output == "json":
        print(msgspec.json.format(msgspec.json.encode(results)).decode())
    else:
        from phalanx_simulator.lab.report.table import text_of

        print(text_of(results))
    return Exit.OK


def _given(options: StudyOptions) -> dict[str, dict[str, Any]]:
    """The parts of a study that these options set."""
    parts: dict[str, dict[str, Any]] = {
        "history": {
            "path": options.history,
            "format": options.file_format,
            "nodesFile": options.nodes_file and str(options.nodes_file),
            "queueColumn": options.queue_column,
            "since": options.since,
            "until": options.until,
            "days": options.days,
            "firstDay": options.first_day,
        },
        "cluster": {
            "nodes": options.nodes,
            "loadPercent": options.load_percent,
            "gpusPerNode": options.gpus_per_node,
            "racks": options.racks,
        },
    }
    return {
        name: {key: value for key, value in part.items() if value is not None} for name, part in parts.items()
    }


def _study(path: Path | None, options: StudyOptions) -> "Study":
    """The study of the file, or of the options."""
    from phalanx_simulator.lab.study.study import StudyError, read_study, study_of

    if path is not None:
        if options != NO_STUDY:
            raise BadInput("lab: expected the file of a study, or a study by options; found both")
        try:
            return read_study(path)
        except OSError as error:
            raise BadInput(f"{path}: expected a readable file: {error.strerror}") from error
        except StudyError as error:
            raise BadInput(f"{path}: {error}") from error
    if options.history is None or options.file_format is None:
        raise BadInput("lab: expected the file of a study, or --history and --format")
    variants = [{"name": _AS_IT_IS}, *map(_variant, options.variant)]
    try:
        return study_of({**_given(options), "variants": variants})
    except StudyError as error:
        raise BadInput(f"lab: {error}") from error


def _variant(text: str) -> dict[str, Any]:
    """The settings of `NAME=SETTINGS`, which is YAML after the equals sign."""
    from phalanx.framework.config import ConfigError, load_settings

    name, equals, rest = text.partition("=")
    try:
        settings = load_settings(rest)
    except ConfigError as error:
        raise BadInput(f"--variant: {name}: {error}") from error
    if not (equals and name.strip() and isinstance(settings, dict) and "name" not in settings):
        raise BadInput(
            f"--variant: expected NAME={{KEY: VALUE}} such as 'more={{addNodes: 20}}', found {text}"
        )
    return {**settings, "name": name.strip()}


def _results(study: "Study", workers: WorkerOptions, resume: Path | None) -> "Results | None":
    """Play the study. None if its workers were lost, which is reported."""
    from phalanx_simulator.commands.executors import executor
    from phalanx_simulator.commands.workers import WorkersLost
    from phalanx_simulator.lab.report.results import results_of
    from phalanx_simulator.lab.study.runs import play_all

    plan = _plan(study)
    count = len(plan.cases)
    jobs = min(count, workers.jobs or len(os.sched_getaffinity(0)))
    with progress("percent of the runs", total=100) as advance:
        try:
            # The folder outlives the processes that write there.
            with TemporaryDirectory() as folder, executor(jobs, workers.dask) as pool:
                outcomes = play_all(
                    plan.cases,
                    pool,
                    finished=resume,
                    advance=lambda runs: advance(100 * runs / count),
                    notes=Path(folder) if workers.dask is None else None,
                )
        except WorkersLost as error:
            again = "" if resume is None else f"; the same command plays what is not in {resume} yet"
            print(f"lab: {error}{again}", file=sys.stderr)
            return None
    return results_of(study, plan, outcomes)


def _plan(study: "Study") -> "Plan":
    from phalanx_simulator.lab.history.history import HistoryError
    from phalanx_simulator.lab.history.sources import read_history
    from phalanx_simulator.lab.study.study import StudyError
    from phalanx_simulator.lab.study.variants import plan_of

    try:
        return plan_of(study, read_history(study.history))
    except (HistoryError, StudyError) as error:
        raise BadInput(f"lab: {error}") from error


def _check_page(page: Path | None) -> None:
    """Refuse a page that could not be written, before hours of runs."""
    if page is None:
        return
    if find_spec("matplotlib") is None:
        raise BadInput("--page: install the extra lab: pip install 'phalanx-scheduler[lab]'")
    if page.is_dir() or not page.parent.is_dir() or not os.access(page.parent, os.W_OK):
        raise BadInput(f"--page: expected a file in a folder that can be written, found {page}")


def _check_folder(resume: Path | None) -> None:
    """Create the folder for finished runs, or refuse it."""
    if resume is None:
        return
    try:
        resume.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"--resume: expected a folder, found {resume}: {error.strerror}") from error
    if not os.access(resume, os.W_OK):
        raise BadInput(f"--resume: expected a folder that can be written, found {resume}")


def _write_page(page: Path, results: "Results") -> None:
    from phalanx_simulator.lab.report.page import page_of
    from phalanx_simulator.lab.report.plots import plots_of

    try:
        page.write_text(page_of(results, plots_of(results.variants)), encoding="utf-8")
    except OSError as error:
        raise BadInput(f"--page: expected a writable file, found {page}: {error.strerror}") from error
