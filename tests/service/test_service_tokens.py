"""Who may do what: scopes, tokens, and pages of other origins."""

import json
import logging
import re
import sqlite3
from urllib.parse import urlsplit

import pytest

import aftereffect as ae
from aftereffect.cli import main
from aftereffect.service import create_token, revoke_token
from aftereffect.service._monitoring import JsonFormatter
from services import BANNER, EXPERIMENT, Lines, call, in_thread, log_of


def test_a_token_that_was_changed_opens_nothing(storage, tokens):
    with sqlite3.connect(storage.removeprefix("sqlite:///")) as connection:
        connection.execute("UPDATE aftereffect_tokens SET scope = 'admin' WHERE scope = 'read'")
    connection.close()
    with in_thread(storage) as service:
        assert call(service, "GET", "/v1/experiments", token=tokens["read"])[0] == 500
        assert call(service, "POST", "/v1/experiments", EXPERIMENT, token=tokens["read"])[0] == 500
        assert call(service, "POST", "/v1/experiments", EXPERIMENT, token=tokens["admin"])[0] == 201
        (problem,) = call(service, "GET", f"{BANNER}/verify", token=tokens["write"])[1]["problems"]
        assert problem.startswith("token 1 is not what was recorded")
        with ae.open_storage(storage) as place:
            revoke_token(place, 1)
            assert [record.revoked_at is None for record in place.tokens()] == [False, True, True]
        assert call(service, "GET", "/v1/experiments", token=tokens["read"])[0] == 401
        assert call(service, "GET", f"{BANNER}/verify", token=tokens["write"])[1]["whole"] is True


OPERATIONS = [
    ("read", "GET", "/v1/experiments", None),
    ("read", "GET", BANNER, None),
    ("read", "GET", f"{BANNER}/slots", None),
    ("read", "GET", f"{BANNER}/timeline", None),
    ("read", "GET", f"{BANNER}/lag", None),
    ("read", "GET", f"{BANNER}/results", None),
    ("read", "GET", f"{BANNER}/verify", None),
    ("read", "GET", f"{BANNER}/export", None),
    ("read", "GET", "/metrics", None),
    ("write", "POST", f"{BANNER}/totals", {"totals": [{"slot": 0, "total": 1}]}),
    ("admin", "GET", f"{BANNER}/log", None),
    ("admin", "DELETE", f"{BANNER}?confirm=banner&last=x", None),
    ("write", "POST", f"{BANNER}/slots", None),
    ("write", "PUT", f"{BANNER}/slots/0/decision", None),
    ("write", "PUT", f"{BANNER}/slots/0/total", {"total": 1}),
    ("admin", "POST", "/v1/experiments", EXPERIMENT),
    ("admin", "POST", f"{BANNER}/end", None),
]


@pytest.mark.parametrize(("needed", "method", "path", "body"), OPERATIONS)
def test_scopes(storage, tokens, needed, method, path, body):
    order = ["read", "write", "admin"]
    with ae.open_storage(storage) as place:
        ae.Experiment.create(**EXPERIMENT, storage=place)
        revoked, record = create_token(place, "admin")
        revoke_token(place, record.id)
    before = log_of(storage)
    with in_thread(storage) as service:
        headers = {"Idempotency-Key": "k"}
        for wrong in (
            None,
            "",
            "ae_wrong",
            revoked,
            tokens["admin"][:-1],
            tokens["admin"] + "x",
            "é",
        ):
            status, answer, got = call(
                service,
                method,
                path,
                body,
                headers=headers,
                token=wrong and wrong.encode().decode("latin-1"),
            )
            assert (status, got["WWW-Authenticate"]) == (401, "Bearer")
            assert answer == {
                "message": "a valid token is needed: send Authorization: Bearer TOKEN",
                "field": None,
                "recorded": None,
                "given": None,
            }
        for scope in order[: order.index(needed)]:
            status, answer, _ = call(
                service, method, path, body, headers=headers, token=tokens[scope]
            )
            assert (status, answer["message"]) == (
                403,
                f"this needs the scope {needed}, the token has {scope}",
            )
        assert log_of(storage) == before
        for scope in order[order.index(needed) :]:
            assert call(service, method, path, body, headers=headers, token=tokens[scope])[0] in (
                200,
                201,
                409,
            )


def test_what_exists_is_not_told_to_strangers(storage, tokens):
    with in_thread(storage) as service:
        answers = {
            json.dumps(call(service, "GET", f"/v1/experiments/{name}")[:2])
            for name in ("banner", "other")
        }
        assert len(answers) == 1
        assert call(service, "GET", "/healthz")[0] == 200


