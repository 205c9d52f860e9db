"""Search by a server that speaks the retrieval protocol of ``search_qa.server`` (also spoken by dense retrievers)."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from ragen_jax.envs.search_qa.index import RetrievalError
from ragen_jax.envs.search_qa.loader import split_content
from ragen_jax.envs.search_qa.records import Hit, Passage

MAX_RESULTS = 50  # passages that one request may ask for
_MAX_BYTES = 8 * 2**20  # of an answer


class ServerRetriever:
    """``GET /health`` and ``POST /retrieve`` of one server; safe to share between threads.

    Proxies of the machine are not used: a retrieval server stands near.
    """

    def __init__(self, url: str, *, timeout_s: float) -> None:
        """Remember where the server is; nothing is sent.

        Raises:
          ValueError: ``url`` is not http or https.
        """
        try:
            parts = urllib.parse.urlsplit(url)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:  # a port that is none
            usable = False
        if not usable:
            raise ValueError(f"server_url={url!r}: give a URL such as http://127.0.0.1:8000")
        self.url = url.rstrip("/")
        self.timeout_s = timeout_s
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._healthy = False

    def check(self) -> None:
        """Ask the server once whether it is ready.

        Raises:
          RetrievalError: it is down, slow, or has no index.
        """
        if self._healthy:
            return
        health = self._call("/health", None)
        if health.get("index_loaded") is False:
            raise RetrievalError(f"the retrieval server at {self.url} has not loaded its index yet: wait and try again")
        self._healthy = True

    def search(self, query: str, k: int) -> list[Hit]:
        """The best passages, at most ``k``, best first.

        Raises:
          RetrievalError: the server is down or slow, or its answer is an error or not of the protocol.
        """
        answer = self._call("/retrieve", {"query": query, "top_k": k})
        results = answer.get("results")
        if not isinstance(results, list):
            raise RetrievalError(f"the retrieval server at {self.url} answered without a list of 'results'")
        return [self._hit(result) for result in results[:k]]

    def _hit(self, result: Any) -> Hit:
        try:
            content, score = result["content"], float(result.get("score", 0.0))
            title, text = split_content(content)
            return Hit(Passage(str(result["id"]), title, text), score)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise RetrievalError(
                f"the retrieval server at {self.url} sent a result that is not {{id, content, score}}: {error}"
            ) from error

    def _call(self, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode("ascii")  # json escapes the rest
        request = urllib.request.Request(self.url + path, data=data, headers={"Content-Type": "application/json"})
        try:
            with self._opener.open(request, timeout=self.timeout_s) as response:
                text = response.read(_MAX_BYTES + 1)
        except urllib.error.HTTPError as error:
            said = error.read(500).decode("utf-8", errors="replace")
            raise RetrievalError(f"the retrieval server answered {error.code} to {self.url}{path}: {said}") from error
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, TimeoutError):
                raise RetrievalError(
                    f"the retrieval server at {self.url} took longer than retrieval_timeout_s={self.timeout_s:g}: "
                    "raise it, or lower the load"
                ) from error
            raise RetrievalError(
                f"no retrieval server at {self.url} ({reason}): start one with "
                "'python -m ragen_jax.envs.search_qa.server', or set server_url"
            ) from error
        if len(text) > _MAX_BYTES:
            raise RetrievalError(f"the retrieval server at {self.url} sent more than {_MAX_BYTES} bytes")
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise RetrievalError(f"the retrieval server at {self.url} sent no JSON: {error}") from error
        if not isinstance(answer, dict):
            raise RetrievalError(f"the retrieval server at {self.url} sent {type(answer).__name__}, not an object")
        return answer
