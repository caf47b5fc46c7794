"""The engine "cuda" beside other ways to do the same: ``make bench-gpu`` writes docs/gpu.md.

It needs an NVIDIA GPU. The rows of JAX and of hand-written CUDA appear where JAX and nvcc are.
Adaptive switchbacks compile for minutes, so processes of their own do that from the beginning.
"""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import aftereffect as ae
from aftereffect._core import PolicyKernels, as_spec, parse
from aftereffect.bandits import Bandit
from aftereffect.policies import Policy
from aftereffect.reproduction import CHAPTERS, DEFAULT, find_figures, markdown_table
from aftereffect.simulation import EngineChoice, Runs, Task, prepare, worker_pool
from aftereffect.simulation._tasks import give_facts
from tables import replace_between_markers

BEGIN, END = "<!-- gpu: written by make bench-gpu -->", "<!-- /gpu -->"
HERE = Path(__file__).parent
NINE = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]
DELAYS = {"no delay": ae.Immediate(), "lags 30 .. 39": ae.Interval(30, 39)}
SLOTS, REPLICATIONS, SEED = 10_000, 2**20, 7
GPU_ENGINES: tuple[EngineChoice, ...] = ("cuda", "cuda-single")
#: Replications on a CPU, for each core: of UCB1, of other policies, and of switchbacks.
ON_CPU, OTHERS_ON_CPU, DEMAND_ON_CPU = 4_000, 400, 100
POLICIES = ("ucb1", "exp3", "ars-kl-ucb", "settle-ucb", "ars-ucb", "ars-clw")
OTHER_DELAYS = ("uniform-delay(30, 39)", "geometric(0.9)", "power-law(2)")
ORACLES = ("delayed-kl-ucb", "attributed-kl-ucb")
ORACLE_DELAYS = ("immediate", "interval(30, 39)", "uniform-delay(10, 30)")
#: Slots and replications that show what single precision changes as sums grow.
MANY_SLOTS, MANY_SLOTS_REPLICATIONS = 10**6, 2**17
#: Policies that look at every slot, with slots and replications: eight weeks of hours, or one week
#: where a model learns the delay too.
DEMAND = 'seasonal-bandit([0, 0.1, 0.2, 0.3], delay=interval(0, 6), slot="1h")'
DEMANDS = (
    ("fixed-switchback", 1_344, 2**15),
    ("adaptive-switchback(delay=interval(0, 6))", 1_344, 2**15),
    ("adaptive-switchback", 168, 2**12),
)
#: Replications that leave a digest, and how many of them are kept.
DIGESTED, KEPT = 10**7, 1_000
#: Slots and replications of the long runs of ``aftereffect reproduce --long``, and many more.
LONG_SLOTS, LONG_REPLICATIONS, MANY_REPLICATIONS = 10**8, 12, 2**11


def make_task(
    policy: str | Policy,
    bandit: Bandit,
    slots: int,
    count: int,
    engine: EngineChoice = "cuda",
) -> Task:
    """The task on the GPU."""
    known = give_facts(as_spec(policy, Policy), bandit)
    return Task(known, bandit, engine, slots, (slots,), SEED, range(count))


def measure_gpu(task: Task, times: int = 2) -> tuple[float, float, Runs]:
    """Seconds to compile and to play, with results copied back, and the results.

    The last of the times counts: at first the device makes room.
    """
    begin = time.perf_counter()
    device = prepare(task).device
    compiled = time.perf_counter() - begin
    if device is None:
        raise TypeError(f"{task} is not for a GPU")
    seconds = []
    for _ in range(times):
        runs = Runs.zeros(task)
        seconds.append(
            device.play(task.seed, task.replications, task.horizon, task.checkpoints, *runs)
        )
    return compiled, seconds[-1], runs


