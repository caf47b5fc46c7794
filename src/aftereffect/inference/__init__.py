"""Who won? Effects of arms with intervals that hold at every look, resting on recorded draws.

An experiment draws an arm for each block of slots, with known probabilities. That alone makes the
intervals right if arms do not differ, whatever the totals are like. A model of totals, learned on
the way, makes them narrow. Read the modules in this order: `_trial`, `_baseline`, `_scores`,
`_sequence`, `_unit_baseline`, `_unit_scores`, `_analysis`, `_course`, `results`, `guardrails`.
"""

from aftereffect.inference._analysis import LEVELS, analyse
from aftereffect.inference._course import Course, PlannedCourse, follow, read_courses
from aftereffect.inference._trial import Trial, UnitTrial
from aftereffect.inference.guardrails import (
    MAX_GUARDRAILS,
    MAX_TOLERATED,
    GuardedArm,
    Guardrail,
    GuardrailResults,
    find_level,
)
from aftereffect.inference.results import Effect, Look, Results

__all__ = [
    "LEVELS",
    "MAX_GUARDRAILS",
    "MAX_TOLERATED",
    "Course",
    "Effect",
    "GuardedArm",
    "Guardrail",
    "GuardrailResults",
    "Look",
    "PlannedCourse",
    "Results",
    "Trial",
    "UnitTrial",
    "analyse",
    "find_level",
    "follow",
    "read_courses",
]
