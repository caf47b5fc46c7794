"""Simulation: one driver, two engines, all cores or many machines."""

from aftereffect.simulation._builders import compile_driver, interpret_driver, load_decide
from aftereffect.simulation._chunks import run_tasks
from aftereffect.simulation._dask import dask_cluster
from aftereffect.simulation._digest import Digest, OfAll
from aftereffect.simulation._driver import BATCH
from aftereffect.simulation._engine_choice import (
    ENGINE_CHOICES,
    EngineChoice,
    EngineRequest,
    recipe_of,
)
from aftereffect.simulation._plan import (
    DEFAULT_CHECKPOINTS,
    MAX_CHECKPOINTS,
    MAX_REPLICATIONS,
    Plan,
    plan_study,
    space_logarithmically,
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
from aftereffect.simulation._progress import print_progress
from aftereffect.simulation._rehearsal import (
    COVARIATES,
    PENDING,
    call_absorb,
    call_decide,
    call_decide_slots,
    call_observe,
    check_indices,
    check_signatures,
    check_state,
    copy_checked,
    make_covariates,
    play_pulls,
)
from aftereffect.simulation._replications import BatchResult, ChunkResult, prepare, run_batch
from aftereffect.simulation._runs import PolicyRuns
from aftereffect.simulation._simulate import simulate
from aftereffect.simulation._study import FINAL_HEADINGS, Study
from aftereffect.simulation._study_files import STUDY_SUFFIXES
from aftereffect.simulation._tasks import Runs, Task
from aftereffect.simulation._trace import Trace, trace_run
from aftereffect.simulation._workers import (
    Workers,
    check_jobs,
    check_made_by,
    explain_failure,
    worker_pool,
)

__all__ = [
    "BATCH",
    "COLOURS",
    "COVARIATES",
    "DASHES",
    "DEFAULT_CHECKPOINTS",
    "ENGINE_CHOICES",
    "FINAL_HEADINGS",
    "LEGEND",
    "MAX_CHECKPOINTS",
    "MAX_REPLICATIONS",
    "PENDING",
    "PLAIN_NUMBERS",
    "STUDY_SUFFIXES",
    "BatchResult",
    "ChunkResult",
    "CurveStyle",
    "Digest",
    "EngineChoice",
    "EngineRequest",
    "OfAll",
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
    "check_made_by",
    "check_signatures",
    "check_state",
    "compile_driver",
    "copy_checked",
    "dask_cluster",
    "draw_curves",
    "explain_failure",
    "interpret_driver",
    "load_decide",
    "make_covariates",
    "plan_study",
    "play_pulls",
    "prepare",
    "print_progress",
    "recipe_of",
    "run_batch",
    "run_tasks",
    "save_picture",
    "simulate",
    "space_logarithmically",
    "trace_run",
    "worker_pool",
]
