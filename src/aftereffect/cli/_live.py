"""The commands of one live experiment, from ``create`` to ``end``."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

from cyclopts import Parameter

from aftereffect._core import (
    PICTURE_SUFFIXES,
    check_float,
    check_int,
    check_writable,
    require_extra,
)
from aftereffect.cli._formats import (
    DECISION,
    HISTORY,
    JUDGED_STATUS,
    LAG,
    RESULTS,
    STATUS,
    TOTALS,
    VERIFICATION,
)
from aftereffect.cli._shared import (
    Flag,
    Folder,
    Format,
    Number,
    Numbers,
    OutputFile,
    RealNumber,
    Share,
    SlotText,
    SpecText,
    confirm,
    read_number,
    read_share,
)
from aftereffect.errors import CorruptionError, InputError, ParameterError, UnlikelyTotalError
from aftereffect.live import (
    DEFAULT_POLICY,
    DEFAULT_STORAGE,
    CommandHook,
    Experiment,
    ExportForm,
    FolderFeed,
    Notifier,
    Webhook,
    find_form,
    leave_out_unplayed,
    read_totals_file,
    read_totals_query,
)

if TYPE_CHECKING:
    from aftereffect.planning import Plan

StorageUrl: TypeAlias = Annotated[
    str,
    Parameter(
        metavar="URL",
        env_var="AFTEREFFECT_STORAGE",
        help="The database that contains the experiments: sqlite:///file.db or "
        "postgresql+psycopg://user:password@host/database.",
    ),
]
Name: TypeAlias = Annotated[str, Parameter(help="The name of the experiment.")]
PrintFormat: TypeAlias = Annotated[Format, Parameter(help="How to print the answer.")]
StatusFormat: TypeAlias = Annotated[
    Format, Parameter(help="How to print the status. The csv format has only the table of arms.")
]
Revise: TypeAlias = Annotated[
    Flag,
    Parameter(
        help="Replace what was recorded before. Decisions stand; later ones use what is new."
    ),
]
Covariates: TypeAlias = Annotated[
    str,
    Parameter(
        metavar="NAME=NUMBER,...",
        help="Numbers that come with the slot, by the names that the experiment was created with: "
        "temperature=3.5,rain=0. Those that are left out stay as they are.",
    ),
]
Guardrails: TypeAlias = Annotated[
    str,
    Parameter(
        metavar="NAME=NUMBER,...",
        help="Numbers of the guardrails in the slot, by their names: complaints=3,refunds=0. They "
        "may come later than the total: tell it again with them.",
    ),
]

ArmNames: TypeAlias = Annotated[str, Parameter(metavar="NAME,...")]
FeedColumns: TypeAlias = Annotated[
    str,
    Parameter(
        metavar="COLUMN=NAME,...",
        help="What the columns slot, time, total, arm and those of covariates and guardrails are "
        "called, where they have other names: time=Datum,total=Umsatz.",
    ),
]
FeedTimezone: TypeAlias = Annotated[
    str,
    Parameter(
        metavar="NAME",
        help="The time zone of times without an offset, such as Europe/Berlin. By default, that of "
        "the experiment.",
    ),
]
IgnoreUnplayed: TypeAlias = Annotated[
    Flag,
    Parameter(
        help="Leave out rows of slots that were not played: those before the first slot, and those "
        "that were skipped."
    ),
]


def create(
    name: str,
    /,
    *,
    arms: Annotated[str, Parameter(metavar="NAME,...")],
    policy: SpecText = DEFAULT_POLICY,
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
        The default is made for the totals of real businesses, with seasons, drift and noise.
    reward_range
        The smallest and the largest reward that one pull can bring in all, summed over all slots in
        which it arrives: 0,200. The default policy does not need it, most others do.
    slot
        How long a slot lasts: 15min, 1h, 1d or 1w. With it, slots have times.
    start
        When the first slot begins, such as 2026-03-02T00:00. By default, the first slot follows the
        last one of the history; without a history, it is the next full slot.
    timezone
        The time zone of the start and of the history, such as Europe/Berlin. The default is UTC.
    history
        A file with the totals before the experiment: a .csv, .csv.gz or .parquet file with the
        columns "time" and "total".
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
        reward_range=reward_range,
        slot=slot,
        start=start,
        timezone=timezone,
        history=history,
        control=control,
        control_share=control_share,
        floors=None if floor is None else _read_by_name("floors", "B=5%,C=2%", floor, read_share),
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


def tell(
    name: Name,
    slot: SlotText | None = None,
    total: Number | None = None,
    /,
    *,
    arm: Annotated[str | None, Parameter(metavar="NAME")] = None,
    covariates: Covariates | None = None,
    guardrails: Guardrails | None = None,
    revise: Revise = False,
    yes: Flag = False,
    csv: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    sql: Annotated[str | None, Parameter(metavar="URL", env_var="AFTEREFFECT_SQL")] = None,
    query: Annotated[str | None, Parameter(metavar="SELECT")] = None,
    columns: FeedColumns | None = None,
    feed_timezone: FeedTimezone | None = None,
    ignore_unplayed: IgnoreUnplayed = False,
    storage: StorageUrl = DEFAULT_STORAGE,
    format: PrintFormat = "table",
) -> None:
    """Record the total that was observed in a slot, or the totals in a file or a database.

    Parameters
    ----------
    slot
        The number of the slot, or the time at which it begins.
    total
        Everything that was observed in the slot, whichever arms it came from.
    arm
        The arm that was really played, if it is not the one that "ask" gave.
    yes
        Record the total even if it is far from all earlier totals.
    csv
        A .csv, .csv.gz or .parquet file with the columns "slot" or "time", and "total". The column
        "arm" is optional: it names the arm that was really played, if it is not the one that "ask"
        gave. An empty total marks the slot as missing. The columns of covariates and guardrails are
        optional too; empty cells are left out. Either all rows are recorded, or none. Cells may be
        separated by commas, semicolons or tabs; numbers may have decimal commas.
    sql
        The database that has the totals, such as sqlite:///shop.db: record what --query finds.
    query
        A SELECT whose answer has such columns. Nothing is changed in that database.
    """
    is_feed = csv is not None or query is not None
    is_one = not is_feed and slot is not None and total is not None
    is_bare = slot is None and arm is None and covariates is None and guardrails is None
    if not (is_one or (is_feed and is_bare)) or (csv is not None and query is not None):
        raise ParameterError(
            "tell needs either a slot and its total, or --csv FILE, or --sql URL --query SELECT"
        )
    if query is not None and sql is None:
        raise ParameterError("--query needs the database that has the totals: give --sql URL")
    if not is_feed and (columns is not None or feed_timezone is not None or ignore_unplayed):
        raise ParameterError("--columns, --feed-timezone and --ignore-unplayed need --csv or --sql")
    numbers = None if covariates is None else _read_covariates(covariates)
    counts = None if guardrails is None else _read_guardrails(guardrails)
    with Experiment.open(name, storage=storage) as experiment:
        totals: list[Any] = [(slot, total, arm, numbers, counts)]
        if is_feed:
            form = find_form(experiment, _read_columns(columns), feed_timezone)
            if csv is not None:
                totals = read_totals_file(csv, form)
            else:
                totals = read_totals_query(sql or "", query or "", form)
        if ignore_unplayed:
            totals = leave_out_unplayed(experiment, totals)
        try:
            answer = experiment.tell_many(totals, revise=revise, confirm=yes)
        except UnlikelyTotalError as error:
            raise UnlikelyTotalError(f"{error}, with --yes") from None
    TOTALS.show(answer, format)


def follow(
    name: Name,
    folder: Folder,
    /,
    *,
    every: RealNumber = 10,
    once: Flag = False,
    revise: Revise = False,
    yes: Flag = False,
    columns: FeedColumns | None = None,
    feed_timezone: FeedTimezone | None = None,
    ignore_unplayed: IgnoreUnplayed = False,
    storage: StorageUrl = DEFAULT_STORAGE,
) -> None:
    """Record the totals of all files that come into a folder, each file once, until Ctrl-C.

    The files are such as "tell --csv" takes. The log keeps which files were recorded: after a crash
    none is lost, and none is recorded twice. Files are taken in the order of their names. A file
    that is refused is tried again, as its slots may be decided later; a line says why.

    Parameters
    ----------
    folder
        The folder. Files whose names begin with a dot are left alone, and so is one that was
        changed in the last two seconds.
    every
        How many seconds to wait before looking again.
    once
        Look once and end. The exit status is 2 if a file was refused.
    yes
        Record totals even if they are far from all earlier totals.
    """
    pause = check_float("every", every, at_least=0.1, at_most=86_400)
    with Experiment.open(name, storage=storage) as experiment:
        feed = FolderFeed(
            experiment,
            folder,
            columns=_read_columns(columns),
            timezone=feed_timezone,
            ignore_unplayed=ignore_unplayed,
            revise=revise,
            confirm=yes,
        )
        said: dict[str, str] = {}
        while True:
            refused = 0
            for report in feed.tell_new():
                refused += report.problem is not None
                if said.get(report.name) != str(report):
                    said[report.name] = str(report)
                    place = sys.stdout if report.problem is None else sys.stderr
                    print(report, file=place, flush=True)
            if once:
                break
            time.sleep(pause)
    if refused:
        raise InputError(f"files in {folder} that were refused: {refused}")


def notify(
    name: Name,
    /,
    *,
    url: str | None = None,
    command: str | None = None,
    secret: Annotated[
        str | None, Parameter(env_var="AFTEREFFECT_HOOK_SECRET", show_default=False)
    ] = None,
    every: RealNumber = 10,
    once: Flag = False,
    storage: StorageUrl = DEFAULT_STORAGE,
) -> None:
    """Tell a web address or a command when the arm changes, and when the rule says stop.

    Each notice is delivered at least once: what fails is tried again until it is delivered, and
    the log keeps which notices were. A new hook is first told which arm is played now.

    Parameters
    ----------
    url
        The address: it gets a POST request with JSON, as Standard Webhooks defines it, and must
        answer with a status of 2xx.
    command
        The command, which gets the same JSON on its standard input and must end with the exit
        status 0. It is run without a shell.
    secret
        What requests are signed with, by HMAC-SHA256. Other users of the machine can see options of
        a command, so use the environment variable.
    every
        How many seconds to wait before looking again.
    once
        Deliver what there is and end. The exit status is 2 if something cannot be delivered.
    """
    pause = check_float("every", every, at_least=0.1, at_most=86_400)
    if (url is None) == (command is None):
        raise ParameterError("notify needs either --url ADDRESS or --command COMMAND")
    hook = CommandHook(command) if command is not None else Webhook(url or "", secret)
    with Experiment.open(name, storage=storage) as experiment:
        notifier = Notifier(experiment, hook)
        if once:
            for notice in notifier.deliver_new():
                print(notice, flush=True)
            return
        notifier.run(pause, lambda line: print(line, flush=True))


def mark_missing(
    name: Name,
    slot: SlotText,
    /,
    *,
    covariates: Covariates | None = None,
    guardrails: Guardrails | None = None,
    revise: Revise = False,
    storage: StorageUrl = DEFAULT_STORAGE,
    format: PrintFormat = "table",
) -> None:
    """Record that the total of a slot will never be known.

    Parameters
    ----------
    slot
        The number of the slot, or the time at which it begins.
    """
    numbers = None if covariates is None else _read_covariates(covariates)
    counts = None if guardrails is None else _read_guardrails(guardrails)
    with Experiment.open(name, storage=storage) as experiment:
        answer = [
            experiment.mark_missing(slot, covariates=numbers, guardrails=counts, revise=revise)
        ]
    TOTALS.show(answer, format)


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
    if plot is not None:
        require_extra("plot")
        check_writable(plot, PICTURE_SUFFIXES)
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
    if plot is not None:
        require_extra("plot")
        check_writable(plot, PICTURE_SUFFIXES)
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


def _read_covariates(text: str) -> dict[str, float]:
    """Read numbers by name: temperature=3.5,rain=0."""
    return _read_by_name("covariates", "temperature=3.5,rain=0", text, read_number)


def _read_guardrails(text: str) -> dict[str, float]:
    return _read_by_name("guardrails", "complaints=3,refunds=0", text, read_number)


def _read_columns(text: str | None) -> dict[str, str] | None:
    """Read names of columns: time=Datum,total=Umsatz."""
    if text is None:
        return None
    return _read_by_name("columns", "time=Datum,total=Umsatz", text, str.strip)


T = TypeVar("T")


def _read_by_name(what: str, example: str, text: str, read: Callable[[str], T]) -> dict[str, T]:
    """Read several numbers or texts, each after its name."""
    numbers: dict[str, T] = {}
    for part in text.split(","):
        name, equals, number = part.rpartition("=")
        if not equals or name.strip() in numbers:
            raise ParameterError(
                f"expected {what} by name, once each, such as {example}, got {text!r}"
            )
        numbers[name.strip()] = read(number)
    return numbers
