"""A retrieval server over a corpus: ``python -m ragen_jax.envs.search_qa.server --port 8000 --corpus corpus.jsonl``.

``GET /health`` gives ``{status, corpus_size, index_type, index_loaded}``. ``POST /retrieve`` takes ``{query, top_k}``
(``k`` is another name of ``top_k``; 10 when left out) and gives ``{query, method, results: [{id, content, score}],
num_results}``; a faulty request is answered 400 with ``{error}``. The content of a passage is its title, a line break
and its text. The server has no login, so it listens on loopback unless it is told otherwise.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from typing import Any

from ragen_jax.envs.data_source import locate
from ragen_jax.envs.json_http import JsonHandler, JsonServer, RequestError
from ragen_jax.envs.search_qa.client import MAX_RESULTS
from ragen_jax.envs.search_qa.index import Bm25Index
from ragen_jax.envs.search_qa.loader import INVENTED, WORLDS, load_corpus

logger = logging.getLogger(__name__)

_DEFAULT_RESULTS = 10
_METHOD = "bm25"


class RetrievalServer(JsonServer):
    """One shared index, ``serve_forever`` to run; port 0 takes a free port."""

    def __init__(self, index: Bm25Index, *, host: str = "127.0.0.1", port: int = 8000) -> None:
        """Bind to an address.

        Raises:
          OSError: the port is taken.
        """
        self.index = index
        super().__init__((host, port), _Handler)


class _Handler(JsonHandler):
    server: RetrievalServer

    def do_GET(self) -> None:  # noqa: N802 (the name that http.server calls)
        if self.path != "/health":
            self.send_json(404, {"error": f"no such path {self.path!r}: GET /health or POST /retrieve"})
            return
        size = len(self.server.index.passages)
        self.send_json(200, {"status": "healthy", "corpus_size": size, "index_type": _METHOD, "index_loaded": True})

    def do_POST(self) -> None:  # noqa: N802 (the same)
        if self.path != "/retrieve":
            self.send_json(404, {"error": f"no such path {self.path!r}: GET /health or POST /retrieve"})
            return
        try:
            query, k = _read_request(self.read_json())
        except RequestError as error:
            self.send_json(400, {"error": str(error)})
            return
        results = [
            {"id": hit.passage.id, "content": f"{hit.passage.title}\n{hit.passage.text}".strip(), "score": hit.score}
            for hit in self.server.index.search(query, k)
        ]
        self.send_json(200, {"query": query, "method": _METHOD, "results": results, "num_results": len(results)})


def _read_request(request: Any) -> tuple[str, int]:
    """Query and number of results of a request."""
    query = request.get("query") if isinstance(request, dict) else None
    if not isinstance(query, str) or not query.strip():
        raise RequestError('\'query\' is missing: send {"query": "...", "top_k": 5}')
    k = request.get("top_k", request.get("k", _DEFAULT_RESULTS))
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= MAX_RESULTS:
        raise RequestError(f"top_k={k!r}: use a whole number from 1 to {MAX_RESULTS}")
    return query, k


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m ragen_jax.envs.search_qa.server", description="Serve searches.")
    parser.add_argument("--corpus", default="", help=".jsonl or .json with id, title, text; default: embedded passages")
    parser.add_argument("--world", default=INVENTED, choices=WORLDS, help="embedded passages, without --corpus")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on; the server has no login")
    parser.add_argument("--port", type=int, default=8000, help="0 takes a free one")
    parser.add_argument("--skip-malformed", action="store_true", help="leave malformed lines of the corpus out")
    options = parser.parse_args(arguments)
    if options.corpus and options.world != INVENTED:
        parser.error(f"--world {options.world} has no effect with --corpus {options.corpus}: give one of them")
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        found = locate(options.corpus, option="--corpus")
        corpus = load_corpus(found, contexts_of=None, skip_malformed=options.skip_malformed, world=options.world)
        index = Bm25Index(corpus.rows)
        server = RetrievalServer(index, host=options.host, port=options.port)
    except (ValueError, OSError, OverflowError) as error:
        parser.error(str(error))
    logger.info("%d passages at %s", len(index.passages), server.url)
    with server:
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            logger.info("stopped")


if __name__ == "__main__":
    main()
