"""Rules of the filter section; ``validate.py`` asks them with all others."""

from __future__ import annotations

from collections.abc import Iterator

from ragen_jax.config.schema import Config, FilterSection
from ragen_jax.config.without_effect import without_effect
from ragen_jax.registry import unknown_name

MASS_RULES = ("top_p", "reverse_top_p")


def filter_problems(config: Config) -> Iterator[str]:
    """Sentences about filter settings that cannot work or would not do what they say."""
    from ragen_jax.core.filters import FILTERS
    from ragen_jax.core.scores import SCORES

    section = config.filter
    if section.rule not in FILTERS:
        yield f"filter.rule: {unknown_name('filter', section.rule, FILTERS)}"
        return
    if section.score not in SCORES:
        yield f"filter.score: {unknown_name('score', section.score, SCORES)}"
        return
    yield from _value(config)
    yield from _without_rule(config)
    yield from _mass(config)
    yield from _loss_scale(config)
    yield from _score(config)
    yield from _refill(section)
    yield from _rollouts(config)


def _value(config: Config) -> Iterator[str]:
    rule, value, prompts = config.filter.rule, config.filter.value, config.rollout.prompts
    if rule in (*MASS_RULES, "top_k", "min_p") and not 0 < value <= 1:
        meaning = "the share of the total score kept" if rule in MASS_RULES else "a share"
        yield f"filter.value={value} with filter.rule={rule} is {meaning}; use a number above 0 and at most 1"
    if rule == "top_k_count" and not (float(value).is_integer() and 1 <= value <= prompts):
        yield f"filter.value={value} with filter.rule=top_k_count counts prompts; use 1 to rollout.prompts={prompts}"
    if rule == "quartile" and (value not in (1, 2, 3, 4) or prompts < 4):
        yield (
            f"filter.value={value} with filter.rule=quartile and rollout.prompts={prompts}: use 1 (largest scores) to "
            "4, and at least 4 prompts"
        )


def _without_rule(config: Config) -> Iterator[str]:
    """What rules that rank nothing do not read."""
    rule = config.filter.rule
    other = f"filter.rule={rule}"
    if rule in ("none", "nonzero"):
        fix = "name a rule that ranks, for example filter.rule=top_p"
        yield from without_effect(config, ("filter.value", "filter.score"), other, fix=fix)
    if rule in ("none", "nonzero", "quartile"):
        yield from without_effect(config, ("filter.include_zero",), other)
    if rule == "none":
        unread = ("filter.max_attempts", "filter.when_empty", "filter.loss_scale")
        fix = "name a rule (the preset no_filter resets the whole section)"
        yield from without_effect(config, unread, f"{other}, which keeps every prompt", fix=fix)


def _mass(config: Config) -> Iterator[str]:
    section = config.filter
    other = f"filter.rule={section.rule}"
    if section.rule != "top_p":
        yield from without_effect(config, ("filter.mass",), other, fix="use filter.rule=top_p")
    if section.mass != "linear" and section.slack > 0:
        yield (
            f"filter.slack={section.slack} is in units of the score, which filter.mass={section.mass} does not add up; "
            "use filter.slack=0"
        )
    if section.rule not in MASS_RULES:
        yield from without_effect(config, ("filter.slack",), other)


def _loss_scale(config: Config) -> Iterator[str]:
    section = config.filter
    if section.loss_scale == "rho" and section.rule not in (*MASS_RULES, "none"):
        yield (
            f"filter.loss_scale=rho is the kept mass of {' or '.join(MASS_RULES)}, filter.rule={section.rule} has "
            "none; use filter.loss_scale=linear (the kept ratio) or none"
        )
    if section.loss_scale == "none":
        yield from without_effect(config, ("filter.loss_scale_target",), "filter.loss_scale=none", fix="choose a scale")


def _score(config: Config) -> Iterator[str]:
    from ragen_jax.core.filters import needs_non_negative
    from ragen_jax.core.scores import SCORES

    section = config.filter
    score = SCORES[section.score]
    counted = section.count_penalty and (config.rollout.format_penalty < 0 or config.reward.overlong_buffer > 0)
    if not score.non_negative and counted and needs_non_negative(section.rule, section.mass):
        yield (
            f"filter.score={section.score} falls below 0 with a penalty (filter.count_penalty=True, "
            f"rollout.format_penalty={config.rollout.format_penalty}), and filter.rule={section.rule} reads scores as "
            "mass; use filter.rule=top_k, or filter.count_penalty=False where the environment pays nothing below 0"
        )
    if score.needs == "replays":
        yield from _replays(config)
    else:
        fix = "use filter.score=replayed_variance"
        yield from without_effect(config, ("filter.replays",), f"filter.score={section.score}", fix=fix)


def _replays(config: Config) -> Iterator[str]:
    from ragen_jax.envs import ENVS, env_config
    from ragen_jax.envs.base import TextEnv

    name, score = config.env.name, config.filter.score
    if name not in ENVS:
        return  # said by the rule about environments
    if ENVS[name].replay is TextEnv.replay:
        yield (
            f"filter.score={score} with env.name={name}: it offers no replays (its rewards have no noise to average, "
            "or its dynamics are out of reach); use filter.score=reward_variance"
        )
        return
    try:
        turns = env_config(name, **config.env.options).max_turns
    except ValueError:
        return  # said by the rule about environments
    if turns > 1:
        yield (
            f"filter.score={score} with env.max_turns={turns}: later answers react to what has happened, so a stored "
            "plan of several turns cannot be replayed; use env.max_turns=1 or filter.score=reward_variance"
        )


def _refill(section: FilterSection) -> Iterator[str]:
    """Dynamic sampling."""
    if section.refill and section.rule != "nonzero":
        yield (
            f"filter.refill=True with filter.rule={section.rule}: groups are gathered from several batches, so the "
            "rule must judge each group by itself; use filter.rule=nonzero"
        )
    if section.refill and section.max_attempts < 2:
        yield (
            f"filter.refill=True has no effect with filter.max_attempts={section.max_attempts}; allow 2 or more batches"
        )


def _rollouts(config: Config) -> Iterator[str]:
    section, group = config.filter, config.rollout.group_size
    if section.rule != "none" and group < 2:
        yield (
            f"rollout.group_size={group} with filter.rule={section.rule}: a variance needs at least 2 rollouts per "
            "prompt"
        )
    if section.best_and_worst and 2 * section.best_and_worst >= group:
        yield (
            f"filter.best_and_worst={section.best_and_worst} keeps {2 * section.best_and_worst} of "
            f"rollout.group_size={group} rollouts; use less than half of the group, or 0 for all"
        )
