"""By what name and from where the service is called, and what it tells to whom."""

import json
import socket
import sqlite3
import time
from contextlib import closing
from urllib.parse import urlsplit

import pytest

import aftereffect as ae
from aftereffect.live.storage._database import DatabaseStorage
from aftereffect.service import create_token
from aftereffect.service._access import read_host
from aftereffect.service._opening import find_similar_names
from services import BANNER, EXPERIMENT, call, in_thread

LIST = "/v1/experiments"


def sent(address, text):
    """What is answered to these very bytes."""
    place = urlsplit(address)
    with closing(socket.create_connection((place.hostname, place.port), timeout=30)) as connection:
        connection.sendall(text)
        answer = b""
        while part := connection.recv(65_536):
            answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), head.decode().lower(), body


def get(address, *headers, version="1.1", path=LIST, method="GET"):
    lines = [f"{method} {path} HTTP/{version}", *headers, "Connection: close", "", ""]
    return sent(address, "\r\n".join(lines).encode("latin-1"))


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (["127.0.0.1:8750"], "127.0.0.1"),
        (["LocalHost"], "localhost"),
        (["[::1]:8750"], "::1"),
        (["a.example"], "a.example"),
        ([], None),
        (["127.0.0.1", "127.0.0.1"], None),
        (["a{b.evil.test"], None),
        (["x@127.0.0.1"], None),
        (["127.0.0.1:"], None),
        (["127.0.0.1:8750x"], None),
        (["a b"], None),
        (["::1"], None),
        (["[::1"], None),
        ([""], None),
        (["127.0.0.1\n"], None),
        (["١٢٧.0.0.1"], None),
    ],
)
def test_what_a_host_header_names(given, name):
    assert read_host(given) == name


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("127.0.0.1:8750", 200),
        ("LOCALHOST:1", 200),
        ("[::1]:80", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost.", 403),
        ("0.0.0.0", 403),
        *(
            (odd, 400)
            for odd in (
                "a{b.evil.test",
                "a`b",
                'a"b',
                "a}b",
                "a^b",
                "a|b",
                "\xe9vil",
                "x@127.0.0.1",
                "a b",
                "[",
                "",
            )
        ),
    ],
)
def test_without_tokens_only_who_calls_it_by_a_name_of_this_machine_is_let_in(
    service, host, status
):
    assert get(service, f"Host: {host}")[0] == status


def test_a_host_must_be_there_once(service, storage):
    assert get(service)[0] == 400
    assert get(service, "Host: 127.0.0.1", "Host: 127.0.0.1")[0] == 400
    assert (
        get(service, version="1.0")[0] == 403
    )  # HTTP/1.0 may leave it out, but not while the service is open
    with ae.open_storage(storage) as place:
        token, _ = create_token(place, "read")
    assert get(service, f"Authorization: Bearer {token}", version="1.0")[0] == 200
    assert get(service, f"Authorization: Bearer {token}")[0] == 400


@pytest.mark.parametrize(
    "header",
    [
        "X-Forwarded-For: 1.2.3.4",
        "Forwarded: for=1.2.3.4",
        "Via: 1.1 a",
        "X-Real-IP: 1.2.3.4",
        "x-forwarded-host: a",
    ],
)
def test_without_tokens_nothing_comes_through_a_proxy(service, storage, header):
    status, _, body = get(service, "Host: 127.0.0.1", header)
    assert (status, "create a token first" in json.loads(body)["message"]) == (403, True)
    with ae.open_storage(storage) as place:
        token, _ = create_token(place, "read")
    assert get(service, "Host: a.example", header, f"Authorization: Bearer {token}")[0] == 200


@pytest.mark.parametrize(
    "header",
    [
        *(
            f"Origin: {odd}"
            for odd in (
                "http://[",
                "http://]",
                "http://[::1",
                "http://a[b]c",
                "[",
                "",
                "http://127.0.0.1:x@evil",
            )
        ),
        "Sec-Fetch-Site: CROSS-SITE",
        "Sec-Fetch-Site: Same-Site",
    ],
)
def test_origins_that_cannot_be_read_are_others(service, header, caplog):
    status, _, body = get(service, "Host: 127.0.0.1", header, path=f"{BANNER}/end", method="POST")
    assert (status, json.loads(body)["message"]) == (
        403,
        "cross-origin requests may not change data",
    )
    assert "Traceback" not in caplog.text


