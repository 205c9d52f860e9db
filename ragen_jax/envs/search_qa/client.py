"""Search by a server that speaks the retrieval protocol of ``search_qa.server`` (also spoken by dense retrievers)."""

from __future__ import annotations

from typing import Any

from ragen_jax.envs.json_http import JsonClient
from ragen_jax.envs.search_qa.index import RetrievalError
from ragen_jax.envs.search_qa.loader import split_content
from ragen_jax.envs.search_qa.records import Hit, Passage

MAX_RESULTS = 50  # passages that one request may ask for


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
        self._healthy = False

    def check(self) -> None:
        """Ask the server once whether it is ready.

        Raises:
          RetrievalError: it is down, slow, or has no index.
        """
        if self._healthy:
            return
        health = self._client.call("/health")
        if health.get("index_loaded") is False:
            raise RetrievalError(f"the retrieval server at {self.url} has not loaded its index yet: wait and try again")
        self._healthy = True

    def search(self, query: str, k: int) -> list[Hit]:
        """The best passages, at most ``k``, best first.

        Raises:
          RetrievalError: the server is down or slow, or its answer is an error or not of the protocol.
        """
        answer = self._client.call("/retrieve", {"query": query, "top_k": k})
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
