"""Rules of the filter section; ``validate.py`` asks them with all others."""

from __future__ import annotations

from collections.abc import Iterator

from ragen_jax.config.schema import Config, FilterSection
from ragen_jax.registry import unknown_name

MASS_RULES = ("top_p", "reverse_top_p")
_DEFAULT = FilterSection()


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
    yield from _without_rule(section)
    yield from _mass(section)
    yield from _loss_scale(section)
    yield from _score(config)
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


def _without_rule(section: FilterSection) -> Iterator[str]:
    """What rules that rank nothing do not read."""
    rule = section.rule
    if rule in ("none", "nonzero"):
        for name in ("value", "score"):
            if getattr(section, name) != getattr(_DEFAULT, name):
                yield (
                    f"filter.{name}={getattr(section, name)} has no effect with filter.rule={rule}; name a rule that "
                    "ranks, for example filter.rule=top_p"
                )
    if section.include_zero and rule in ("none", "nonzero", "quartile"):
        yield f"filter.include_zero=True has no effect with filter.rule={rule}; use filter.include_zero=False"
    if rule == "none" and (section.max_attempts > 1 or section.when_empty != "skip"):
        yield (
            f"filter.max_attempts={section.max_attempts} and filter.when_empty={section.when_empty} have no effect "
            "with filter.rule=none, which keeps every prompt; name a rule, for example filter.rule=top_p"
        )


def _mass(section: FilterSection) -> Iterator[str]:
    rule, mass = section.rule, section.mass
    if mass != "linear" and rule != "top_p":
        yield f"filter.mass={mass} has no effect with filter.rule={rule}; use filter.rule=top_p or filter.mass=linear"
    if mass != "linear" and section.slack > 0:
        yield (
            f"filter.slack={section.slack} is in units of the score, which filter.mass={mass} does not add up; use "
            "filter.slack=0"
        )
    if section.slack > 0 and rule not in MASS_RULES:
        yield f"filter.slack={section.slack} has no effect with filter.rule={rule}; use filter.slack=0"


def _loss_scale(section: FilterSection) -> Iterator[str]:
    if section.loss_scale != "none" and section.rule == "none":
        yield (
            f"filter.loss_scale={section.loss_scale} has no effect with filter.rule=none; use filter.loss_scale=none "
            "(the preset no_filter resets the whole section)"
        )
    if section.loss_scale == "rho" and section.rule not in (*MASS_RULES, "none"):
        yield (
            f"filter.loss_scale=rho is the kept mass of {' or '.join(MASS_RULES)}, filter.rule={section.rule} has "
            "none; use filter.loss_scale=linear (the kept ratio) or none"
        )
    if section.loss_scale == "none" and section.loss_scale_target != _DEFAULT.loss_scale_target:
        yield (
            f"filter.loss_scale_target={section.loss_scale_target} has no effect with filter.loss_scale=none; choose a "
            "scale or leave the target out"
        )


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
    elif section.replays != _DEFAULT.replays:
        yield (
            f"filter.replays={section.replays} has no effect with filter.score={section.score}; use "
            "filter.score=replayed_variance"
        )


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
