"""A virtual environment for each contestant with pins, reused while the pins stay the same."""

import re
import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parent.parent
PINS = BENCHMARKS / "contestants" / "pins"
FOLDER = BENCHMARKS.parent / ".venv-field"
LONGEST_REASON = 160


class CannotTakePartError(Exception):
    """Why a contestant cannot take part, in one line."""


def python_of(contestant: str) -> str:
    """The Python of the contestant's environment; its pins are installed first if needed."""
    pins = PINS / f"{contestant}.txt"
    if not pins.exists():
        return sys.executable
    bandit = FOLDER / contestant
    python, installed = str(bandit / "bin" / "python"), bandit / "installed"
    if not installed.exists() or installed.read_text() != pins.read_text():
        run_or_leave_out([sys.executable, "-m", "venv", "--clear", str(bandit)], "no environment")
        pip = [
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--requirement",
            str(pins),
        ]
        run_or_leave_out(pip, "cannot be installed")
        installed.write_text(pins.read_text())
    return python


def run_or_leave_out(command: list[str], trouble: str, seconds: float | None = None) -> str:
    """What a command printed, or why it did not get there."""
    try:
        done = subprocess.run(
            command, cwd=BENCHMARKS, capture_output=True, text=True, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        raise CannotTakePartError(f"{trouble}: not done after {seconds:.0f} seconds") from None
    if done.returncode != 0:
        sys.stderr.write(done.stderr)
        raise CannotTakePartError(
            f"{trouble}: {complaint(done.stderr) or f'exit status {done.returncode}'}"
        )
    return done.stdout


def complaint(text: str) -> str:
    """The last error, or else the last line, without paths and addresses of this machine."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [
        line for line in lines if line.startswith("ERROR")
    ]  # pip has more to say after its errors
    last = (errors or lines or [""])[-1]
    return re.sub(r"\S*[/\\]\S*|host=\S+", "...", last)[:LONGEST_REASON]
