"""The optimiser of actor and critic: clip by global norm, Adam with decoupled weight decay, linear warm-up."""

from __future__ import annotations

import optax


def adam(
    *, lr: float, beta1: float, beta2: float, eps: float, weight_decay: float, grad_clip: float, warmup_updates: int
) -> optax.GradientTransformation:
    """Clipping, moments, decay and schedule as one transformation; the schedule advances with every update."""
    schedule = optax.linear_schedule(lr / warmup_updates, lr, warmup_updates - 1) if warmup_updates > 1 else lr
    return optax.chain(
        optax.clip_by_global_norm(grad_clip),
        optax.adamw(schedule, b1=beta1, b2=beta2, eps=eps, weight_decay=weight_decay),
    )
