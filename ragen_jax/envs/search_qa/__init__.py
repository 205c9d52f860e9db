"""SearchQA: answer questions by searching a corpus."""

from __future__ import annotations

from ragen_jax.envs.search_qa.config import SearchQAConfig
from ragen_jax.envs.search_qa.env import SearchQA
from ragen_jax.envs.search_qa.index import RetrievalError
from ragen_jax.envs.search_qa.records import Hop, Passage, Question

__all__ = ["Hop", "Passage", "Question", "RetrievalError", "SearchQA", "SearchQAConfig"]
