"""One prompt and its bounds, written out response by response in float64 NumPy."""

from __future__ import annotations

import math

import numpy as np


def facts(p: np.ndarray, s: np.ndarray, mu: np.ndarray, noise: np.ndarray) -> dict[str, float]:
    """The quantities of ``core.bounds.PromptFacts``; the gradient as its norm."""
    responses, width = s.shape
    baseline = sum(p[z] * mu[z] for z in range(responses))
    gradient = [sum(p[z] * (mu[z] - baseline) * s[z, d] for z in range(responses)) for d in range(width)]
    square = [sum(s[z, d] ** 2 for d in range(width)) for z in range(responses)]
    score_square = sum(p[z] * square[z] for z in range(responses))
    signal = sum(p[z] * (mu[z] - baseline) ** 2 for z in range(responses))
    noise_mean = sum(p[z] * noise[z] for z in range(responses))
    second = sum(p[z] * ((mu[z] - baseline) ** 2 + noise[z]) * square[z] for z in range(responses))
    norm_sq = sum(x**2 for x in gradient)
    return {
        "gradient_norm": math.sqrt(norm_sq),
        "signal_variance": signal,
        "noise_variance": noise_mean,
        "reward_variance": signal + noise_mean,
        "score_square": score_square,
        "effective_noise": sum(p[z] * noise[z] * square[z] for z in range(responses)) / score_square,
        "sample_variance": second - norm_sq,
    }


def mutual_information(channel: np.ndarray) -> float:
    """Of equally likely prompts, nats."""
    prompts, responses = channel.shape
    total = 0.0
    for z in range(responses):
        marginal = sum(channel[x, z] for x in range(prompts)) / prompts
        for x in range(prompts):
            if channel[x, z] > 0:
                total += channel[x, z] * math.log(channel[x, z] / marginal) / prompts
    return total
