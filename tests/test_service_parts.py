"""The parts of the service that need no connection: who waits with whom, which weights are shared, what is logged."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
from types import SimpleNamespace

import httpx
import pytest
import torch
from torch import nn

from tagsmith.errors import ConfigError, ServiceError
from tagsmith.service.served import load_pipelines, served, share_weights
from tagsmith.service.start import listen
from tagsmith.service.waiting import Group, Piece, Waiting
from tagsmith.service.watch import JsonLines

ONE, TWO = Group("a", (), 1), Group("a", (), 2)


def piece(name: str, since: float, *, tokens: int = 10, batch: int = 4, dropped: bool = False) -> Piece:
    job = SimpleNamespace(stages=SimpleNamespace(batch=batch), dropped=dropped)
    return Piece(job, 0, name, tokens, since)


def names(taken) -> list[str]:
    return [one.ready for one in taken[1]]


def test_a_text_waits_for_company_and_no_longer():
    waiting = Waiting(tokens=100, wait=1.0)
    assert waiting.due_in(0.0) is None
    waiting.add(ONE, piece("x", 5.0))
    waiting.add(ONE, piece("y", 5.5))
    assert waiting.take(6.4) is None
    assert waiting.due_in(6.4) == pytest.approx(0.1)
    assert names(waiting.take(6.5)) == ["x", "y"]
    assert waiting.take(9.0) is None


def test_a_free_model_does_not_wait_for_ever_while_others_join():
    waiting = Waiting(tokens=1000, wait=1.0)
    for number in range(9):
        waiting.add(ONE, piece(str(number), 5.0 + number / 2, batch=100))
    assert waiting.take(9.4, free=5.5) is None  # the last came half a moment ago, the model is free for less than four
    assert waiting.due_in(9.4, free=5.5) == pytest.approx(0.1)
    assert len(waiting.take(9.4, free=5.3)[1]) == 9


def test_in_a_hurry_nobody_waits():
    waiting = Waiting(tokens=100, wait=1.0)
    waiting.add(ONE, piece("x", 5.0))
    assert names(waiting.take(5.0, hurry=True)) == ["x"]


def test_a_full_group_goes_at_once():
    waiting = Waiting(tokens=100, wait=1.0)
    for number in range(4):
        assert waiting.take(5.0) is None
        waiting.add(ONE, piece(str(number), 5.0))
    assert names(waiting.take(5.0)) == ["0", "1", "2", "3"]


def test_a_pass_keeps_to_its_tokens_padding_among_them():
    waiting = Waiting(tokens=100, wait=1.0)
    for number, tokens in enumerate((10, 50, 10)):
        waiting.add(ONE, piece(str(number), 5.0, tokens=tokens))
    assert names(waiting.take(5.0)) == ["0", "1"]  # three rows of 50 are too many
    waiting.add(TWO, piece("long", 6.0, tokens=1000))
    assert names(waiting.take(6.0)) == ["2"]
    assert names(waiting.take(7.0)) == ["long"]  # alone it goes, whatever its length


def test_the_group_that_waited_longest_goes_first_and_shapes_do_not_mix():
    waiting = Waiting(tokens=100, wait=1.0)
    waiting.add(TWO, piece("late", 2.0))
    waiting.add(ONE, piece("early", 1.0))
    waiting.add(Group("a", ("top", 3), 1), piece("other", 1.5))
    assert [names(waiting.take(9.0)) for _ in range(3)] == [["early"], ["other"], ["late"]]


def test_many_texts_go_before_few_but_nobody_starves():
    waiting = Waiting(tokens=1000, wait=1.0)
    waiting.add(TWO, piece("lone", 1.0))
    for number in range(3):
        waiting.add(ONE, piece(str(number), 3.0))
    assert names(waiting.take(9.0)) == ["0", "1", "2"]  # 18 seconds together, against 8
    for number in range(3):
        waiting.add(ONE, piece(str(number), 9.0))
    assert names(waiting.take(10.5)) == ["lone"]  # 9.5 against 4.5


def test_texts_of_a_request_that_is_over_are_not_read():
    waiting = Waiting(tokens=100, wait=0.0)
    waiting.add(ONE, piece("gone", 1.0, dropped=True))
    waiting.add(TWO, piece("gone too", 1.0, dropped=True))
    waiting.add(ONE, piece("here", 1.0))
    assert len(waiting) == 3
    assert names(waiting.take(2.0)) == ["here"]
    assert len(waiting) == 0


def test_equal_weights_are_held_once_and_others_stay():
    one, same, other = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 64)
    same.load_state_dict(one.state_dict())
    asked = torch.randn(2, 64)
    wanted = [model(asked) for model in (one, same, other)]
    assert share_weights([one, same, other]) == 64 * 64 * 4
    assert one.weight.data_ptr() == same.weight.data_ptr() != other.weight.data_ptr()
    for model, answer in zip((one, same, other), wanted, strict=True):
        assert torch.equal(model(asked), answer)
    assert share_weights([one, same, other]) == 0


def test_one_folder_under_two_names_is_one_model_in_memory(rank_bundle):
    found = load_pipelines([str(rank_bundle), f"again={rank_bundle}"])
    assert list(found) == ["tiny-rank", "again"]
    first, second = (next(one.finder.model.parameters()) for one in found.values())
    assert first.data_ptr() == second.data_ptr()
    with pytest.raises(ConfigError, match="two models are called 'tiny-rank'"):
        load_pipelines([str(rank_bundle), str(rank_bundle)])


def test_what_cannot_be_served_is_told():
    with pytest.raises(ConfigError, match="odd is a SimpleNamespace"):
        served("odd", SimpleNamespace())


def test_a_port_that_is_taken_is_told(monkeypatch):
    with listen("127.0.0.1", 0) as bound:
        bound.listen()
        with pytest.raises(ServiceError, match="choose another"):
            listen("127.0.0.1", bound.getsockname()[1])

    def unknown(*given, **more):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr("socket.getaddrinfo", unknown)
    with pytest.raises(ServiceError, match="there is no host 'nowhere' here: Name or service not known"):
        listen("nowhere", 0)


def test_a_line_of_the_log_names_the_problem_without_its_words():
    try:
        raise ValueError("my secret post")
    except ValueError:
        record = logging.LogRecord("tagsmith", logging.ERROR, "", 0, "request", None, sys.exc_info())
    record.fields = {"route": "/tag"}
    row = json.loads(JsonLines().format(record))
    assert row["exception"] == "ValueError"
    assert "test_service_parts.py" in row["where"]
    assert "secret" not in json.dumps(row)
    assert (row["event"], row["route"], row["level"]) == ("request", "/tag", "error")


# the command line


def test_the_command_serves_until_it_is_told_to_stop_and_logs_no_word_of_a_text(tiny_bundle):
    words = ["serve", "--models", f"mine={tiny_bundle}", "--port", "0", "--threads", "1", "--max-characters", "60"]
    environment = {**os.environ, "TAGSMITH_TOKEN": "sesame"}
    with subprocess.Popen(
        [sys.executable, "-m", "tagsmith", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        try:
            told = json.loads(process.stdout.readline())
            assert told["models"] == ["mine"]
            with httpx.Client(base_url=told["serving"], trust_env=False, timeout=60) as client:
                assert client.post("/tag", json={"inputs": "Xylophone"}).status_code == 401
                client.headers["Authorization"] = "Bearer sesame"
                done = client.post("/tag?text=Xylophone", json={"inputs": "a flat white and a Xylophone"})
                assert done.status_code == 200
                for bad in ({"inputs": "Xylophone" * 9}, {"inputs": {"Xylophone": 1}}, {"Xylophone": 1}):
                    assert client.post("/tag", json=bad).status_code in (413, 422)
                assert client.get("/Xylophone").status_code == 404
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0
    assert out == b""
    assert b"Xylophone" not in err
    assert b"sesame" not in err
    rows = [json.loads(line) for line in err.splitlines() if line.startswith(b"{")]
    (row,) = [row for row in rows if row["status"] == 200]
    assert {"route": "/tag", "models": ["mine"], "inputs": 1, "characters": 28}.items() <= row.items()
    assert row["tokens"] > 3
    assert [row["status"] for row in rows] == [401, 200, 413, 422, 422, 404]


def test_an_interrupt_ends_it_with_130(tiny_bundle):
    words = [sys.executable, "-m", "tagsmith", "serve", "--models", str(tiny_bundle), "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert json.loads(process.stdout.readline())["models"] == ["tiny"]
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130
    assert b"Traceback" not in err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--models", "nope"], "no model or folder 'nope'"),
        (["--models", " , "], "names with commas between"),
        (["--models", "hashtag-en", "--queue", "3"], "does not fit a queue of 3"),
        (["--token", " "], "the token is empty"),
        (["--index", "nowhere"], "nowhere"),
        (["--host", "203.0.113.1"], "cannot listen on 203.0.113.1"),
        (["--port", "99999"], "65535"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(run_cli, shipped, words, told):
    done = run_cli("serve", *(["--port", "0"] if "--port" not in words else []), *words)
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("error: ")
    assert told in done.err


def test_without_the_extra_it_says_what_to_install(run_cli, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install 'tagsmith[serve]'" in run_cli("serve").err
