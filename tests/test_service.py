"""The service over a real connection: the same records as Python gives, shared passes, and an error for everything."""

from __future__ import annotations

import base64
import inspect
import json
import re
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
import torch

from conftest import sample_documents, sample_labelled, sample_pairs, sample_questions, sample_rows
from serving import PATIENCE, Told, serving, until_gone
from tagsmith.bundle import load_bundle
from tagsmith.cli import app as cli
from tagsmith.pipelines.embed import Embedder
from tagsmith.pipelines.index import PostIndex, build_index
from tagsmith.pipelines.load import PIPELINES
from tagsmith.records import (
    Post,
    answers_row,
    document_of,
    labelled_of,
    labels_row,
    pair_of,
    post_of,
    question_of,
    reply_row,
    to_row,
)
from tagsmith.service import Limits
from tagsmith.service.tasks import TASKS

TEXTS = [str(row["text"]) for row in sample_rows()]


@pytest.fixture(scope="module")
def pipelines(
    tiny_bundle, rank_bundle, slots_bundle, classify_bundle, answer_bundle, extract_bundle, reply_bundle
) -> dict:
    """A tiny model of each task, in full precision: a score then hardly hangs on who shares a pass."""
    folders = {
        "hashtags": tiny_bundle,
        "rank": rank_bundle,
        "phrases": slots_bundle,
        "topic": classify_bundle,
        "answers": answer_bundle,
        "extracts": extract_bundle,
        "replies": reply_bundle,
    }
    bundles = {name: load_bundle(folder, dtype=torch.float32) for name, folder in folders.items()}
    return {name: PIPELINES[bundle.task](bundle) for name, bundle in bundles.items()}


@pytest.fixture(scope="module")
def index(rank_bundle, tmp_path_factory) -> PostIndex:
    embedder = Embedder.load(rank_bundle)
    folder = tmp_path_factory.mktemp("index") / "posts"
    build_index([post_of(row) for row in sample_rows()], embedder, folder)
    return PostIndex.open(folder, embedder)


@pytest.fixture(scope="module")
def client(pipelines, index):
    with serving(pipelines, index=index, passes=3) as (client, _):
        yield client


@pytest.fixture
def told():
    return Told()


def ask(client: httpx.Client, route: str, inputs, **parameters) -> httpx.Response:
    return client.post(route, json={"inputs": inputs, "parameters": parameters})