def measure_cpu(policy: str | Policy, bandit: Bandit, jobs: int, slots: int, count: int) -> Any:
    """Slots per second of so many cores, and the runs."""
    ae.simulate(policy, bandit, slots, jobs, seed=1, jobs=jobs, checkpoints=1)  # compiles
    begin = time.perf_counter()
    runs = ae.simulate(policy, bandit, slots, count * jobs, seed=2, jobs=jobs, checkpoints=1)[0]
    seconds = runs.seconds if jobs == 1 else time.perf_counter() - begin
    return slots * count * jobs / seconds, runs


def short(speed: float) -> str:
    """Two digits, such as 2.9e10."""
    return f"{speed:.1e}".replace("e+0", "e").replace("e+", "e")


def describe(regret: Any) -> str:
    """Mean and standard error."""
    return f"{regret.mean():,.2f} ± {regret.std() / len(regret) ** 0.5:,.2f}"


def measure_ucb1() -> list[list[str]]:
    """A row for each way to play UCB1."""
    found: dict[str, list[str]] = {}
    for delay in DELAYS.values():
        bandit = ae.StochasticBandit(NINE, delay)
        for engine in GPU_ENGINES:
            task = make_task("ucb1", bandit, SLOTS, REPLICATIONS, engine)
            _, seconds, runs = measure_gpu(task)
            found.setdefault(f'aftereffect, `engine="{engine}"`', []).extend(
                [short(SLOTS * REPLICATIONS / seconds), describe(runs.regret[:, -1])]
            )
        for jobs in (1, len(os.sched_getaffinity(0))):
            speed, played = measure_cpu("ucb1", bandit, jobs, SLOTS, ON_CPU)
            name = f"aftereffect, {jobs} CPU core{'s' if jobs > 1 else ''}"
            found.setdefault(name, []).extend([short(speed), describe(played.final)])
    others = [("JAX, `vmap` and `scan`", [sys.executable, str(HERE / "gpu_jax.py")])]
    if find_spec("jax") is None:
        others = []
    with tempfile.TemporaryDirectory() as folder:
        if shutil.which("nvcc"):
            for real in ("double", "float"):
                program = Path(folder) / real
                source = str(HERE / "gpu_limit.cu")
                options = ["-O3", "-arch=native", f"-DREAL={real}", "-o", str(program)]
                subprocess.run(["nvcc", *options, source], check=True)
                others.append((f"CUDA C++ by hand, {real}", [str(program)]))
        for name, command in others:
            given = ["double"] if "JAX" in name else []
            done = subprocess.run([*command, *given], capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"{name} failed: {done.stderr[-300:]}", file=sys.stderr)
                continue
            for line in done.stdout.splitlines():
                speed, mean, error = map(float, line.split())
                found.setdefault(name, []).extend([short(speed), f"{mean:,.2f} ± {error:.2f}"])
    return [[name, *cells] for name, cells in found.items()]


def measure_others() -> list[list[str]]:
    """A row for each policy and delay on the GPU, beside one CPU core."""
    pairs = [(policy, ae.StochasticBandit(NINE, ae.Interval(30, 39))) for policy in POLICIES]
    pairs += [("ucb1", ae.StochasticBandit(NINE, delay)) for delay in OTHER_DELAYS]
    pairs += [
        (policy, ae.StochasticBandit(NINE, delay)) for policy in ORACLES for delay in ORACLE_DELAYS
    ]
    count, rows = REPLICATIONS // 4, []
    for policy, bandit in pairs:
        speeds, times, regrets = [], [], []
        is_of_rounds = isinstance(parse(policy, Policy).kernels(), PolicyKernels)
        for engine in GPU_ENGINES:
            if engine == "cuda-single" and not is_of_rounds:
                speeds.append("-")
                regrets.append("-")
                continue
            task = make_task(policy, bandit, SLOTS, count, engine)
            compiled, seconds, runs = measure_gpu(task)
            speeds.append(short(SLOTS * count / seconds))
            times.append(f"{compiled:.1f} s")
            regrets.append(describe(runs.regret[:, -1]))
        cpu, played = measure_cpu(policy, bandit, 1, SLOTS, OTHERS_ON_CPU)
        name = f"`{policy}`, `{bandit.delay}`"
        rows.append([name, *speeds, short(cpu), times[0], *regrets, describe(played.final)])
        print(rows[-1], file=sys.stderr)
    return rows