def test_slots_are_plain_numbers(service):
    assert call(service, "POST", LIST, EXPERIMENT)[0] == 201
    for odd in ("0.0", "+0", "1_0", "00", "0e0", "%200", "0x0", "%D9%A0", "-0"):
        assert call(service, "PUT", f"{BANNER}/slots/{odd}/decision")[0] == 422, odd
    assert call(service, "PUT", f"{BANNER}/slots/0/decision")[0] == 201


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "utf-32-be"])
def test_bodies_are_written_in_utf_8(service, encoding):
    assert call(service, "POST", LIST, EXPERIMENT)[0] == 201
    call(service, "PUT", f"{BANNER}/slots/0/decision")
    raw = '{"total": 1}'.encode(encoding)
    for kind in ("application/json", f"application/json; charset={encoding}"):
        assert call(
            service, "PUT", f"{BANNER}/slots/0/total", raw=raw, headers={"Content-Type": kind}
        )[0] in (400, 415)
    plain, other = b'{"total": 1}', {"Content-Type": f"application/json; charset={encoding}"}
    assert call(service, "PUT", f"{BANNER}/slots/0/total", raw=plain, headers=other)[0] == 415
    assert call(service, "GET", BANNER)[1]["received"] == 0
    kind = "application/json; charset=UTF-8"
    assert (
        call(
            service,
            "PUT",
            f"{BANNER}/slots/0/total",
            raw=plain,
            headers={"Content-Type": kind},
        )[0]
        == 201
    )


# What is told, and to whom


def test_what_is_not_there_is_answered_in_short_and_at_once(service, storage):
    with sqlite3.connect(
        storage.removeprefix("sqlite:///")
    ) as connection:  # tables are there from the start
        connection.executemany(
            "INSERT INTO aftereffect_experiments (name, settings, created_at, digest) VALUES (?, '{}', '', x'00')",
            [(f"checkout-banner-{number:04}",) for number in range(1_000)],
        )
    connection.close()
    for name in ("checkout-banner-00x7", "nothing"):
        for path in ("", "/slots", "/timeline", "/lag", "/verify", "/export"):
            status, answer, _ = call(service, "GET", f"{LIST}/{name}{path}")
            assert status == 404
            assert answer["message"].startswith(f"there is no experiment '{name}': ")
            assert len(answer["message"]) < 200
            assert "sqlite" not in answer["message"]
            assert answer["message"].count("checkout-banner-0") <= 4
    assert (
        "did you mean 'checkout-banner-000"
        in call(service, "GET", f"{LIST}/checkout-banner-000")[1]["message"]
    )


def test_names_that_are_near_are_found_fast_and_are_few():
    names = [
        f"checkout-banner-{number:05}" for number in range(20_000)
    ]  # with difflib this took .4 s per 1,000
    start = time.process_time()
    assert find_similar_names("Checkout-banner-000x7", names) == [
        f"checkout-banner-0000{number}" for number in range(3)
    ]
    assert find_similar_names("price", names) == []
    assert time.process_time() - start < 2


def test_a_storage_that_fails_is_not_described_to_strangers(storage, tokens, tmp_path):
    with in_thread(storage) as service:
        assert call(service, "POST", LIST, EXPERIMENT, token=tokens["admin"])[0] == 201
        for table, path, given in (
            ("events", BANNER, ("read", "admin")),
            ("tokens", LIST, (None, "wrong", "read")),
        ):
            with sqlite3.connect(tmp_path / "live.db") as connection:
                connection.execute(f"DROP TABLE aftereffect_{table}")
            connection.close()
            for name in given:
                token = tokens.get(name, name)
                status, answer, _ = call(service, "GET", path, token=token)
                assert status == 503
                assert not any(
                    word in answer["message"] for word in ("sqlite", str(tmp_path), "aftereffect_")
                )


def test_many_tokens_cost_nothing(storage, monkeypatch):
    with ae.open_storage(storage) as place:
        token, _ = create_token(place, "read")
    with sqlite3.connect(storage.removeprefix("sqlite:///")) as connection:
        connection.executemany(
            "INSERT INTO aftereffect_tokens (label, scope, digest, created_at) VALUES ('', 'read', ?, '')",
            [(number.to_bytes(32, "big"),) for number in range(10_000)],
        )
    connection.close()

    def all_of_them(self):
        raise AssertionError("tokens are looked up one by one")

    monkeypatch.setattr(DatabaseStorage, "tokens", all_of_them)
    with in_thread(storage) as service:
        assert call(service, "GET", LIST, token=token)[0] == 200
        assert call(service, "GET", LIST, token="ae_wrong")[0] == 401
        assert call(service, "GET", LIST)[0] == 401


def test_head_answers_as_get_without_the_body(service):
    call(service, "POST", LIST, EXPERIMENT)
    of_banner = (
        f"{BANNER}{path}" for path in ("", "/slots", "/timeline", "/lag", "/verify", "/export")
    )
    for path in ("/", "/page.js", "/healthz", "/metrics", "/openapi.json", LIST, *of_banner):
        status, _, headers = call(service, "GET", path)
        got, text, same = call(service, "HEAD", path)
        assert (status, got, text) == (200, 200, ""), path
        assert same["Content-Type"] == headers["Content-Type"]
        assert (headers["X-Content-Type-Options"], same["X-Content-Type-Options"]) == (
            "nosniff",
            "nosniff",
        )
        assert headers["Cache-Control"] == ("no-cache" if path in ("/", "/page.js") else "no-store")
    assert call(service, "HEAD", f"{LIST}/nothing")[:2] == (404, "")
    assert call(service, "DELETE", LIST)[2]["Allow"] == "GET, HEAD, POST"