def near(found, wanted) -> bool:
    """The same rows; scores may differ in what is left of the arithmetic's noise."""
    if isinstance(wanted, float):
        return found == pytest.approx(wanted, abs=2e-3)
    if isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(near(found[key], value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(near, found, wanted))
    return found == wanted


def refused(response: httpx.Response, status: int, kind: str, *words: str) -> bool:
    assert response.status_code == status, response.text
    assert set(response.json()) == {"error", "error_type"}
    assert response.json()["error_type"] == kind
    for word in words:
        assert word in response.json()["error"]
    return True


# what is asked for


def test_tags_are_those_of_python_in_order(client, pipelines):
    wanted = [to_row(answer) for answer in pipelines["hashtags"].tag(TEXTS)]
    assert near(ask(client, "/tag", TEXTS).json(), wanted)
    assert near(ask(client, "/tag", TEXTS[0]).json(), wanted[0])
    assert near(ask(client, "/tag", {"id": "a", "text": TEXTS[0]}).json(), {**wanted[0], "id": "a"})
    with_evidence = ask(client, "/tag", TEXTS[:2], top=1, evidence=True).json()
    assert near(with_evidence, [to_row(one) for one in pipelines["hashtags"].tag(TEXTS[:2], top=1, evidence=True)])
    assert with_evidence[0]["segments"]


def test_every_route_gives_the_rows_of_python(client, pipelines):
    documents, labelled = sample_documents()[:5], sample_labelled()[:5]
    questions, pairs = sample_questions()[:5], sample_pairs()[:5]
    plain = [{name: value for name, value in row.items() if name in ("id", "title", "abstract")} for row in documents]
    found = ask(client, "/tag", plain, model="phrases", top=3).json()
    assert near(found, [to_row(one) for one in pipelines["phrases"].tag([document_of(row) for row in plain], top=3)])
    found = ask(client, "/extract", plain).json()
    assert near(found, [to_row(one) for one in pipelines["extracts"].extract([document_of(row) for row in plain])])
    found = ask(client, "/classify", labelled, top=2).json()
    assert near(
        found, [labels_row(one) for one in pipelines["topic"].classify([labelled_of(row) for row in labelled], top=2)]
    )
    found = ask(client, "/answer", questions).json()
    assert near(
        found, [answers_row(one) for one in pipelines["answers"].answer([question_of(row) for row in questions])]
    )
    found = ask(client, "/reply", pairs, seed=3, evidence=True, longest=6, block=["love"]).json()
    wanted = pipelines["replies"].reply(
        [pair_of(row) for row in pairs], seed=3, evidence=True, longest=6, block=["love"]
    )
    assert near(found, [reply_row(one) for one in wanted])


def test_vectors_in_both_shapes(client, pipelines):
    found = ask(client, "/embed", TEXTS[:3]).json()
    ranker = pipelines["rank"]
    embedder = Embedder(ranker.finder, ranker.tokeniser, ranker.settings, name="", fingerprint="")
    wanted = embedder.embed(TEXTS[:3]).tolist()
    assert near([row["vector"] for row in found], wanted)
    plain = client.post("/v1/embeddings", json={"input": TEXTS[:3], "model": "rank"}).json()
    assert [plain["object"], plain["model"]] == ["list", "rank"]
    assert [one["index"] for one in plain["data"]] == [0, 1, 2]
    assert {one["object"] for one in plain["data"]} == {"embedding"}
    assert near([one["embedding"] for one in plain["data"]], wanted)
    assert plain["usage"]["prompt_tokens"] == plain["usage"]["total_tokens"] > 3
    coded = client.post("/v1/embeddings", json={"input": TEXTS[0], "encoding_format": "base64"}).json()
    raw = base64.b64decode(coded["data"][0]["embedding"])
    assert near(list(struct.unpack(f"<{len(raw) // 4}f", raw)), wanted[0])


def test_the_nearest_posts_of_the_index(client):
    found = ask(client, "/nearest", [TEXTS[4], TEXTS[9]], top=2).json()
    assert [row["nearest"][0]["text"] for row in found] == [TEXTS[4], TEXTS[9]]
    assert [len(row["nearest"]) for row in found] == [2, 2]


def test_each_text_goes_to_the_model_of_its_language(told):
    chinese = Told()
    chinese.settings = type(chinese.settings)(language="zh")
    with serving({"en": told, "zh": chinese}) as (client, _):
        told.passes.clear(), chinese.passes.clear()
        rows = ask(client, "/tag", ["a b", "今天 火锅", "c"]).json()
        assert [[tag["text"] for tag in row["tags"]] for row in rows] == [["a", "b"], ["今天", "火锅"], ["c"]]
        assert chinese.passes == [["今天 火锅"]]
        assert ask(client, "/tag", "今天", model="en").json()["tags"][0]["text"] == "今天"
        assert told.passes[-1] == ["今天"]


def test_replies_without_a_seed_are_new_and_with_one_the_same(client):
    same = [ask(client, "/reply", TEXTS[:6], seed=9).json() for _ in range(2)]
    assert same[0] == same[1]
    seen = {json.dumps(ask(client, "/reply", TEXTS[:6], seed=seed).json()) for seed in range(4)}
    assert len(seen) > 1


# shared passes


def test_many_clients_share_passes_and_get_what_they_would_get_alone(client, pipelines):
    alone = [to_row(pipelines["hashtags"].tag([text])[0]) for text in TEXTS]
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda text: ask(client, "/tag", text).json(), TEXTS))
    assert near(found, alone)


def test_all_models_at_once_answer_as_one_by_one(client):
    rows = {
        "/classify": sample_labelled()[:6],
        "/answer": [{name: row[name] for name in ("question", "context")} for row in sample_questions()[:6]],
        "/extract": [row["abstract"] for row in sample_documents()[:6]],
        "/embed": TEXTS[:6],
        "/tag": TEXTS[:6],
    }
    asked = [(route, row) for place in range(6) for route, some in rows.items() for row in some[place : place + 1]]
    alone = [ask(client, route, row).json() for route, row in asked]
    with ThreadPoolExecutor(10) as pool:
        found = list(pool.map(lambda one: ask(client, *one).json(), asked * 2))
    assert near(found, alone * 2)


