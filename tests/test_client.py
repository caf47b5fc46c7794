"""The client: an experiment over HTTP, that tries again."""

import http.server
import json
import threading

import numpy as np
import polars as pl
import pytest
from playing import LATE, played
from services import EXPERIMENT, Process, in_thread, log_of

import aftereffect as ae


def without_time(status):
    assert status.last_told_at
    return status._replace(last_told_at=None)


def test_the_client_is_an_experiment_over_http(service):
    client = ae.Client(service)
    alone = ae.Experiment.create(**EXPERIMENT, storage="memory://")
    created = client.create(**EXPERIMENT)
    assert created == alone.status()
    assert client.experiments() == ["banner"]
    for slot in range(30):
        assert client.ask("banner", slot) == alone.ask(slot)
        if slot % 5 == 3:
            assert client.missing("banner", slot) == alone.missing(slot)
        elif slot % 7:
            assert client.tell("banner", slot, slot / 4) == alone.tell(slot, slot / 4)
    assert without_time(client.status("banner")) == without_time(alone.status())
    assert client.ask("banner", key="k") == alone.ask(key="k") == client.ask("banner", key="k")
    assert client.ask("banner").number == 31
    alone.ask()
    for call_both in (
        lambda who, *name: who.tell(*name, 1, 99),
        lambda who, *name: who.tell(*name, 99, 1),
        lambda who, *name: who.tell(*name, 1, -1),
        lambda who, *name: who.ask(*name, 99),
        lambda who, *name: who.ask(*name, 0, key="k"),
        lambda who, *name: who.missing(*name, 1),
        lambda who, *name: who.tell(*name, 28, 100_000, arm="A"),
        lambda who, *name: who.tell(*name, 28, 1, arm="D"),
        lambda who, *name: who.skip(*name, 5),
        lambda who, *name: who.tell_many(*name, {28: 1, 99: 1}),
    ):
        with pytest.raises(ae.AftereffectError) as ours:
            call_both(alone)
        with pytest.raises(type(ours.value)) as theirs:
            call_both(client, "banner")
        assert str(theirs.value) == str(ours.value)
    assert client.skip("banner", 32, 34).slots == alone.skip(32, 34).slots == 35
    assert client.tell("banner", 33, 5, arm="B") == alone.tell(33, 5, arm="B")
    assert client.ask("banner", 35) == alone.ask(35)
    assert client.tell("banner", 35, 2_500, confirm=True) == alone.tell(35, 2_500, confirm=True)
    assert without_time(client.close("banner")) == without_time(alone.close())
    with pytest.raises(ae.NotFoundError, match="there is no experiment 'nothing'"):
        client.status("nothing")
    with pytest.raises(ae.ParameterError, match="this cannot be sent"):
        client.tell("banner", 0, float("nan"))


def test_how_long_effects_linger(service, storage):
    client = ae.Client(service)
    with ae.open_storage(storage) as place:
        for name, slots in (("late", 150), ("new", 12)):
            history = played(place, name, ["A", "B"], slots, shares=LATE).history()
            told = client.lag(name)
            assert str(told) == str(ae.estimate_lag(history))
            assert repr(told) == repr(ae.estimate_lag(history))  # what is not a number equals nothing
    with pytest.raises(ae.NotFoundError, match="there is no experiment 'nothing'"):
        client.lag("nothing")


def test_the_rest_of_an_experiment_over_http(service, tmp_path, monkeypatch):
    """The same answers from a service as from an experiment at hand; pages of a history are put together."""
    monkeypatch.setattr("aftereffect.client._PAGE", 7)
    client, alone = ae.Client(service), ae.Experiment.create(**EXPERIMENT, storage="memory://")
    client.create(**EXPERIMENT)
    for slot in range(30):
        client.ask("banner", slot)
        alone.ask(slot)
    batch = [(slot, None if slot % 5 == 3 else np.float64(slot) if slot % 2 else np.int64(slot)) for slot in range(20, -1, -1)]
    assert client.tell_many("banner", iter(batch)) == alone.tell_many(batch)
    assert client.tell_many("banner", batch) == alone.tell_many(batch)
    assert client.tell_many("banner", []) == alone.tell_many([]) == []
    times = {"decided_at": None, "told_at": None}
    for arguments in ((), (3,), (3, 9), (-1, 0), (25, 100), (500,)):
        theirs, ours = client.history("banner", *arguments), alone.history(*arguments)
        assert [line._replace(**times) for line in theirs] == [line._replace(**times) for line in ours]
    assert client.verify("banner") == alone.verify()
    assert without_time(client.status("banner")) == without_time(alone.status())
    for suffix in ("csv", "parquet"):
        client.export("banner", tmp_path / f"theirs.{suffix}")
        alone.export(tmp_path / f"ours.{suffix}")
    theirs, ours = (pl.read_parquet(tmp_path / f"{who}.parquet").drop("decided_at", "told_at") for who in ("theirs", "ours"))
    assert theirs.equals(ours)
    assert len((tmp_path / "theirs.csv").read_text().splitlines()) == 31
    for call_both in (
        lambda who, *name: who.tell_many(*name, [(22, 1), (99, 1)]),
        lambda who, *name: who.tell_many(*name, [(0, 99)]),
        lambda who, *name: who.tell_many(*name, [(22, -1)]),
        lambda who, *name: who.export(*name, tmp_path / "x.txt"),
        lambda who, *name: who.export(*name, tmp_path / "none" / "x.csv"),
        lambda who, *name: who.history(*name, -2),
        lambda who, *name: who.history(*name, 0, 1.5),
    ):
        with pytest.raises(ae.AftereffectError) as ours:
            call_both(alone)
        with pytest.raises(type(ours.value)) as theirs:
            call_both(client, "banner")
        assert str(theirs.value) == str(ours.value)
    assert client.history("banner", 21, 1)[0].value is None  # nothing of what was refused was recorded
    for wrong in ([3], ["ab"], [(1, 2, 3)], [(0, True)], [("0", 1)], [(0, "1")], [(0, 1j)]):
        with pytest.raises(ae.ParameterError):
            client.tell_many("banner", wrong)
    with pytest.raises(ae.NotFoundError, match="there is no experiment 'nothing'"):
        client.export("nothing", tmp_path / "y.csv")
    assert not (tmp_path / "y.csv").exists()


