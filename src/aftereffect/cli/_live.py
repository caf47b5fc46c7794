"""The commands of one live experiment, from ``create`` to ``end``; for totals, see `_feeds`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

from cyclopts import Parameter

from aftereffect._core import check_int
from aftereffect.cli._formats import (
    DECISION,
    HISTORY,
    JUDGED_STATUS,
    LAG,
    RESULTS,
    STATUS,
    VERIFICATION,
)
from aftereffect.cli._shared import check_picture, confirm
from aftereffect.cli._values import (
    Flag,
    Format,
    Name,
    Number,
    Numbers,
    OutputFile,
    PrintFormat,
    RealNumber,
    Share,
    SlotText,
    SpecText,
    StorageUrl,
    read_by_name,
    read_share,
)
from aftereffect.errors import CorruptionError, ParameterError
from aftereffect.live import DEFAULT_STORAGE, Experiment, ExportForm

if TYPE_CHECKING:
    from aftereffect.planning import Plan

StatusFormat: TypeAlias = Annotated[
    Format, Parameter(help="How to print the status. The csv format has only the table of arms.")
]
ArmNames: TypeAlias = Annotated[str, Parameter(metavar="NAME,...")]


def create(
    name: str,
    /,
    *,
    arms: Annotated[str, Parameter(metavar="NAME,...")],
    policy: SpecText | None = None,
    units: Annotated[str | None, Parameter(metavar="NAME,...")] = None,
    reward_range: Numbers | None = None,
    slot: Annotated[str | None, Parameter(metavar="LENGTH")] = None,
    start: Annotated[str | None, Parameter(metavar="TIME")] = None,
    timezone: Annotated[str | None, Parameter(metavar="NAME")] = None,
    history: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    control: Annotated[str | None, Parameter(metavar="NAME")] = None,
    control_share: Share | None = None,
    floor: Annotated[str | None, Parameter(metavar="NAME=SHARE,...")] = None,
    covariates: Annotated[str | None, Parameter(metavar="NAME,...")] = None,
    unit: Annotated[str | None, Parameter(metavar="UNIT")] = None,
    stop_when_loss_below: Number | None = None,
    guardrail: Annotated[list[SpecText] | None, Parameter(negative=())] = None,
    plan: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    final_after: Annotated[str | None, Parameter(metavar="TIME")] = None,
    max_total: Number | None = None,
    horizon: Number | None = None,
    seed: Number | None = None,
    storage: StorageUrl = DEFAULT_STORAGE,
    format: StatusFormat = "table",
) -> None:
    """Start an experiment. Repeating the command with the same settings changes nothing.

    Parameters
    ----------
    name
        A name for the experiment: letters, digits, '-', '_' and '.'.
    arms
        The names of the arms, separated by commas: A,B,C
    policy
        The policy that decides, such as "ars-ucb" or "clw(d=24)" (see "aftereffect list policies").
        The default, adaptive-switchback, is made for the totals of real businesses, with seasons,
        drift and noise; with several units it is unit-switchback.
    units
        The names of units, such as stores or regions, separated by commas: north,south. Each plays
        an arm and has a total of its own in every slot.
    reward_range
        The smallest and the largest reward that one pull can bring in all, summed over all slots in
        which it arrives: 0,200. Most policies need it; the default policy does not.
    slot
        How long a slot lasts: 15min, 1h, 1d or 1w. With it, slots have times.
    start
        When the first slot begins, such as 2026-03-02T00:00. By default, the first slot follows the
        last one of the history; without a history, it is the next full slot.
    timezone
        The time zone of the start and of the history, such as Europe/Berlin. The default is UTC.
    history
        A file with the totals before the experiment: a .csv, .csv.gz or .parquet file with the
        columns "time" and "total"; with several units also "unit".
    control
        The arm that was played before the experiment. By default, the first arm.
    control_share
        The least share of rounds that the control keeps, whatever the policy decides: .1 or 10%.
        The control must be named.
    floor
        The least share of rounds of other arms: B=5% or B=.05,C=.02
    covariates
        The names of numbers that come with each slot, separated by commas: temperature,rain. A
        history must have a column for each. Only policies that look at every slot take them.
    unit
        The unit of the totals, such as EUR: at most 20 characters. Tables and charts show it.
    stop_when_loss_below
        A rule to stop, which "results" and "status" apply: they say stop when shipping the leading
        arm is expected to cost less than this number per slot, in the unit of the totals. The
        experiment goes on until you end it.
    guardrail
        A further total of each slot, in which an arm may do harm, such as
        "guardrail(complaints, tolerated=5, stops=true)": an arm that shows more than 5 % more of it
        than the control is stopped. With harm=less, less of it does harm. Without stops=true, harm
        is only reported. Repeat this option for up to 5 of them.
    plan
        A plan that "aftereffect plan --out FILE.json" has saved. What it promised for the policy is
        recorded, and "status" and "results" compare.
    final_after
        How long after the end of its slot a total may still change: 72h, 30d or 6w. Until then it
        is provisional, and may be told again without --revise. "status" counts such totals.
    max_total
        Refuse totals above this number: they are probably typing errors.
    horizon
        The number of slots that the experiment will last. Some policies need it to plan ahead.
    seed
        The seed of a randomised policy. The same seed gives the same decisions. By default, a seed
        is drawn.
    """
    with Experiment.create(
        name,
        arms=_split_names(arms),
        policy=policy,
        units=() if units is None else _split_names(units),
        reward_range=reward_range,
        slot=slot,
        start=start,
        timezone=timezone,
        history=history,
        control=control,
        control_share=control_share,
        floors=read_by_name("floors", "B=5%,C=2%", floor, read_share),
        covariates=_split_names(covariates) if covariates is not None else (),
        unit=unit,
        stop_when_loss_below=stop_when_loss_below,
        guardrails=guardrail or (),
        plan=None if plan is None else _load_plan(plan),
        final_after=final_after,
        max_total=max_total,
        horizon=horizon,
        seed=seed,
        storage=storage,
    ) as experiment:
        answer = experiment.status()
        print(f"stored in {experiment.storage.url}", file=sys.stderr)
    STATUS.show(answer, format)


def ask(
    name: Name,
    /,
    *,
    slot: SlotText | None = None,
    storage: StorageUrl = DEFAULT_STORAGE,
    format: PrintFormat = "table",
) -> None:
    """Decide which arm to play in the next slot.

    Parameters
    ----------
    slot
        The number of the slot, or its time: the next one, or one that was decided before. The same
        slot always gets the same answer. Without this option, every call decides a new slot.
    """
    with Experiment.open(name, storage=storage) as experiment:
        answer = experiment.ask(slot)
    DECISION.show(answer, format)


def skip(
    name: Name,
    first: SlotText,
    last: SlotText | None = None,
    /,
    *,
    storage: StorageUrl = DEFAULT_STORAGE,
    format: StatusFormat = "table",
) -> None:
    """Record that the next slots pass without a decision, for example during an outage.

    If arms were played in these slots nevertheless, record their totals with "tell --arm".

    Parameters
    ----------
    first
        The first slot to skip, which must be the next slot of the experiment.
    last
        The last slot to skip. Without it, only the first slot is skipped.
    """
    with Experiment.open(name, storage=storage) as experiment:
        answer = experiment.skip(first, last)
    STATUS.show(answer, format)


def arms(
    name: Name,
    /,
    *,
    add: ArmNames | None = None,
    pause: ArmNames | None = None,
    resume: ArmNames | None = None,
    retire: ArmNames | None = None,
    yes: Annotated[Flag, Parameter(help="Do not ask for confirmation.")] = False,
    storage: StorageUrl = DEFAULT_STORAGE,
    format: StatusFormat = "table",
) -> None:
    """Add, pause, resume or retire arms of a running experiment, and print its status.

    The changes hold from the next slot on, all or none of them. What is known of the other arms is
    kept. Repeating the command changes nothing. The policy must be adaptive-switchback, also with
    floors. The control can be neither paused nor retired.

    Parameters
    ----------
    add
        New arms. No name is used twice, also not that of a retired arm.
    pause
        Arms that are not played until they are resumed. If one is played now, its round ends.
    resume
        Arms that are paused.
    retire
        Arms that are never played again.
    """
    given = {"add": add, "pause": pause, "resume": resume, "retire": retire}
    changes = {change: _split_names(names) for change, names in given.items() if names is not None}
    with Experiment.open(name, storage=storage) as experiment:
        active = {arm.arm for arm in experiment.status().arms if arm.state != "retired"}
        if active.intersection(changes.get("retire", ())) and not yes:
            question = f"Retire {retire} for good? A retired arm is never played again. [y/N] "
            if not confirm("arms", question):
                raise ParameterError(f"{retire} was not retired, and nothing else was changed")
        answer = experiment.change_arms(**changes)
    STATUS.show(answer, format)


def status(
    name: Name, /, *, storage: StorageUrl = DEFAULT_STORAGE, format: StatusFormat = "table"
) -> None:
    """Print the status of an experiment, arm by arm, and its next decision.

    If the experiment has a rule to stop or guardrails, the answer also has their verdicts. If it
    comes from a plan, it compares the promise with what came of it.
    """
    with Experiment.open(name, storage=storage) as experiment:
        answer, results = experiment.status(), None
        is_judged = answer.stop_when_loss_below is not None or answer.guardrails or answer.plan
        if is_judged and answer.no_results is None:
            results = experiment.results()
    JUDGED_STATUS.show((answer, results), format)


def history(
    name: Name,
    /,
    *,
    last: Number = 20,
    after: Number = -1,
    storage: StorageUrl = DEFAULT_STORAGE,
    format: PrintFormat = "table",
) -> None:
    """Print the decisions and totals of an experiment, slot by slot.

    Parameters
    ----------
    last
        Print only this many slots: the latest ones.
    after
        Print only slots after this one.
    """
    count = check_int("last", last)
    with Experiment.open(name, storage=storage) as experiment:
        answer = experiment.history(after=max(after, experiment.status().slots - 1 - count))
    HISTORY.show(answer, format)


def lag(
    name: Name,
    /,
    *,
    level: RealNumber = 0.9,
    plot: OutputFile | None = None,
    storage: StorageUrl = DEFAULT_STORAGE,
    format: PrintFormat = "table",
) -> None:
    """Estimate how many slots rewards take to arrive, from the decisions and the totals.

    If the totals are not enough for an estimate, the answer says why.

    Parameters
    ----------
    level
        How often the confidence bands should contain the truth: 0.5, 0.8, 0.9, 0.95 or 0.99.
    plot
        Save a picture to a .png, .svg or .pdf file (needs the extra "plot"). It shows which share
        of a reward has arrived by each lag.
    """
    check_picture(plot)
    with Experiment.open(name, storage=storage) as experiment:
        estimate = experiment.lag(level=level)
    if plot is not None:
        estimate.save_plot(plot)
    LAG.show(estimate, format)


def results(
    name: Name,
    /,
    *,
    level: RealNumber = 0.95,
    stop_when_loss_below: Number | None = None,
    plot: OutputFile | None = None,
    storage: StorageUrl = DEFAULT_STORAGE,
    format: Annotated[
        Format,
        Parameter(help="How to print the answer. The csv format has only the table of effects."),
    ] = "table",
) -> None:
    """Say which arm is best and by how much, with intervals that hold at every look.

    The experiment must record the probabilities of its decisions: with the default policy, and with
    --control-share or --floor under any policy, it does.

    Parameters
    ----------
    level
        The probability with which all intervals hold, however often you look: 0.8, 0.9, 0.95 or
        0.99.
    stop_when_loss_below
        Say whether to stop: whether shipping the leading arm is expected to cost less than this
        number per slot, in the unit of the totals. By default, the rule with which the experiment
        was created, if there is one.
    plot
        Save a picture to a .png, .svg or .pdf file (needs the extra "plot"). It shows the effect of
        each arm against the control over time.
    """
    check_picture(plot)
    with Experiment.open(name, storage=storage) as experiment:
        found = experiment.results(level=level, stop_when_loss_below=stop_when_loss_below)
    if plot is not None:
        found.save_plot(plot)
    RESULTS.show(found, format)


def export(
    name: Name,
    /,
    *,
    out: OutputFile,
    form: ExportForm = "slots",
    storage: StorageUrl = DEFAULT_STORAGE,
) -> None:
    """Save the whole history of an experiment to a file.

    Parameters
    ----------
    out
        A .csv file, or a .parquet file (needs the extra "data").
    form
        What a row is for: "slots" has all that was recorded of a slot. "mmm" is for marketing mix
        models, with a column per arm. "clusters" is for analyses in which rounds are clusters.
    """
    with Experiment.open(name, storage=storage) as experiment:
        experiment.export(out, form=form)
    print(out)


def verify(
    name: Name, /, *, storage: StorageUrl = DEFAULT_STORAGE, format: PrintFormat = "table"
) -> None:
    """Check that the log of an experiment is not damaged, and derive all its decisions again.

    The exit status is 2 if something is damaged.
    """
    with Experiment.open(name, storage=storage, check=False) as experiment:
        found = experiment.verify()
    VERIFICATION.show(found, format)
    if not found.whole:
        raise CorruptionError(f"experiment {name!r} is damaged: restore a backup")


def end(
    name: Name,
    /,
    *,
    yes: Annotated[Flag, Parameter(help="Do not ask for confirmation.")] = False,
    storage: StorageUrl = DEFAULT_STORAGE,
    format: StatusFormat = "table",
) -> None:
    """End an experiment for good and print its final status.

    After that, no slot can be decided and no total recorded.
    """
    with Experiment.open(name, storage=storage) as experiment:
        if not (yes or experiment.status().ended):
            question = (
                f"End experiment {name!r} in {experiment.storage.url} for good? "
                "Nothing can be decided or recorded after that. [y/N] "
            )
            if not confirm("end", question):
                raise ParameterError(f"experiment {name!r} was not ended")
        answer = experiment.end()
    STATUS.show(answer, format)


def _load_plan(path: Path) -> "Plan":
    from aftereffect.planning import Plan  # which loads the simulation

    return Plan.load(path)


def _split_names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]