def test_texts_that_wait_are_answered_together_and_those_with_other_parameters_are_not(told):
    with serving({"told": told}, limits=Limits(wait=0)) as (client, _), ThreadPoolExecutor(8) as pool:
        told.hold()
        first = pool.submit(ask, client, "/tag", "first")
        assert told.busy.wait(PATIENCE)
        told.passes.clear()
        others = [pool.submit(ask, client, "/tag", f"text {number}", top=1 + number % 2) for number in range(6)]
        wait_for_queue(client, "told/tag", 7)
        told.go.set()
        for number, one in enumerate(others):
            assert one.result().json()["tags"][1]["text"] == str(number)
        assert first.result().status_code == 200
        assert sorted(sorted(one) for one in told.passes) == [
            ["text 0", "text 2", "text 4"],
            ["text 1", "text 3", "text 5"],
        ]


def wait_for_queue(client: httpx.Client, lane: str, count: int) -> None:
    """Until so many texts are taken and not answered."""
    line = f'tagsmith_queue_texts{{model="{lane}"}} {float(count)}'
    stop = threading.Event()
    for _ in range(100 * PATIENCE):
        if line in client.get("/metrics").text:
            return
        stop.wait(0.01)
    pytest.fail(f"never: {line}")


def test_a_text_that_breaks_the_model_breaks_no_other(told):
    with serving({"told": told}, limits=Limits(wait=0)) as (client, _), ThreadPoolExecutor(4) as pool:
        told.hold()
        pool.submit(ask, client, "/tag", "first")
        assert told.busy.wait(PATIENCE)
        some = [pool.submit(ask, client, "/tag", text) for text in ("good", "the poison", "fine")]
        wait_for_queue(client, "told/tag", 4)
        told.go.set()
        good, bad, fine = (one.result() for one in some)
        assert [good.status_code, fine.status_code] == [200, 200]
        assert refused(bad, 500, "internal")
        assert "poison" not in bad.text
        assert ask(client, "/tag", "still here").status_code == 200


# limits


def test_a_full_queue_says_when_to_ask_again(told):
    with serving({"told": told}, limits=Limits(queue=2, inputs=2)) as (client, _), ThreadPoolExecutor(2) as pool:
        told.hold()
        taken = pool.submit(ask, client, "/tag", ["a", "b"])
        assert told.busy.wait(PATIENCE)
        response = ask(client, "/tag", "c")
        assert refused(response, 429, "overloaded", "2 texts wait", "holds 2")
        assert int(response.headers["retry-after"]) >= 1
        assert refused(client.get("/ready"), 503, "not_ready", "full")
        assert client.get("/health").status_code == 200
        told.go.set()
        assert len(taken.result().json()) == 2
        assert ask(client, "/tag", "c").status_code == 200
        assert client.get("/ready").json() == {"status": "ready"}


def test_a_request_that_takes_too_long_is_given_up_and_its_texts_are_not_read(told):
    with serving({"told": told}, limits=Limits(timeout=0.3, wait=0)) as (client, _), ThreadPoolExecutor(2) as pool:
        told.hold()
        first = pool.submit(ask, client, "/tag", "first")
        assert told.busy.wait(PATIENCE)
        second = pool.submit(ask, client, "/tag", "second")
        assert refused(first.result(), 503, "timeout", "0.3 s")
        assert refused(second.result(), 503, "timeout")
        told.go.set()
        assert ask(client, "/tag", "third").status_code == 200
        assert ["second"] not in told.passes