def test_deleting_over_http(service, storage, tmp_path):
    client = ae.Client(service)
    client.create(**EXPERIMENT)
    client.tell("banner", client.ask("banner").number, 37)
    before = log_of(storage)
    with pytest.raises(ae.NotFoundError, match="there is no experiment 'nothing'"):
        client.delete("nothing", tmp_path / "x.jsonl")
    once, changed = client._once, []

    def meanwhile(method, *rest):
        if method == "DELETE" and not changed:
            changed.append(ae.Client(service).ask("banner"))
        return once(method, *rest)

    client._once = meanwhile
    with pytest.raises(ae.ConflictError, match="nothing was removed, export it again"):
        client.delete("banner", tmp_path / "first.jsonl")
    assert client.status("banner").slots == 2
    with pytest.raises(ae.OutputError, match="it exists"):
        client.delete("banner", tmp_path / "first.jsonl")
    client.delete("banner", tmp_path / "second.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "second.jsonl").read_text().splitlines()]
    assert [line["hash"] for line in lines[1:3]] == [event.hash.hex() for event in before]
    assert len(lines) == 4
    assert client.experiments() == []


def test_an_answer_to_delete_that_got_lost(service, tmp_path):
    client = ae.Client(service)
    client.create(**EXPERIMENT)
    once, lost = client._once, []

    def unreliable(method, *rest):
        answer = once(method, *rest)
        if method == "DELETE" and not lost:
            lost.append(answer)
            raise ConnectionResetError("lost")
        return answer

    client._once = unreliable
    client.delete("banner", tmp_path / "x.jsonl")
    assert lost[0][0] == 200
    assert client.experiments() == []


def test_a_client_with_a_token(storage, tokens):
    with in_thread(storage) as service:
        with pytest.raises(ae.ServiceError, match="refuses: this needs a token that is valid"):
            ae.Client(service).experiments()
        with pytest.raises(ae.ServiceError, match="refuses: this needs the scope admin, and the token has read"):
            ae.Client(service, tokens["read"]).create(**EXPERIMENT)
        assert ae.Client(service, tokens["admin"]).create(**EXPERIMENT).name == "banner"
        assert tokens["admin"] not in repr(ae.Client(service, tokens["admin"]))


def test_a_client_waits_for_a_service_that_is_away(storage):
    first = Process(storage)
    client = ae.Client(first.address, patience=30)
    client.create(**EXPERIMENT)
    assert client.ask("banner").number == 0
    first.end("kill")
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(client.ask("banner")))
    waiting.start()
    second = Process(storage, port=first.port)
    waiting.join(30)
    assert [slot.number for slot in answers] == [1]
    second.end()
    impatient = ae.Client(first.address, patience=0.2)
    with pytest.raises(ae.ServiceError, match=rf"the service at {first.address} is away: .*refused; tried for 0.2 seconds"):
        impatient.ask("banner")


def test_an_answer_that_got_lost_is_asked_for_again(service, storage):
    """A proxy that swallows every second answer: what was recorded is not recorded twice."""
    client = ae.Client(service)
    client.create(**EXPERIMENT)
    once, lost = client._once, []

    def unreliable(*request):
        answer = once(*request)
        lost.append(len(lost) % 2 == 0)
        if lost[-1]:
            raise ConnectionResetError("lost")
        return answer

    client._once = unreliable
    for slot in range(5):
        assert client.ask("banner").number == slot
        assert client.tell("banner", slot, 1).slot == slot
    assert [event.kind for event in log_of(storage)] == ["decision", "outcome"] * 5


@pytest.mark.parametrize("url", ["127.0.0.1:8750", "ftp://host", "http://", "http://user:secret@host", ""])
def test_addresses_that_cannot_be(url):
    with pytest.raises(ae.ParameterError, match=r"a service is an address such as http://127\.0\.0\.1:8750, got ") as caught:
        ae.Client(url)
    assert "secret" not in str(caught.value)


def test_an_address_of_something_else(tmp_path):
    class Files(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        with pytest.raises(ae.ServiceError, match="answers 404, and not as the service does: is that its address"):
            ae.Client(f"http://127.0.0.1:{other.server_port}").experiments()
        other.shutdown()
