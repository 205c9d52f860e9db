"""What SearchQA works on: passages, and questions with their answers and the passages that hold the evidence."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Passage:
    """A piece of a corpus.

    Attributes:
      id: unique within the corpus.
      title: what it is about; "" when the corpus does not say.
      text: its words, without the title.
    """

    id: str
    title: str
    text: str


@dataclasses.dataclass(frozen=True)
class Hop:
    """One step of a solver.

    Attributes:
      query: what to search for.
      fact: what the passage then says, in short; "" when that is not known.
      passage: id of the passage that says it.
    """

    query: str
    fact: str = ""
    passage: str = ""


@dataclasses.dataclass(frozen=True)
class Question:
    """A question.

    Attributes:
      text: as it is shown.
      answers: accepted answers, the first one is the usual form; at least one.
      unit: what must not be shared between training and validation: the entity in the middle of the two hops, or the
        pair that is compared.
      kind: "two_hop", "comparison", or what a file says.
      gold: ids or titles of the passages that hold the evidence; empty when they are not known.
      plan: searches of a solver, in order; empty when none is known.
    """

    text: str
    answers: tuple[str, ...]
    unit: str
    kind: str = ""
    gold: tuple[str, ...] = ()
    plan: tuple[Hop, ...] = ()


@dataclasses.dataclass(frozen=True)
class Hit:
    """A passage that a search found, and its score (higher is nearer)."""

    passage: Passage
    score: float