def test_what_was_taken_is_answered_when_the_service_stops(told):
    with serving({"told": told}) as (client, server), ThreadPoolExecutor(1) as pool:
        told.hold()
        taken = pool.submit(ask, client, "/tag", ["a b", "c"])
        assert told.busy.wait(PATIENCE)
        server.should_exit = True
        until_gone(client)  # nobody new is let in
        told.go.set()
        assert [len(row["tags"]) for row in taken.result().json()] == [2, 1]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe\x00binary", "UTF-8"),
        (b"[" * 100_000, "not JSON"),
        (b'{"inputs": NaN}', "not JSON"),
        (b"3", "must be an object"),
        (b"{}", "no field 'inputs'"),
        (b'{"input": "a"}', "did you mean 'inputs'?"),
        (b'{"inputs": []}', "empty list"),
        (b'{"inputs": 3}', "a string or an object, not a number"),
        (b'{"inputs": null}', "not null"),
        (b'{"inputs": ["a", ["b"]]}', "inputs[1] must be a string or an object, not a list"),
        (b'{"inputs": ["a", {"txt": "b"}]}', "inputs[1]: the row has no field 'text' (its fields: 'txt')"),
        (b'{"inputs": {"text": 4}}', "'text' must be a string"),
        (b'{"inputs": ""}', "empty"),
        (b'{"inputs": "  \\n "}', "empty"),
        (b'{"inputs": "a \\ud800 b"}', "lone surrogate"),
        (b'{"inputs": "a", "parameters": []}', None),
        (b'{"inputs": "a", "parameters": 4}', "'parameters' must be an object, not a number"),
        (b'{"inputs": "a", "parameters": {"tpo": 4}}', "/tag has no parameter 'tpo'; did you mean 'top'?"),
        (b'{"inputs": "a", "parameters": {"top": "4"}}', "the parameter top must be of type int"),
        (b'{"inputs": "a", "parameters": {"top": 0}}', "1 to 100"),
        (b'{"inputs": "a", "parameters": {"evidence": 1}}', "the parameter evidence"),
    ],
)
def test_a_bad_body_is_told_in_one_sentence_and_the_service_lives_on(client, body, words):
    response = client.post("/tag", content=body)
    if words is None:
        assert response.status_code == 200
    else:
        assert refused(response, 422, "bad_input", words)
    assert ask(client, "/tag", "fresh beans").status_code == 200


def test_a_text_of_a_list_that_cannot_be_read_keeps_its_place(client):
    raw = b'{"inputs": ["fresh beans", "", "a \\ud800", {"id": "\\udc00", "text": "rain"}]}'
    response = client.post("/tag", content=raw)
    assert response.status_code == 200
    assert [row["error"] is None for row in response.json()] == [True, False, False, True]
    assert response.json()[3]["id"] == "\udc00"


def test_what_is_too_long_or_too_many_is_413(told):
    with serving({"told": told}, limits=Limits(inputs=2, characters=10, body=1000)) as (client, _):
        assert refused(ask(client, "/tag", ["a", "b", "c"]), 413, "too_long", "3 inputs", "most is 2")
        assert refused(ask(client, "/tag", ["a", "b" * 11]), 413, "too_long", "inputs[1] has 11", "most is 10")
        assert refused(ask(client, "/tag", {"text": "ok", "title": "b" * 11}), 413, "too_long", "inputs has 13")
        assert refused(ask(client, "/tag", "b" * 2000), 413, "too_long", "1,000 bytes")
        assert refused(client.post("/tag", content=b"x" * 15_000), 413, "too_long", "1,000 bytes")
        assert ask(client, "/tag", "b" * 10).status_code == 200


def test_limits_that_cannot_be_are_told():
    from tagsmith.errors import ConfigError

    with pytest.raises(ConfigError, match="does not fit a queue of 3"):
        Limits(inputs=4, queue=3)
    with pytest.raises(ConfigError, match="the most characters"):
        Limits(characters=10_000_000)
    with pytest.raises(ConfigError, match="above 0"):
        Limits(timeout=0)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"inputs": "a"}, "did you mean 'input'?"),
        ({}, "no field 'input'"),
        ({"input": [1, 2]}, "ids of tokens"),
        ({"input": ["a", ""]}, "input[1]: the text is empty"),
        ({"input": "a", "encoding_format": "int8"}, "'float' or 'base64'"),
        ({"input": "a", "dimensions": 7}, "24 dimensions"),
        ({"input": "a", "model": 3}, "name of a model"),
    ],
)
def test_bad_bodies_of_the_openai_shape(client, body, words):
    assert refused(client.post("/v1/embeddings", json=body), 422, "bad_input", words)


def test_a_model_or_route_that_there_is_not(client, told):
    assert refused(ask(client, "/tag", "a", model="nope"), 404, "unknown_model", "'nope'", "hashtags, rank, phrases")
    assert refused(client.post("/v1/embeddings", json={"input": "a", "model": "x"}), 404, "unknown_model", "rank")
    assert refused(client.get("/nope"), 404, "unknown_route", "/docs")
    assert refused(client.get("/page/../app.py"), 404, "unknown_route")
    assert refused(client.get("/tag"), 405, "wrong_method", "GET")
    with serving({"told": told}) as (small, _):
        assert refused(ask(small, "/answer", "a"), 404, "no_model", "/answer", "tagsmith serve --models told,")
        assert refused(ask(small, "/nearest", "a"), 404, "no_model", "--index")