def test_a_token_that_is_revoked_is_so_at_once(storage, tokens):
    with in_thread(storage) as service, ae.open_storage(storage) as place:
        assert call(service, "GET", "/v1/experiments", token=tokens["read"])[0] == 200
        revoke_token(place, 1)
        assert call(service, "GET", "/v1/experiments", token=tokens["read"])[0] == 401
        for number in (2, 3):
            revoke_token(place, number)
        assert (
            call(service, "GET", "/v1/experiments")[0] == 401
        )  # no token is left, but it does not become open


def test_tokens_are_kept_as_digests_and_in_no_log(storage, tokens, tmp_path):
    notes = Lines(JsonFormatter())
    logger = logging.getLogger("aftereffect.service")
    logger.addHandler(notes)
    logger.setLevel(logging.INFO)
    try:
        with in_thread(storage) as service:
            call(service, "GET", f"/v1/experiments?token={tokens['read']}", token=tokens["admin"])
            call(service, "POST", "/v1/experiments", EXPERIMENT, token=tokens["write"])
    finally:
        logger.removeHandler(notes)
    assert [(json.loads(line)["path"], json.loads(line)["status"]) for line in notes.lines] == [
        ("/v1/experiments", 200),
        ("/v1/experiments", 403),
    ]
    everything = "".join(notes.lines).encode() + b"".join(
        file.read_bytes() for file in tmp_path.iterdir()
    )
    for token in tokens.values():
        assert token.encode() not in everything


def test_beyond_this_machine_only_with_a_token(storage, capsys):
    assert main(["serve", "--host", "0.0.0.0", "--storage", storage]) == 2
    assert "other machines can reach 0.0.0.0" in capsys.readouterr().err
    with ae.open_storage(storage) as place:
        _, record = create_token(place, "admin")
        revoke_token(place, record.id)
    assert main(["serve", "--host", "0.0.0.0", "--storage", storage]) == 2
    with ae.open_storage(storage) as place:
        create_token(place, "read")
    with in_thread(storage, host="0.0.0.0") as service:
        assert call(service, "GET", "/v1/experiments")[0] == 401


def test_a_page_of_another_origin_changes_nothing(banner, storage):
    before = log_of(storage)
    host = urlsplit(banner).netloc
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": f"https://evil.example:{urlsplit(banner).port}"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "evil.example"},  # a name that was made to lead here
    ):
        for method, path, body in (
            ("POST", f"{BANNER}/end", None),
            ("PUT", f"{BANNER}/slots/0/decision", None),
            ("POST", "/v1/experiments", EXPERIMENT | {"name": "other"}),
        ):
            status, answer, got = call(banner, method, path, body, headers=headers)
            assert status == 403, answer
            assert "Access-Control-Allow-Origin" not in got
    assert (
        call(banner, "POST", f"{BANNER}/end", raw=b"x=1", headers={"Content-Type": "text/plain"})[0]
        == 415
    )
    assert (
        call(banner, "OPTIONS", f"{BANNER}/end", headers={"Origin": "https://evil.example"})[0]
        == 405
    )
    assert log_of(storage) == before
    assert (
        call(
            banner,
            "PUT",
            f"{BANNER}/slots/0/decision",
            headers={"Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"},
        )[0]
        == 201
    )


def test_tokens_on_the_command_line(storage, capsys):
    assert main(["token", "create", "--scope", "write", "--label", "ci", "--storage", storage]) == 0
    printed = capsys.readouterr()
    token = printed.out.strip()
    assert re.fullmatch(r"ae_[\w-]{43}", token)
    assert printed.err.startswith("token 1, scope write: ")
    assert main(["token", "list", "--storage", storage, "--format", "json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert (listed["id"], listed["label"], listed["scope"], listed["revoked_at"]) == (
        1,
        "ci",
        "write",
        None,
    )
    assert main(["token", "revoke", "1", "--storage", storage]) == 0
    assert capsys.readouterr().out.startswith("token 1 ")
    assert main(["token", "list", "--storage", storage]) == 0
    assert capsys.readouterr().out.splitlines()[0].split() == [
        "id",
        "label",
        "scope",
        "created_at",
        "revoked_at",
    ]
    assert main(["token", "revoke", "7", "--storage", storage]) == 2
    assert "there is no token 7" in capsys.readouterr().err
    assert main(["token", "create", "--scope", "all", "--storage", storage]) == 2
    assert "read" in capsys.readouterr().err
