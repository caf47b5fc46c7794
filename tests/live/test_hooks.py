"""Hooks: each change of the arm, and the rule to stop, are delivered at least once, in their order."""

import base64
import hashlib
import hmac
import itertools
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace

import pytest

import aftereffect as ae
from aftereffect.live import CommandHook, Notifier, Webhook, sign

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def create(storage="memory://", **settings):
    settings = {"policy": "ucb1", "reward_range": (0, 9), "seed": 1} | settings
    return ae.Experiment.create("shop", arms=["A", "B"], storage=storage, **settings)


def play(experiment, slots):
    """The arms that are played."""
    begin = experiment.status().slots
    arms = []
    for slot in range(begin, begin + slots):
        arms.append(experiment.ask(slot).arm)
        experiment.tell(slot, {"A": 3, "B": 4}[arms[-1]])
    return arms


def find_changes(experiment, first=0):
    """The slots after one whose arm is not the one before, from the history alone."""
    lines = [line for line in experiment.history() if line.arm is not None]
    pairs = itertools.pairwise(lines)
    return [
        (two.slot, one.arm, two.arm)
        for one, two in pairs
        if one.arm != two.arm and two.slot > first
    ]


class Memory:
    """A hook that remembers what it gets, and may fail."""

    def __init__(self, name="memory"):
        self.name, self.got, self.failing = name, [], 0

    def deliver(self, notice):
        if self.failing:
            self.failing -= 1
            raise ae.ServiceError("not now")
        self.got.append(notice)

    @property
    def changes(self):
        return [(each.slot, each.before, each.arm) for each in self.got]


def test_each_change_is_delivered_once(connect):
    experiment, hook = create(connect()), Memory()
    notifier = Notifier(experiment, hook)
    assert list(notifier.deliver_new()) == []
    play(experiment, 3)
    (first,) = notifier.deliver_new()
    assert (first.slot, first.before) == (2, None)  # a new hook is told where things are
    for _ in range(5):
        play(experiment, 11)
        before = len(hook.got)
        assert list(notifier.deliver_new()) == hook.got[before:]
    assert hook.changes[1:] == find_changes(experiment, first=2)
    assert len(hook.got) > 5
    # Another process goes on where this one was.
    other = Notifier(ae.Experiment.open("shop", storage=connect()), hook)
    assert list(other.deliver_new()) == []
    play(experiment, 30)
    list(other.deliver_new())
    assert hook.changes[1:] == find_changes(experiment, first=2)
    assert len({notice.id for notice in hook.got}) == len(hook.got)
    # Another hook begins where things are.
    second = Memory("another")
    list(Notifier(experiment, second).deliver_new())
    assert len(second.got) == 1
    assert experiment.verify().whole
    assert experiment.verify().difference is None


def test_what_fails_is_tried_again_in_order():
    experiment, hook = create(), Memory()
    notifier = Notifier(experiment, hook)
    play(experiment, 3)
    list(notifier.deliver_new())
    experiment.skip(3, 4)
    play(experiment, 40)
    hook.failing = 3
    for _ in range(3):
        with pytest.raises(ae.ServiceError, match="not now"):
            list(notifier.deliver_new())
    list(notifier.deliver_new())
    assert hook.changes[1:] == find_changes(experiment, first=2)


def test_a_crash_between_delivery_and_its_record_delivers_again(monkeypatch):
    experiment, hook = create(), Memory()
    play(experiment, 1)

    def crash(*given):
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr("aftereffect.live.hooks.record_notice", crash)
        with pytest.raises(KeyboardInterrupt):
            list(Notifier(experiment, hook).deliver_new())
    list(Notifier(experiment, hook).deliver_new())
    assert len(hook.got) == 2
    assert hook.got[0] == hook.got[1]  # with the same id


def test_pauses_grow_and_begin_again():
    experiment, hook, said, pauses = create(), Memory(), [], []
    play(experiment, 1)
    hook.failing = 12

    class EnoughError(Exception):
        pass

    def sleep(seconds):
        pauses.append(seconds)
        if len(pauses) == 14:
            raise EnoughError

    with pytest.raises(EnoughError):
        Notifier(experiment, hook).run(10.0, said.append, sleep)
    assert pauses == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300, 10, 10]
    assert said[0] == "not now; trying again in 1 s"
    assert said[12:] == ["shop: from slot 0 on, A is played"]


def test_the_rule_to_stop_is_told_once(monkeypatch):
    experiment, hook = create(policy="floors(ucb1, [0.3, 0.3])", stop_when_loss_below=5), Memory()
    play(experiment, 4)
    answers = [False, True, True]

    def results(self):
        return SimpleNamespace(stops=answers.pop(0), leader="B", slots=4)

    monkeypatch.setattr(ae.Experiment, "results", results)
    monkeypatch.setattr("aftereffect.live.hooks._REST", 0.0)
    notifier = Notifier(experiment, hook)
    list(notifier.deliver_new())
    assert [notice.kind for notice in hook.got] == ["decision.changed"]
    list(notifier.deliver_new())
    assert len(answers) == 2  # no total has come since
    play(experiment, 1)
    hook.failing = 9
    while hook.failing:
        with pytest.raises(ae.ServiceError):
            list(notifier.deliver_new())
        answers[:] = [True]
    list(notifier.deliver_new())
    stops = [notice for notice in hook.got if notice.kind == "rule.stop"]
    assert [str(stop) for stop in stops] == ["shop: the rule says stop after slot 3: ship B"]
    play(experiment, 10)
    answers[:] = [True]
    for again in (notifier, Notifier(experiment, hook)):
        list(again.deliver_new())
    assert len([notice for notice in hook.got if notice.kind == "rule.stop"]) == 1
    experiment.end()
    assert list(notifier.deliver_new()) == []