def test_an_answer_needs_a_question(client):
    assert refused(ask(client, "/answer", "a passage"), 422, "bad_input", "must be an object, not a string")
    assert refused(ask(client, "/answer", {"context": "a"}), 422, "bad_input", "no field 'question'")
    assert refused(ask(client, "/answer", {"context": "a", "question": " "}), 422, "bad_input", "question is empty")
    assert refused(ask(client, "/reply", "a", about=["xyzzy\u2603"]), 422, "bad_input", "vocabulary")


# for operators


def test_with_a_token_only_who_knows_it_is_answered(told):
    with serving({"told": told}, token="säsam") as (client, _):
        for headers in ({}, {"Authorization": "Bearer sesam"}, {"Authorization": "Basic säsam".encode()}):
            response = client.post("/tag", json={"inputs": "a"}, headers=headers)
            assert refused(response, 401, "unauthorised", "Bearer")
            assert response.headers["www-authenticate"] == "Bearer"
        assert refused(client.get("/info"), 401, "unauthorised")
        assert refused(client.get("/metrics"), 401, "unauthorised")
        for path in ("/health", "/ready", "/", "/page/style.css"):
            assert client.get(path).status_code == 200
        known = {"Authorization": "Bearer säsam".encode()}
        assert client.post("/tag", json={"inputs": "a"}, headers=known).status_code == 200


def test_metrics_count_requests_texts_tokens_and_passes(told):
    with serving({"told": told}) as (client, _):
        ask(client, "/tag", ["a b c", "d"])
        ask(client, "/tag", 3)
        page = client.get("/metrics")
    assert page.headers["content-type"].startswith("text/plain")
    for line in (
        'tagsmith_requests_total{route="/tag",status="200"} 1.0',
        'tagsmith_requests_total{route="/tag",status="422"} 1.0',
        'tagsmith_request_seconds_count{route="/tag"} 2.0',
        'tagsmith_queue_texts{model="told/tag"} 0.0',
        'tagsmith_texts_total{model="told/tag"} 3.0',  # and the first one, that warms it up
        'tagsmith_tokens_total{model="told/tag"} 7.0',
        'tagsmith_batch_texts_count{model="told/tag"} 2.0',
    ):
        assert line in page.text, line


def test_the_service_tells_what_it_has(client):
    about = client.get("/info").json()
    assert {one["name"]: one["task"] for one in about["models"]}["topic"] == "classify"
    assert about["routes"]["/embed"]["models"] == ["rank"]
    assert about["index"] == {"posts": len(TEXTS)}
    assert about["limits"]["inputs"] == 256
    schema = client.get("/openapi.json").json()
    assert {"/tag", "/reply", "/v1/embeddings", "/health"} <= set(schema["paths"])
    body = schema["paths"]["/tag"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert set(body["properties"]["parameters"]["properties"]) == {"model", "top", "evidence"}
    policy = client.get("/").headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "http" not in client.get("/").text.replace("http-equiv", "")


def test_posts_with_hashtags_beside_them_are_posts(client):
    row = sample_rows()[0]
    assert ask(client, "/tag", row).json()["id"] == row["id"]
    assert post_of(row) == Post(row["text"], id=row["id"], tags=tuple(row["hashtags"]))


def test_the_requests_of_the_docs_are_answered(client):
    page = (Path(__file__).parent.parent / "docs" / "serve.md").read_text(encoding="utf-8")
    asked = re.findall(r"^\$ curl -s localhost:8000(\S+) -d '(.*)'$", page, flags=re.MULTILINE)
    assert {route for route, _ in asked} == {f"/{route}" for route in (*TASKS, "v1/embeddings")}
    for route, body in asked:
        response = client.post(route, content=body)
        assert response.status_code == 200, (route, response.text)


def test_the_docs_name_every_parameter_and_limit(client):
    page = (Path(__file__).parent.parent / "docs" / "serve.md").read_text(encoding="utf-8")
    for route, about in client.get("/info").json()["routes"].items():
        (row,) = re.findall(rf"^\| `POST {route}` .*$", page, flags=re.MULTILINE)
        for name in set(about["parameters"]) - {"model"}:
            assert f"`{name}`" in row, (route, name)
    command = next(one for one in cli.registered_commands if one.callback.__name__ == "serve")
    for name in inspect.signature(command.callback).parameters:
        assert f"--{name.replace('_', '-')}" in page, name
