"""The retrieval protocol over a real socket: round trip, many clients at once, faults on either side."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from experiments import play
from experiments._main import run_main
from ragen_jax.envs import TextEnv, make_env
from ragen_jax.envs.search_qa.client import MAX_RESULTS, ServerRetriever
from ragen_jax.envs.search_qa.index import Bm25Index, RetrievalError
from ragen_jax.envs.search_qa.records import Hit, Passage
from ragen_jax.envs.search_qa.server import RetrievalServer, main
from ragen_jax.envs.search_qa.world import World, make_world
from tests.env_fixtures import serving

pytest.importorskip("bm25s", reason="needs the extra 'search'")
pytest.importorskip("Stemmer", reason="needs the extra 'search'")


@pytest.fixture(scope="module")
def world() -> World:
    return make_world()


@pytest.fixture(scope="module")
def index(world: World) -> Bm25Index:
    return Bm25Index(world.passages)


@pytest.fixture(scope="module")
def url(index: Bm25Index) -> Iterator[str]:
    server = RetrievalServer(index, port=0)
    with serving(server) as address:
        assert server.url == address
        yield address


def _ask(url: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> tuple[int, Any]:
    request = urllib.request.Request(url + path, data=body, headers=headers or {})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=10) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_health(url: str, index: Bm25Index) -> None:
    wanted = {"status": "healthy", "corpus_size": len(index.passages), "index_type": "bm25", "index_loaded": True}
    assert _ask(url, "/health") == (200, wanted)


def test_retrieve_has_the_shape_of_the_protocol(url: str, index: Bm25Index, world: World) -> None:
    query = world.questions[0].text
    status, answer = _ask(url, "/retrieve", json.dumps({"query": query, "top_k": 3}).encode())
    assert status == 200
    hits = index.search(query, 3)
    assert answer == {
        "query": query,
        "method": "bm25",
        "num_results": 3,
        "results": [
            {"id": hit.passage.id, "content": f"{hit.passage.title}\n{hit.passage.text}", "score": hit.score}
            for hit in hits
        ],
    }
    assert _ask(url, "/retrieve", json.dumps({"query": query, "k": 2}).encode())[1]["num_results"] == 2
    assert _ask(url, "/retrieve", json.dumps({"query": query}).encode())[1]["num_results"] == 10
    assert _ask(url, "/retrieve", b'{"query": "unheardof"}')[1]["results"] == []


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b"{}", "'query' is missing"),
        (b"[]", "'query' is missing"),
        (b'{"query": " "}', "'query' is missing"),
        (b'{"query": 5}', "'query' is missing"),
        (b"{", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"\xff", "not JSON"),
        (b'{"query": "x", "top_k": 0}', "top_k=0"),
        (b'{"query": "x", "top_k": 51}', "top_k=51"),
        (b'{"query": "x", "top_k": true}', "top_k=True"),
        (b'{"query": "x", "k": "5"}', "top_k='5'"),
        (b"x" * (2**20 + 1), "Content-Length '1048577'"),
    ],
)
def test_a_faulty_request_is_answered_400(url: str, body: bytes, fault: str) -> None:
    try:
        status, answer = _ask(url, "/retrieve", body)
    except (ConnectionError, urllib.error.URLError):
        assert len(body) > 2**20, "only a body that is not read may break the connection"
        return
    assert status == 400
    assert fault in answer["error"]


def test_unknown_paths_are_404_and_the_server_goes_on(url: str) -> None:
    assert _ask(url, "/")[0] == 404
    assert _ask(url, "/health", b"{}")[0] == 404
    with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as connection:
        connection.sendall(b"nonsense\r\n\r\n")
        assert b"400" in connection.recv(1000)
    assert _ask(url, "/health")[0] == 200


def test_client_finds_what_the_index_finds(url: str, index: Bm25Index, world: World) -> None:
    client = ServerRetriever(url + "/", timeout_s=10.0)
    client.check()
    for question in world.questions[:20]:
        assert client.search(question.text, 5) == index.search(question.text, 5)
    assert client.search("\ud800 \x00 é", 5) == []
    assert len(client.search("guild", MAX_RESULTS)) == MAX_RESULTS


def test_32_clients_at_once(url: str, index: Bm25Index, world: World) -> None:
    queries = [question.text for question in world.questions[:10]]
    wanted = [index.search(query, 5) for query in queries]
    together = threading.Barrier(32)

    def work(number: int) -> bool:
        client = ServerRetriever(url, timeout_s=30.0)
        together.wait(timeout=30)
        client.check()
        order = [(number + at) % len(queries) for at in range(len(queries))]
        return all(client.search(queries[at], 5) == wanted[at] for at in order)

    with ThreadPoolExecutor(32) as pool:
        assert all(pool.map(work, range(32)))


def test_a_server_that_is_down_is_named_with_the_fix() -> None:
    with socket.socket() as taken:  # bound and not listening: nobody answers there
        taken.bind(("127.0.0.1", 0))
        client = ServerRetriever(f"http://127.0.0.1:{taken.getsockname()[1]}", timeout_s=5.0)
        for call in (client.check, lambda: client.search("x", 1)):
            with pytest.raises(RetrievalError, match=rf"no retrieval server at {client.url} .*python -m .*server_url"):
                call()


def test_a_silent_server_is_a_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = ServerRetriever(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout_s=0.1)
        with pytest.raises(RetrievalError, match=r"took longer than retrieval_timeout_s=0\.1"):
            client.search("x", 1)


class _Scripted(BaseHTTPRequestHandler):
    """Answers every request with the script of its server."""

    def do_GET(self) -> None:
        status, body = self.server.script  # type: ignore[attr-defined]
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.mark.parametrize(
    ("status", "body", "fault"),
    [
        (500, b'{"error": "index lost"}', "answered 500 to .*/retrieve: .*index lost"),
        (200, b"oops", "sent no JSON"),
        (200, b"[" * 100_000, "sent no JSON"),
        (200, b"\xff\xfe", "sent no JSON"),
        (200, b"[]", "sent list, not an object"),
        (200, b"{}", "without a list of 'results'"),
        (200, b'{"results": [5]}', "not {id, content, score}"),
        (200, b'{"results": [{"id": 1}]}', "not {id, content, score}"),
        (200, b'{"results": [{"id": null, "content": "x"}]}', "id=None is neither"),
        (200, b'{"results": [{"id": 1, "content": 5}]}', "not {id, content, score}"),
        (200, b'{"results": [{"id": 1, "content": "x", "score": "high"}]}', "not {id, content, score}"),
        (200, b" " * (8 * 2**20 + 1), "sent more than"),
    ],
)
def test_an_answer_outside_the_protocol_is_an_error(status: int, body: bytes, fault: str) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Scripted)
    server.script = (status, body)  # type: ignore[attr-defined]
    with serving(server) as address, pytest.raises(RetrievalError, match=fault):
        ServerRetriever(address, timeout_s=10.0).search("x", 5)


def test_a_dense_retriever_that_numbers_its_passages_is_understood() -> None:
    results = [{"id": 3, "content": '"Orvel Tower"\nA tower.', "score": 0.5}, {"id": 4, "content": "x"}]
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Scripted)
    server.script = (200, json.dumps({"results": results}).encode())  # type: ignore[attr-defined]
    with serving(server) as address:
        first, second = ServerRetriever(address, timeout_s=10.0).search("x", 5)
        assert len(ServerRetriever(address, timeout_s=10.0).search("x", 1)) == 1
    assert first == Hit(Passage("3", "Orvel Tower", "A tower."), 0.5)
    assert (second.passage.title, second.score) == ("", 0.0)


def test_a_server_without_its_index_is_not_ready() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Scripted)
    server.script = (200, b'{"status": "loading", "index_loaded": false}')  # type: ignore[attr-defined]
    with serving(server) as address, pytest.raises(RetrievalError, match="has not loaded its index yet"):
        ServerRetriever(address, timeout_s=10.0).check()


@pytest.mark.parametrize("url", ["", "127.0.0.1:8000", "file:///etc/hosts", "http://", "http://a:99999", "http://a:x"])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(ValueError, match="give a URL such as"):
        ServerRetriever(url, timeout_s=1.0)


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["--corpus", "nowhere.jsonl"], "--corpus='nowhere.jsonl': no such file"),
        (["--corpus", "c.jsonl", "--world", "factbook"], "--world factbook has no effect with --corpus c.jsonl"),
        (["--port", "99999999"], "port"),
    ],
)
def test_the_command_line_names_what_is_wrong(
    capsys: pytest.CaptureFixture[str], arguments: list[str], fault: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert fault in capsys.readouterr().err


def test_the_module_runs_and_stops_on_interrupt(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"id": 1, "title": "Heron", "text": "A bird."}\nbroken\n', encoding="utf-8")
    command = [sys.executable, "-m", "ragen_jax.envs.search_qa.server", "--port", "0", "--corpus", str(corpus)]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "line 2 of" in refused.stderr
    run = subprocess.Popen([*command, "--skip-malformed"], stderr=subprocess.PIPE, text=True)
    assert run.stderr is not None
    try:
        line = run.stderr.readline()
        assert line.startswith("1 passages at http://127.0.0.1:")
        client = ServerRetriever(line.split()[-1], timeout_s=10.0)
        client.check()
        assert [hit.passage.title for hit in client.search("herons", 5)] == ["Heron"]
        run.send_signal(signal.SIGINT)
        assert run.wait(timeout=30) == 0
        assert run.stderr.read() == "stopped\n"
    finally:
        run.kill()
        run.wait()
        run.stderr.close()


def _env(address: str) -> TextEnv:
    return make_env("search_qa", retriever="server", server_url=address, retrieval_timeout_s=5.0)


def test_a_server_that_dies_is_noticed_by_the_next_reset(index: Bm25Index) -> None:
    with serving(RetrievalServer(index, port=0)) as address:
        env = _env(address)
        env.reset(1)
    with pytest.raises(RetrievalError, match="no retrieval server"):
        env.step("search[guild]")
    with pytest.raises(RetrievalError, match="no retrieval server"):
        env.reset(2)


def test_a_server_that_dies_unseen_is_asked_again(index: Bm25Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragen_jax.envs.search_qa.client.HEALTHY_S", 0.0)
    with serving(RetrievalServer(index, port=0)) as address:
        env = _env(address)
        env.reset(1)
    with pytest.raises(RetrievalError, match="no retrieval server"):
        env.reset(2)


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"])
def test_an_answer_that_trickles_in_is_a_timeout(head: bytes) -> None:
    """Every byte comes in time, the whole answer does not."""
    over = threading.Event()

    def trickle(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.sendall(head or b"HTTP/1.1 200 OK\r\nX-Long: ")
            while not over.wait(0.05):
                connection.sendall(b" ")

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as threads:
        done = threads.submit(trickle, listener)
        client = ServerRetriever(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout_s=0.4)
        try:
            with pytest.raises(RetrievalError, match=r"took longer than retrieval_timeout_s=0\.4"):
                client.check()
            assert not done.done(), "the server went on sending until the client left"
        finally:
            over.set()


def test_a_program_without_its_server_ends_with_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["env=search_qa", "env.retriever=server", "env.server_url=http://127.0.0.1:9"]
    monkeypatch.setattr(sys, "argv", ["play", *arguments])
    with pytest.raises(SystemExit) as stopped:
        run_main(play.main)
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("error: no retrieval server at http://127.0.0.1:9")
    assert error.count("\n") == 1