@pytest.fixture
def server():
    """A receiver that answers with the statuses it is given, and keeps requests."""
    got = SimpleNamespace(requests=[], statuses=[])

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.requests.append((self.path, dict(self.headers), body))
            self.send_response(got.statuses.pop(0) if got.statuses else 204)
            self.end_headers()

        def log_message(self, *given):
            pass

    with HTTPServer(("127.0.0.1", 0), Receiver) as receiver:
        thread = threading.Thread(target=receiver.serve_forever)
        thread.start()
        got.url = f"http://127.0.0.1:{receiver.server_port}/hook?token=x"
        yield got
        receiver.shutdown()
        thread.join()


@pytest.mark.server
def test_a_web_address_gets_signed_requests(server):
    experiment = create(slot="1h", start="2026-03-02T00:00", timezone="Europe/Berlin")
    notifier = Notifier(experiment, Webhook(server.url, SECRET))
    play(experiment, 1)
    server.statuses += [500, 302]
    for status in (500, 302):
        with pytest.raises(ae.ServiceError, match=f"/hook answered {status}$") as caught:
            list(notifier.deliver_new())
        assert "token" not in str(caught.value)
    list(notifier.deliver_new())
    assert len(server.requests) == 3
    for path, headers, body in server.requests:
        assert path == "/hook?token=x"
        sent = json.loads(body)
        assert sent["type"] == "decision.changed"
        assert sent["data"] == {
            "experiment": "shop",
            "slot": 0,
            "time": "2026-03-02T00:00:00+01:00",
            "arm": "A",
            "before": None,
            "sentence": "shop: from slot 0 on, A is played",
        }
        text = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        key = base64.b64decode(SECRET.removeprefix("whsec_"))
        expected = base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()
        assert headers["webhook-signature"] == f"v1,{expected}"
        assert headers["Content-Type"] == "application/json"
    assert len({headers["webhook-id"] for _, headers, _ in server.requests}) == 1


@pytest.mark.server
def test_without_a_secret_there_is_no_signature(server):
    experiment = create()
    play(experiment, 1)
    list(Notifier(experiment, Webhook(server.url)).deliver_new())
    assert "webhook-signature" not in server.requests[0][1]


def test_an_address_that_cannot_be_reached():
    experiment = create()
    play(experiment, 1)
    hook = Webhook("http://127.0.0.1:9/hook")  # the port on which nobody listens
    with pytest.raises(ae.ServiceError, match=r"127\.0\.0\.1:9/hook cannot be reached: "):
        list(Notifier(experiment, hook).deliver_new())


def test_the_example_of_the_specification():
    body = b'{"test": 2432232314}'
    signature = sign(SECRET, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    plain = hmac.new(b"plain", b"a.1.", hashlib.sha256).digest()
    assert sign("plain", "a", 1, b"") == f"v1,{base64.b64encode(plain).decode()}"


def test_a_command_gets_the_notice(tmp_path):
    experiment, path = create(), tmp_path / "got.txt"
    play(experiment, 1)
    script = tmp_path / "hook.py"
    script.write_text(
        "import json, os, sys\n"
        f"with open({str(path)!r}, 'a') as file:\n"
        "    given = json.load(sys.stdin)\n"
        "    names = ('NOTICE', 'ARM', 'SLOT')\n"
        "    own = [os.environ['AFTEREFFECT_' + name] for name in names]\n"
        "    print(given['data']['arm'], *own, *sys.argv[1:], sep='|', file=file)\n"
        "sys.exit(len(open(file.name).readlines()) < 2)\n"
    )
    hook = CommandHook(f"{sys.executable} {script} '$HOME; a b'")
    notifier = Notifier(experiment, hook)
    with pytest.raises(ae.ServiceError, match="ended with the exit status 1"):
        list(notifier.deliver_new())
    list(notifier.deliver_new())
    assert path.read_text() == "A|decision.changed|A|0|$HOME; a b\n" * 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Webhook("ftp://shop/x"), "a hook must be an address such as https://.* got 'ftp'"),
        (lambda: Webhook("https://u:p@shop/x"), "without a password, got 'https'$"),
        (lambda: Webhook("https://shop:x/"), "a hook must be an address"),
        (lambda: Webhook("https://shop/", "whsec_!"), "must go on in base64"),
        (lambda: CommandHook(""), "at least one word, got none"),
        (lambda: CommandHook("a 'b"), "the command of a hook cannot be read"),
    ],
)
def test_what_is_no_hook(make, message):
    with pytest.raises(ae.ParameterError, match=message):
        make()


def test_a_command_that_does_not_exist():
    experiment = create()
    play(experiment, 1)
    with pytest.raises(ae.ServiceError, match="the command 'no-such-program' failed: No such"):
        list(Notifier(experiment, CommandHook("no-such-program")).deliver_new())
