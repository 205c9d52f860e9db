"""Rules about rewards, advantages and loss; ``validate`` asks them. Each yields one sentence per problem."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from ragen_jax.config.schema import Config
from ragen_jax.config.without_effect import without_effect
from ragen_jax.registry import unknown_name

logger = logging.getLogger(__name__)

# What the estimators of the package read; of one that was added, every option may be read.
_READS: dict[str, frozenset[str]] = {
    "gae": frozenset({"gamma", "lam"}),
    "bi_level_gae": frozenset({"gamma", "lam", "turn_gamma"}),
    "grpo": frozenset({"normalize_by_std"}),
    "rloo": frozenset(),
    "reinforce": frozenset(),
    "reinforce_plus_plus": frozenset({"gamma"}),
    "reinforce_plus_plus_baseline": frozenset(),
}
_OPTIONS = ("gamma", "lam", "turn_gamma", "normalize_by_std")


def advantage(config: Config) -> Iterator[str]:
    """The estimator and its options."""
    from ragen_jax.core.advantages import ADVANTAGES, NEEDS_CRITIC, TOKEN_LEVEL

    section = config.algorithm
    name = section.advantage
    if name not in ADVANTAGES:
        yield f"algorithm.advantage: {unknown_name('advantage', name, ADVANTAGES)}"
        return
    if name in NEEDS_CRITIC and not config.model.critic_preset:
        yield (
            f"algorithm.advantage={name} needs a critic and model.critic_preset is empty; name one, for example "
            "model.critic_preset=tiny-critic"
        )
    if name not in NEEDS_CRITIC:
        yield from without_effect(config, ("algorithm.value_clip",), f"algorithm.advantage={name}, which has no critic")
    if name not in TOKEN_LEVEL and config.rollout.group_size < 2:
        yield (
            f"rollout.group_size={config.rollout.group_size} with algorithm.advantage={name}: a group-relative "
            "advantage needs at least 2 rollouts per prompt"
        )
    unread = [f"algorithm.{option}" for option in _OPTIONS if option not in _READS.get(name, _OPTIONS)]
    yield from without_effect(config, unread, f"algorithm.advantage={name}, which does not read it")


def whitening(config: Config) -> Iterator[str]:
    """The second step behind some estimators, and the centring that others may have."""
    from ragen_jax.core.advantages import WHITENED

    section = config.algorithm
    if section.advantage not in WHITENED:
        other = f"algorithm.advantage={section.advantage}, which is not whitened"
        yield from without_effect(config, ("algorithm.whiten", "algorithm.whiten_over"), other)
    elif not section.whiten:
        yield from without_effect(config, ("algorithm.whiten_over",), "algorithm.whiten=False")
    if section.center_tokens and section.advantage in WHITENED:
        yield (
            f"algorithm.center_tokens=True with algorithm.advantage={section.advantage}: it corrects the token weight "
            "of plain group advantages, and whitening takes the mean over tokens already; leave one of them out"
        )
    if section.center_tokens and section.aggregation == "seq-mean-token-mean":
        yield (
            "algorithm.center_tokens=True with algorithm.aggregation=seq-mean-token-mean: there every row weighs the "
            "same however long it is, so that no token weight is to be corrected; use aggregation=token-mean"
        )


def loss(config: Config) -> Iterator[str]:
    """Clips, KL and the number of updates."""
    section = config.algorithm
    if section.clip_dual != 0 and section.clip_dual <= 1:
        yield f"algorithm.clip_dual={section.clip_dual} must be above 1, or 0 to switch it off"
    if section.kl_coef == 0:
        unread = ("algorithm.kl_estimator", "algorithm.kl_target")
        yield from without_effect(config, unread, "algorithm.kl_coef=0", fix="set a coefficient")
    if section.kl_coef and section.kl_target == "reward" and section.advantage == "bi_level_gae":
        yield (
            "algorithm.kl_target=reward with algorithm.advantage=bi_level_gae: that estimator credits whole turns with "
            "what stands at their end, a KL stands on every token; use kl_target=loss or advantage=gae"
        )
    one_batch = section.minibatch_groups in (0, config.rollout.prompts)
    if section.equal_updates and (config.filter.rule == "none" or one_batch):
        yield (
            f"algorithm.equal_updates=True has no effect with filter.rule={config.filter.rule}, "
            f"rollout.prompts={config.rollout.prompts} and algorithm.minibatch_groups={section.minibatch_groups}: it "
            "needs a filter, and several mini-batches that the filter could make fewer"
        )


def rewards(config: Config) -> Iterator[str]:
    """Normalisation and length penalty."""
    reward, section, group = config.reward, config.algorithm, config.rollout.group_size
    if reward.normalize == "identity":
        yield from without_effect(config, ("reward.grouping",), "reward.normalize=identity")
    elif reward.grouping == "group" and group < 2:
        yield (
            f"rollout.group_size={group} with reward.normalize={reward.normalize} and reward.grouping=group: a group "
            "of one has no spread; use at least 2 rollouts per prompt, or reward.grouping=batch"
        )
    if _advantage_undoes(config):
        yield (
            f"reward.normalize={reward.normalize} with reward.grouping={reward.grouping} has no effect with "
            f"algorithm.advantage={section.advantage}, which takes its own mean (and spread) after it; use "
            "reward.normalize=identity"
        )
    budget = config.rollout.max_new_tokens
    if reward.overlong_buffer > budget:
        yield (
            f"reward.overlong_buffer={reward.overlong_buffer} is above rollout.max_new_tokens={budget}, the budget of "
            "a reply whose last tokens it is about; use a smaller one"
        )
    if reward.overlong_penalty <= 0:
        yield f"reward.overlong_penalty={reward.overlong_penalty} is subtracted and must be above 0"
    elif not reward.overlong_buffer:
        yield from without_effect(config, ("reward.overlong_penalty",), "reward.overlong_buffer=0")


def warn(config: Config) -> None:
    """Log what is allowed and rarely meant."""
    section = config.algorithm
    if section.kl_coef == 0:
        return
    if section.kl_target == "loss" and section.kl_estimator == "k1":
        logger.warning(
            "algorithm.kl_estimator=k1 as a loss has a gradient of zero on average: it adds noise and no pull towards "
            "the reference policy; k3 or k2 pull"
        )
    if section.kl_target == "reward" and section.kl_estimator != "k1":
        logger.warning(
            "algorithm.kl_estimator=%s in the reward does not have the gradient of a KL on average; k1 does",
            section.kl_estimator,
        )


def _advantage_undoes(config: Config) -> bool:
    """True where the advantages are the same numbers with and without the normalisation, up to rounding."""
    reward, section = config.reward, config.algorithm
    name, method = section.advantage, reward.normalize
    if method not in ("mean", "mean_std"):
        return False
    # A shift or a scale that the whole batch shares goes in the whitening, where no KL stands beside the task reward.
    alone = not (section.kl_coef and section.kl_target == "reward")
    whitened = section.whiten and reward.grouping == "batch" and alone
    if name == "reinforce_plus_plus":
        return whitened and section.gamma == 1.0
    if name not in ("grpo", "rloo", "reinforce", "reinforce_plus_plus_baseline"):
        return False
    if method == "mean":
        return True
    return (name == "grpo" and section.normalize_by_std) or (name == "reinforce_plus_plus_baseline" and whitened)


ALGORITHM_RULES = (advantage, whitening, loss, rewards)
