"""A client of the service: live experiments over HTTP, with the methods of `Experiment`.

>>> client = Client("http://127.0.0.1:8750")
>>> client.experiment("banner")
<RemoteExperiment 'banner' at http://127.0.0.1:8750>
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any
from urllib.parse import quote

from aftereffect._core import check_writable
from aftereffect.client._remote import RemoteExperiment, path_of
from aftereffect.client._transport import NOT_A_SERVICE, Transport
from aftereffect.errors import NotFoundError, ServiceError
from aftereffect.inference import read_courses
from aftereffect.live import (
    LOG_SUFFIXES,
    HistoryInput,
    Past,
    PlanInput,
    check_absent,
    read_last_hash,
    read_pasts,
    read_time,
)
from aftereffect.rewards import check_covariates

__all__ = [
    "Client",
    "RemoteExperiment",
]


class Client:
    """Live experiments on a service. Threads may share a client.

    Every request may be repeated and has one effect. So the client repeats a request that was not
    answered, and one that the service asks to repeat later (``Retry-After``), for up to `retry_for`
    seconds.

    Parameters
    ----------
    url
        The address of the service, such as ``http://127.0.0.1:8750``, with the path prefix of a
        reverse proxy.
    token
        From ``aftereffect token create``, if the service needs one.
    retry_for
        Seconds for which a request is repeated before the client gives up.
    timeout
        Seconds to wait for one answer.

    Examples
    --------
    >>> with Client("http://127.0.0.1:8750", retry_for=0) as client:
    ...     banner = client.experiment("banner")
    >>> client, banner.name
    (<Client of http://127.0.0.1:8750>, 'banner')
    """

    def __init__(
        self, url: str, token: str | None = None, *, retry_for: float = 30.0, timeout: float = 30.0
    ) -> None:
        self._transport = Transport(url, token, retry_for, timeout)

    def __repr__(self) -> str:
        return f"<Client of {self.url}>"

    @property
    def url(self) -> str:
        """The address of the service."""
        return self._transport.url

    def create(
        self,
        name: str,
        *,
        arms: Sequence[str],
        policy: object = None,
        units: Sequence[str] = (),
        reward_range: Sequence[float] | None = None,
        slot: str | None = None,
        start: str | datetime | None = None,
        timezone: str | None = None,
        history: HistoryInput | None = None,
        control: str | None = None,
        control_share: float | None = None,
        floors: Mapping[str, float] | None = None,
        covariates: Sequence[str] = (),
        unit: str | None = None,
        stop_when_loss_below: float | None = None,
        guardrails: Sequence[object] = (),
        plan: PlanInput | None = None,
        final_after: str | None = None,
        max_total: float | None = None,
        horizon: int | None = None,
        seed: int | None = None,
    ) -> RemoteExperiment:
        """Create an experiment, as `Experiment.create` does; if it exists, its settings must match.

        A policy is sent as its spec string. The service must know it by name: a policy of your own
        must be registered there too, with ``aftereffect serve --import MODULE``. A history from a
        file is read here.
        """
        names = check_covariates(covariates)
        given: dict[str, Any] = {
            "name": name,
            "arms": list(arms),
            "policy": None if policy is None else str(policy),
            "units": list(units),
            "reward_range": None if reward_range is None else list(reward_range),
            "slot": slot,
            "start": None if start is None else read_time("start", start).isoformat(),
            "timezone": timezone,
            "history": None if history is None else _history_to_json(history, names, units),
            "control": control,
            "control_share": control_share,
            "floors": {} if floors is None else dict(floors),
            "covariates": list(names),
            "unit": unit,
            "stop_when_loss_below": stop_when_loss_below,
            "guardrails": list(map(str, guardrails)),
            "plan": None if plan is None else _plan_to_json(plan),
            "final_after": final_after,
            "max_total": max_total,
            "horizon": horizon,
            "seed": seed,
        }
        status, _ = self._transport.send("POST", "/v1/experiments", given)
        return RemoteExperiment(self._transport, name, is_new=status == 201)

    def experiments(self) -> list[str]:
        """The names of all experiments."""
        return list(self._transport.send("GET", "/v1/experiments")[1]["experiments"])

    def experiment(self, name: str) -> RemoteExperiment:
        """An experiment of the service, with the methods of `Experiment`.

        Nothing is sent yet: an unknown name is an error of the first method that is called.
        """
        return RemoteExperiment(self._transport, name)

    def delete(self, name: str, export_to: str | os.PathLike[str]) -> None:
        """Delete an experiment for good, after its whole log was written to a new .jsonl file.

        This does the same as `delete_experiment`. If something is recorded meanwhile, the
        experiment is not deleted, and the file stays.
        """
        target = check_writable(export_to, LOG_SUFFIXES)
        check_absent(target)
        self._transport.save(f"{path_of(name)}/log", target)
        try:
            last = read_last_hash(target.read_text(encoding="utf-8"))
        except (ValueError, KeyError, TypeError):
            raise ServiceError(NOT_A_SERVICE.format(self.url, 200)) from None
        with suppress(NotFoundError):  # it was deleted before, and that answer was lost
            self._transport.send(
                "DELETE",
                f"{path_of(name)}?confirm={quote(name, safe='')}&last={quote(last, safe='')}",
            )

    def close(self) -> None:
        """Close the connections to the service; a later request opens a new one."""
        self._transport.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _plan_to_json(plan: PlanInput) -> list[dict[str, Any]]:
    """What a plan promises by design; the service chooses that of the policy."""
    return [course._asdict() for course in read_courses(plan)]


def _history_to_json(
    history: HistoryInput, covariates: Sequence[str], units: Sequence[str]
) -> list[Any] | dict[str, list[Any]]:
    """A history as the service takes it; of several units, by unit."""
    names = units if len(units) > 1 else ()
    pasts = [_past_to_json(past, covariates) for past in read_pasts(history, covariates, names)]
    return dict(zip(names, pasts, strict=True)) if names else pasts[0]


def _past_to_json(past: Past, covariates: Sequence[str]) -> list[Any]:
    """The totals and covariates of one unit; a missing one is None."""
    rows, totals = past.rows, past.totals
    if not rows:
        return list(totals)
    sent: list[dict[str, Any]] = []
    for row in rows:
        total = None if row.total != row.total else row.total
        sent.append({"time": row.time.isoformat(), "total": total})
        if covariates:
            pairs = zip(covariates, row.covariates, strict=True)
            sent[-1]["covariates"] = {name: number for name, number in pairs if number == number}
    return sent
