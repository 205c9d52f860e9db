"""Random finite policies for the theory checks, float64 NumPy, and estimators enumerated over every outcome."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

SIZES = ((2, 1), (2, 2), (3, 2), (3, 6), (5, 3), (8, 1), (8, 4), (12, 6))  # responses Z, parameters D
NOISES = ("equal", "free", "bernoulli")


class Prompts(NamedTuple):
    """Prompts of one size.

    Attributes:
      probabilities: [N, Z].
      scores: [N, Z, D], of a log-linear policy with random features.
      means: [N, Z] mean rewards.
      noises: [N, Z] noise variances.
    """

    probabilities: np.ndarray
    scores: np.ndarray
    means: np.ndarray
    noises: np.ndarray


def softmax(logits: np.ndarray) -> np.ndarray:
    """Over the last axis."""
    p = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True)


def draw_prompts(rng: np.random.Generator, *, count: int, noise: str) -> Iterator[Prompts]:
    """``count`` prompts, spread evenly over ``SIZES``.

    Noise: "equal" is the same for every response, "free" differs by orders of magnitude between responses, "bernoulli"
    is that of 0/1 rewards with the drawn means as success probabilities.
    """
    for responses, width in SIZES:
        n = count // len(SIZES)
        features = rng.normal(size=(n, responses, width)) * np.exp(rng.uniform(-1, 1, (n, responses, 1)))
        theta = rng.normal(size=(n, width)) * np.exp(rng.uniform(-2, 1.5, (n, 1)))
        p = softmax(np.einsum("nzd,nd->nz", features, theta))
        scores = features - np.einsum("nz,nzd->nd", p, features)[:, None]
        if noise == "bernoulli":
            means = rng.beta(0.3, 0.3, size=(n, responses))
            noises = means * (1 - means)
        else:
            means = rng.normal(size=(n, responses)) * np.exp(rng.uniform(-4, 1, (n, 1)))
            per_response = responses if noise == "free" else 1
            noises = np.exp(rng.uniform(-8, 2, (n, per_response))) * np.ones((n, responses))
        yield Prompts(p, scores, means, noises)


def draw_bystanders(rng: np.random.Generator, *, count: int) -> Prompts:
    """Two responses that carry the gradient and a third, with a score near 0, that carries all the noise."""
    third = rng.uniform(0.02, 0.3, (count, 1))
    p = np.concatenate([np.repeat((1 - third) / 2, 2, axis=1), third], axis=1)
    features = np.array([1.0, -1.0, 0.0]) + 0.01 * rng.normal(size=(count, 3))
    scores = features - (p * features).sum(axis=1, keepdims=True)
    means = np.array([1.0, -1.0, 0.0]) * np.ones((count, 1))
    noises = np.array([0.0, 0.0, 1.0]) * np.exp(rng.uniform(0, 3, (count, 1)))
    return Prompts(p, scores[..., None], means, noises)


def draw_channels(rng: np.random.Generator, *, count: int, prompts: int, responses: int) -> np.ndarray:
    """[N, P, Z] policies, from nearly uniform to nearly deterministic, with a part that all prompts share."""
    sharpness = np.exp(rng.uniform(-2, 2, (count, 1, 1)))
    shared = rng.uniform(size=(count, 1, 1))
    own, common = rng.normal(size=(count, prompts, responses)), rng.normal(size=(count, 1, responses))
    return softmax(sharpness * (shared * common + (1 - shared) * own))


class Outcomes(NamedTuple):
    """Every way in which a group of G rollouts of one prompt can turn out.

    Attributes:
      weights: [M], probabilities.
      rewards: [M, G].
      scores: [M, G, D].
    """

    weights: np.ndarray
    rewards: np.ndarray
    scores: np.ndarray


def enumerate_groups(p: np.ndarray, s: np.ndarray, mu: np.ndarray, noise: np.ndarray, *, group: int) -> Outcomes:
    """All outcomes when the noise of response z is plus or minus its standard deviation; (2 Z)^G of them."""
    single = np.repeat(p / 2, 2)
    rewards = np.stack([mu - np.sqrt(noise), mu + np.sqrt(noise)], axis=-1).reshape(-1)
    return _groups(single, rewards, np.repeat(s, 2, axis=0), group)


def enumerate_bernoulli_groups(p: np.ndarray, s: np.ndarray, mu: np.ndarray, *, group: int) -> Outcomes:
    """All outcomes with 0/1 rewards of success probabilities mu."""
    single = np.stack([p * (1 - mu), p * mu], axis=-1).reshape(-1)
    return _groups(single, np.tile([0.0, 1.0], len(p)), np.repeat(s, 2, axis=0), group)


def _groups(single: np.ndarray, rewards: np.ndarray, scores: np.ndarray, group: int) -> Outcomes:
    index = np.array(list(itertools.product(range(len(single)), repeat=group)))
    return Outcomes(single[index].prod(axis=1), rewards[index], scores[index])


def estimates(outcomes: Outcomes, advantages: np.ndarray) -> tuple[np.ndarray, float]:
    """Mean [D] and total variance of the estimator ``mean_k A_k s_k``, exact."""
    values = (advantages[..., None] * outcomes.scores).mean(axis=1)
    mean = outcomes.weights @ values
    return mean, float(outcomes.weights @ ((values - mean) ** 2).sum(axis=1))
