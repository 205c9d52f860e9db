"""Search by a server that speaks the retrieval protocol of ``search_qa.server`` (also spoken by dense retrievers)."""

from __future__ import annotations

import time
from typing import Any

from ragen_jax.envs.json_http import JsonClient
from ragen_jax.envs.search_qa.index import RetrievalError
from ragen_jax.envs.search_qa.loader import split_content
from ragen_jax.envs.search_qa.records import Hit, Passage

MAX_RESULTS = 50  # passages that one request may ask for
HEALTHY_S = 2.0  # seconds for which the news that a server is well holds


class ServerRetriever:
    """``GET /health`` and ``POST /retrieve`` of one server; safe to share between threads.

    Proxies of the machine are not used: a retrieval server stands near.
    """

    def __init__(self, url: str, *, timeout_s: float) -> None:
        """Remember where the server is; nothing is sent.

        Raises:
          ValueError: ``url`` is not http or https.
        """
        self._client = JsonClient(
            url,
            url_option="server_url",
            timeout_s=timeout_s,
            timeout_option="retrieval_timeout_s",
            service="retrieval server",
            start="python -m ragen_jax.envs.search_qa.server",
            error=RetrievalError,
        )
        self.url = self._client.url
        self._healthy_until = 0.0

    def check(self) -> None:
        """Ask the server whether it is ready, unless it said so just now and has not failed since.

        Raises:
          RetrievalError: it is down, slow, or has no index.
        """
        if time.monotonic() < self._healthy_until:
            return
        health = self._client.call("/health")
        if health.get("index_loaded") is False:
            raise RetrievalError(f"the retrieval server at {self.url} has not loaded its index yet: wait and try again")
        self._healthy_until = time.monotonic() + HEALTHY_S

    def search(self, query: str, k: int) -> list[Hit]:
        """The best passages, at most ``k``, best first.

        Raises:
          RetrievalError: the server is down or slow, or its answer is an error or not of the protocol.
        """
        self._healthy_until = 0.0  # whatever goes wrong here, the next reset asks again
        answer = self._client.call("/retrieve", {"query": query, "top_k": k})
        results = answer.get("results")
        if not isinstance(results, list):
            raise RetrievalError(f"the retrieval server at {self.url} answered without a list of 'results'")
        hits = [self._hit(result) for result in results[:k]]
        self._healthy_until = time.monotonic() + HEALTHY_S
        return hits

    def _hit(self, result: Any) -> Hit:
        try:
            identity, content, score = result["id"], result["content"], float(result.get("score", 0.0))
            if not isinstance(identity, str | int):
                raise ValueError(f"id={identity!r} is neither a text nor a whole number")
            title, text = split_content(content)
            return Hit(Passage(str(identity), title, text), score)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise RetrievalError(
                f"the retrieval server at {self.url} sent a result that is not {{id, content, score}}: {error}"
            ) from error
