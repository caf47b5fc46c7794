"""Policies that somebody else has written: the service has no list of names of its own."""

import json
import subprocess
import sys

import aftereffect as ae
from services import EXPERIMENT, call

MODULE = """
from dataclasses import dataclass

import aftereffect as ae


@ae.register
@dataclass(frozen=True)
class HouseUcb(ae.Ucb1):
    "UCB1 under a name of our own."
"""
#: Registers the policy after the service and its routes are loaded, as late as can be.
PROGRAM = """
import sys
from aftereffect.service import address_of, server_for
server, listener = server_for({storage!r}, "127.0.0.1", 0)
sys.path.insert(0, {folder!r})
import house_policies
print(address_of(listener), flush=True)
server.run(sockets=[listener])
"""


def test_an_unknown_policy_gets_the_librarys_own_message(service):
    status, answer, _ = call(service, "POST", "/v1/experiments", EXPERIMENT | {"policy": "ucb"})
    assert (status, answer["field"]) == (422, "policy")
    assert "unknown policy 'ucb': did you mean 'ucb1'?" in answer["message"]
    status, answer, _ = call(
        service, "POST", "/v1/experiments", EXPERIMENT | {"policy": "ars-ucb(alpha=-1)"}
    )
    assert (status, answer["field"]) == (422, "policy")
    assert "alpha" in answer["message"]
    assert call(service, "GET", "/v1/experiments")[1] == {"experiments": []}


def test_a_policy_that_is_registered_later(storage, tmp_path):
    """It can be played, and the process that reads logs knows it too."""
    (tmp_path / "house_policies.py").write_text(MODULE)
    program = PROGRAM.format(storage=storage, folder=str(tmp_path))
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        address = process.stdout.readline().strip().rstrip("/")
        with ae.Client(address) as client:
            banner = client.create(**EXPERIMENT | {"policy": "house-ucb"})
            for slot in range(5):
                banner.tell(slot, len(banner.ask(slot).arm))
            assert banner.status().policy.startswith("house-ucb")
            assert [record.total for record in banner.history()] == [1.0] * 5
            assert banner.verify().whole
            assert banner.lag() is not None
            client.delete("banner", tmp_path / "log.jsonl")
    finally:
        process.kill()
        process.communicate()
    settings = json.loads((tmp_path / "log.jsonl").read_text().splitlines()[0])
    assert "house-ucb" in json.dumps(settings)
