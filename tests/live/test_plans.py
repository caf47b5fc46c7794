"""Experiments remember the plan that they came from, and compare its promise with what came."""

import json
import shlex

import pytest

import aftereffect as ae
from aftereffect.cli import main
from aftereffect.inference import PlannedCourse, read_courses
from aftereffect.live.settings import Settings
from made_up_history import make_history
from services import in_thread
from worlds import play_shop

FIXED = "fixed-switchback(block=6)"
#: What a plan promised for the experiment that `play_shop` plays.
COURSE = PlannedCourse(
    design=f"floors({FIXED}, [0.45, 0.45])",
    slot="1h",
    arms=2,
    slots=1_344,
    loss=4_000.0,
    loss_low=1_500.0,
    loss_high=9_000.0,
    end=17 * 24,
    end_low=10 * 24,
    end_high=31 * 24 - 5,
    seed=3,
    version="0.2.0",
    digest="0123456789abcdef",
)
PROMISED = "The plan promised a stop on day 17 (10 to 31); today is day 12."


@pytest.fixture(scope="module")
def shop():
    """Twelve days of a shop in which B brings a tenth more, and half of the slots play A."""
    return play_shop(slots=12 * 24 - 3, plan=COURSE)


def test_the_status_and_the_results_compare(shop):
    status, results = shop.status(), shop.results()
    assert status.plan == results.plan == COURSE
    promised = [PROMISED, "It promised to lose 4,000 EUR by day 56 (1,500 to 9,000)."]
    assert status.to_dict()["planned"] == promised
    assert "\n".join(promised) in str(status)
    *others, lost = results.describe()
    assert others[-2:] == promised
    assert lost == f"Lost so far, by what is known: {results.lost:,.0f} EUR."
    json.dumps([status.to_dict(), results.to_dict()])


@pytest.mark.parametrize("lift", [0.1, 0.2])
def test_what_was_lost_is_near_the_truth(lift):
    """In each slot of A, B would have brought so much more."""
    experiment = play_shop(slots=12 * 24, lift=lift)
    totals = sum(row.total for row in experiment.history() if row.played == "A")
    assert experiment.results().lost == pytest.approx(lift * totals, rel=0.25)


def test_nothing_is_said_to_be_lost_while_nothing_is_known():
    with play_shop(slots=2, plan=COURSE) as experiment:
        results = experiment.results()
        assert results.lost is None
        assert results.describe()[-1].startswith("It promised to lose")
    with play_shop(slots=2) as experiment:
        assert experiment.status().to_dict()["planned"] == []
        assert "promised" not in " ".join(experiment.results().describe())


@pytest.mark.parametrize(
    ("changed", "slots", "sentence"),
    [
        ({}, 0, "a stop on day 17 (10 to 31); it has not begun."),
        ({"end_high": None}, 25, "a stop on day 17 (day 10 or later); today is day 2."),
        ({"end": None, "end_high": None}, 24, "no stop before day 10; today is day 1."),
        ({"end": None, "end_low": None, "end_high": None}, 24, "no stop by day 56"),
        ({"slot": "1w", "slots": 60, "end": 9, "end_low": 8, "end_high": 10}, 7,
         "a stop in week 9 (8 to 10); this is week 7."),
    ],
)  # fmt: skip
def test_a_promise_in_words(changed, slots, sentence):
    assert sentence in COURSE._replace(**changed).describe(slots)[0]


def test_the_promise_is_a_setting(shop):
    settings = shop.settings
    assert settings.plan == COURSE
    assert Settings.from_json(settings.to_json()) == settings
    assert shop.verify().whole
    other = COURSE._replace(loss=5_000.0)
    with pytest.raises(ae.ConflictError, match="plan is"):
        play_shop(slots=0, storage=shop.storage, plan=other)
    assert play_shop(slots=0, storage=shop.storage, plan=[COURSE]).settings == settings


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (COURSE._replace(arms=3), "the plan is for 3 arms and slots of 1h, got 2 arms"),
        (COURSE._replace(slot="1d"), "the plan is for 2 arms and slots of 1d, got 2 arms"),
        (COURSE._replace(design=FIXED), rf"no design floors\(.*choose one of {FIXED[:16]}"),
        (COURSE._replace(design="ars-xcb"), "ars-xcb"),
        (COURSE._replace(end_high=5), "the ends of a plan must be in order"),
        (COURSE._replace(end=10_000), "an end of a plan must be"),
        (COURSE._replace(loss_high=0.0), "the loss_high of a plan"),
        (COURSE._replace(loss=float("nan")), "the loss of a plan"),
        (COURSE._replace(digest=""), "the digest of a plan"),
        (COURSE._replace(slot="2h"), "the slot of a plan"),
        ("plan.json", r"must be a Plan, such as ae.Plan.load\('plan.json'\)"),
        (3, "must be a Plan"),
        ([{"design": FIXED}], "plan must have design, slot"),
    ],
)
def test_other_plans_are_refused(plan, message):
    with pytest.raises(ae.AftereffectError, match=message) as caught:
        play_shop(slots=0, plan=plan)
    assert "\n" not in str(caught.value)


@pytest.mark.server
def test_the_service_and_its_client(tmp_path):
    url = f"sqlite:///{tmp_path}/live.db"
    with in_thread(url) as address, ae.Client(address) as client:
        remote = play_shop(slots=30, create=client.create, plan=COURSE)
        with ae.Experiment.open("shop", storage=url) as local:
            assert local.settings.plan == COURSE
            assert remote.status() == local.status()
            assert remote.results() == local.results()
        with pytest.raises(ae.ParameterError, match="the plan is for 3 arms"):
            play_shop("other", slots=0, create=client.create, plan=COURSE._replace(arms=3))


@pytest.mark.compiled
def test_a_plan_becomes_an_experiment(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AFTEREFFECT_STORAGE", "sqlite:///live.db")
    design = "fixed-switchback(block=7, blocks_per_arm=6)"
    plan = ae.plan(make_history(12), slot="1d", weeks=12, lift="10%", designs=[design], runs=4,
                   seed=1, jobs=1, power=False)  # fmt: skip
    plan.save("plan.json")
    (course,) = read_courses(plan)
    promise = plan.recommended
    assert (course.design, course.loss, course.end) == (design, promise.loss.mean, 84)
    assert (course.digest, course.seed, course.slots) == (plan.digest, 1, 84)
    command = ["create", "banner", "--arms", "A,B", "--slot", "1d", "--policy", design]
    assert main([*command, "--plan", "plan.json"]) == 0
    assert "The plan promised a stop on day 84; it has not begun." in (capsys.readouterr().out)
    with ae.Experiment.open("banner", storage="sqlite:///live.db") as experiment:
        assert experiment.settings.plan == course
    _, *_, option, path = shlex.split(plan.command)
    assert (option, path) == ("--plan", "plan.json")
    assert main([*command, "--plan", "other.json"]) == 2
    assert "cannot read other.json" in capsys.readouterr().err
    assert main(["serve", "--plan", "other.json"]) == 2
    assert "cannot read other.json" in capsys.readouterr().err