def measure_precision() -> list[list[str]]:
    """A row for each precision over many slots."""
    bandit = ae.StochasticBandit(NINE, ae.Interval(30, 39))
    rows = []
    for engine in GPU_ENGINES:
        task = make_task("ucb1", bandit, MANY_SLOTS, MANY_SLOTS_REPLICATIONS, engine)
        _, seconds, runs = measure_gpu(task, times=1)
        speed = short(MANY_SLOTS * MANY_SLOTS_REPLICATIONS / seconds)
        rows.append([f'`engine="{engine}"`', speed, describe(runs.regret[:, -1])])
    return rows


def measure_digests() -> list[list[str]]:
    """A row for all replications kept, and one for few: each is a process of its own."""
    rows = []
    for keep in (DIGESTED, KEPT):
        command = [sys.executable, __file__, "digest", str(keep)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        rows.append(done.stdout.strip().split("|"))
    return rows


def measure_digest(keep: int) -> None:
    """Print the cells of a row."""
    bandit = ae.StochasticBandit(NINE, ae.Interval(30, 39))
    before = find_peak()
    begin = time.perf_counter()
    study = ae.simulate("ucb1", bandit, SLOTS, DIGESTED, seed=SEED, engine="cuda", keep=keep)
    played = time.perf_counter() - begin
    (summary,) = study.summaries()
    seconds = time.perf_counter() - begin
    numbers = summary["regret_mean"][-1], summary["regret_sem"][-1] or 0.0
    cells = [f"{keep:,}", f"{played:.1f} s", f"{seconds:.1f} s", f"{find_peak() - before:.1f} GB"]
    cells.append(f"{numbers[0]:,.3f} ± {numbers[1]:.3f}")
    middle = len(study.checkpoints) // 2
    cells += [f"{summary['regret_p95'][each]:,.2f}" for each in (middle, -1)]
    print("|".join(cells))


def find_peak() -> float:
    """The most memory of the computer that this process had so far, in GB."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e9


def measure_claims() -> str:
    """How long all studies take that figures 6 and 7 rest on, with their long runs."""
    settings = replace(DEFAULT, adversarial_long_horizon=LONG_SLOTS)
    begin, count, slots = time.perf_counter(), 0, 0
    with worker_pool() as workers:
        for figure in find_figures([6, 7]):
            for study in CHAPTERS["adversarial"].list_studies(figure, settings):
                study.play(workers, lambda _: None)
                count += 1
                slots += study.total_replications * count_slots(study)
    return (
        f"The {count} studies of `aftereffect reproduce --figure 6,7 --long`, {short(slots)} slots "
        f"in all, took {time.perf_counter() - begin:.0f} s on {workers.size} CPU cores, "
        "with compiling."
    )


def measure_long() -> list[list[str]]:
    """A row for each policy of the long runs of figure 6, whose rewards are a table."""
    settings = replace(DEFAULT, adversarial_long_horizon=LONG_SLOTS)
    figure = find_figures([6])[0]
    study = max(CHAPTERS["adversarial"].list_studies(figure, settings), key=count_slots)
    rows = []
    for policy in study.policies:
        for seed in (1, 2):  # the first compiles
            begin = time.perf_counter()
            ae.simulate(policy, study.bandit, LONG_SLOTS, LONG_REPLICATIONS, seed=seed)
            seconds = time.perf_counter() - begin
        row = [f"`{policy}`", f"{seconds:.1f} s"]
        for count in (LONG_REPLICATIONS, MANY_REPLICATIONS):
            task = make_task(policy, study.bandit, LONG_SLOTS, count)
            _, seconds, runs = measure_gpu(task, times=1)
            row.append(f"{seconds:.1f} s")
        rows.append([*row, describe(runs.regret[:, -1])])
    return rows


def count_slots(study: Any) -> int:
    """The slots of a study."""
    return int(study.checkpoints[-1])


def start_demands() -> list[subprocess.Popen[str]]:
    """Start a process for each policy that looks at every slot; it compiles, and waits."""
    pipe = subprocess.PIPE
    return [
        subprocess.Popen([sys.executable, __file__, str(row)], stdin=pipe, stdout=pipe, text=True)
        for row in range(len(DEMANDS))
    ]


def measure_demand(policy: str, slots: int, count: int) -> None:
    """Compile, wait for a line, play, and print the cells of a row."""
    bandit = parse(DEMAND, Bandit)
    task = make_task(policy, bandit, slots, count)
    begin = time.perf_counter()
    prepare(task)
    compiled = time.perf_counter() - begin
    sys.stdin.readline()
    _, seconds, runs = measure_gpu(task, times=1)
    cells = [f"`{policy}`", f"{slots:,}", f"{count / seconds:,.0f}"]
    for jobs in (1, len(os.sched_getaffinity(0))):
        speed, played = measure_cpu(policy, bandit, jobs, slots, DEMAND_ON_CPU)
        cells.append(f"{speed / slots:,.0f}")
    regrets = describe(runs.regret[:, -1]), describe(played.final)
    print("|".join([*cells, f"{compiled:.0f} s", *regrets]))


def collect_demands(processes: list[subprocess.Popen[str]]) -> list[list[str]]:
    """A row of each process, one after another."""
    rows = []
    for process in processes:
        output, _ = process.communicate("\n")
        if process.returncode == 0:
            rows.append(output.strip().split("|"))
    return rows


def describe_machine() -> str:
    """The device, its driver and the versions."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    device = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    name, driver = device.splitlines()[0].split(", ")
    return (
        f"Measured on one {name}, driver {driver}, numba-cuda {version('numba-cuda')}, numba "
        f"{version('numba')}, Python {platform.python_version()}, and CPU cores beside it."
    )


def main() -> None:
    """Measure, and write the tables."""
    target, demands = Path(sys.argv[1]), start_demands()
    cores = len(os.sched_getaffinity(0))
    ucb1 = [
        "UCB1, T = 10,000",
        *(f"{head}, {delay}" for delay in DELAYS for head in ("slots/s", "regret")),
    ]
    others = ["policy, delay", "slots/s", "single", "one CPU core", "compiles"]
    others += ["regret", "single", "on the CPU"]
    precision = ["UCB1, T = 1,000,000, lags 30 .. 39", "slots/s", "regret"]
    long = ["figure 6, T = 100,000,000", f"{LONG_REPLICATIONS} on {cores} CPU cores"]
    long += [f"{count:,} on the GPU" for count in (LONG_REPLICATIONS, MANY_REPLICATIONS)]
    long += ["regret of these"]
    demand = ["policy", "slots", "replications/s", "one CPU core", f"{cores} CPU cores", "compiles"]
    demand += ["regret", "on the CPU"]
    digests = ["of 10,000,000 replications kept", "played in", "with percentiles in"]
    digests += ["memory", "regret", "p95 in the middle", "p95 at the end"]
    parts = [describe_machine()]
    for heads, measure in (
        (others, measure_others),
        (ucb1, measure_ucb1),
        (precision, measure_precision),
        (digests, measure_digests),
        (long, measure_long),
        ([], measure_claims),
        (demand, lambda: collect_demands(demands)),
    ):
        measured = measure()
        parts.append(measured if isinstance(measured, str) else markdown_table(heads, measured))
        print(parts[-1], flush=True)
        replace_between_markers(target, BEGIN, END, "\n\n".join(parts))  # keeps what is done


if __name__ == "__main__":
    np.seterr(all="ignore")
    if sys.argv[1] == "digest":
        measure_digest(int(sys.argv[2]))
    elif sys.argv[1].isdigit():
        measure_demand(*DEMANDS[int(sys.argv[1])])
    else:
        main()
