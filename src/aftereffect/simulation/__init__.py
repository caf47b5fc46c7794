"""Simulation: one driver, two engines, all cores or many machines."""

from aftereffect.simulation._dask import dask_cluster
from aftereffect.simulation._driver import BATCH
from aftereffect.simulation._io import STUDY_SUFFIXES
from aftereffect.simulation._plan import (
    MAX_REPLICATIONS,
    Plan,
    plan_study,
    print_progress,
    simulate,
)
from aftereffect.simulation._plot import (
    COLOURS,
    DASHES,
    LEGEND,
    PLAIN_NUMBERS,
    CurveStyle,
    draw_curves,
    save_picture,
)
from aftereffect.simulation._rehearsal import (
    COVARIATES,
    call_absorb,
    call_decide,
    call_decide_slots,
    call_observe,
    check_indices,
    check_signatures,
    check_state,
    copy_checked,
    make_covariates,
)
from aftereffect.simulation._replications import (
    BatchResult,
    ChunkResult,
    Runs,
    Task,
    compile_driver,
    interpret_driver,
    load_decide,
    prepare,
    run_batch,
)
from aftereffect.simulation._runs import (
    DEFAULT_CHECKPOINTS,
    MAX_CHECKPOINTS,
    PolicyRuns,
    Trace,
    log_spaced,
    trace_run,
)
from aftereffect.simulation._study import FINAL_HEADINGS, Study
from aftereffect.simulation._workers import Workers, check_jobs, run_tasks, worker_pool

__all__ = [
    "BATCH",
    "COLOURS",
    "COVARIATES",
    "DASHES",
    "DEFAULT_CHECKPOINTS",
    "FINAL_HEADINGS",
    "LEGEND",
    "MAX_CHECKPOINTS",
    "MAX_REPLICATIONS",
    "PLAIN_NUMBERS",
    "STUDY_SUFFIXES",
    "BatchResult",
    "ChunkResult",
    "CurveStyle",
    "Plan",
    "PolicyRuns",
    "Runs",
    "Study",
    "Task",
    "Trace",
    "Workers",
    "call_absorb",
    "call_decide",
    "call_decide_slots",
    "call_observe",
    "check_indices",
    "check_jobs",
    "check_signatures",
    "check_state",
    "compile_driver",
    "copy_checked",
    "dask_cluster",
    "draw_curves",
    "interpret_driver",
    "load_decide",
    "log_spaced",
    "make_covariates",
    "plan_study",
    "prepare",
    "print_progress",
    "run_batch",
    "run_tasks",
    "save_picture",
    "simulate",
    "trace_run",
    "worker_pool",
]
