"""The WebShop environment: episode, instructions and demonstrations."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from ragen_jax.envs.base import Demonstration, Ending, Observation, StepResult, TextEnv
from ragen_jax.envs.data_source import DataSource
from ragen_jax.envs.instances import draw_instance
from ragen_jax.envs.webshop import shopper
from ragen_jax.envs.webshop.config import WebShopConfig
from ragen_jax.envs.webshop.goals import Goal
from ragen_jax.envs.webshop.pages import DonePage, Page, ResultsPage, SearchPage, at_dead_end, text_of
from ragen_jax.envs.webshop.score import Score, score
from ragen_jax.envs.webshop.shop import Shop, open_shop

SEARCH, CLICK = "search", "click"
_SEARCH_FORM = f"{SEARCH}[words]"
_NOT_HERE = "That is no action of this page.\n"


@lru_cache(maxsize=4096)
def goal_of_seed(shop: Shop, config: WebShopConfig, seed: int) -> Goal:
    """The goal of a seed, inside the split of the config. Cached, since all members of a group share it.

    The split is decided by the family of the product, so no product that is wanted in one split meets a request of the
    other in full. Products are equally likely, then their combinations of options.

    Raises:
      ValueError: no product with a request lies in the split.
    """
    return draw_instance(
        lambda rng: shop.requests[rng.integers(len(shop.requests))].draw(rng),
        lambda goal: shop.families[goal.wanted.product.asin],
        seed=seed,
        split=config.split,
        validation_percent=config.validation_percent,
        rows=len(shop.requests),
    )


class WebShop(TextEnv):
    """Search a shop for a product that meets a request, choose its options and buy it; the dynamics have no noise.

    Buying ends the episode. Its reward is 1 for a full match, else 0, or the score itself (``reward``). An answer
    is one action; one that the page does not offer changes nothing and takes no action of the budget, only a turn.

    ``info`` has, beside the common entries (effective: another page or another choice is shown): ``actions_taken``,
    ``end_of_page`` (nothing but the way back can be clicked); and at the end of the episode ``purchased``, ``score``
    (0 without a purchase) and, of a purchase, ``type_factor``, ``price_ok``, ``attribute_share`` and ``option_share``
    (each left out where none was wanted).
    """

    name: ClassVar[str] = "webshop"
    Config: ClassVar[type[WebShopConfig]] = WebShopConfig

    def __init__(self, config: WebShopConfig) -> None:
        """Open the shop, which all environments of a process share; the episode still has to be begun.

        Raises:
          ValueError: the files of the shop are missing or malformed, or a request needs more turns or actions than an
            episode has.
        """
        self.config: WebShopConfig = config
        self.shop = open_shop(config)
        self._check_budget()
        self._goal: Goal | None = None
        self._done = True

    def reset(self, seed: int, member: int = 0) -> Observation:
        """Begin with the request of ``seed``; without noise all members are alike."""
        self._goal = goal_of_seed(self.shop, self.config, seed)
        self._page: Page = SearchPage(self._goal.text, show_attributes=self.config.show_attributes)
        self._turns = self._actions = 0
        self._done = False
        return self._observe()

    def step(self, answer: str) -> StepResult:
        """Do one action; see ``TextEnv.step``."""
        if self._done:
            raise RuntimeError("the episode is over or was never begun: call reset")
        config = self.config
        before = self._page
        action = normal_action(answer)
        after = self._follow(action)
        valid = after is not None
        self._page = before if after is None else after
        self._turns += 1
        self._actions += valid
        bought = self._purchase()
        terminated = bought is not None
        truncated = not terminated and (self._turns >= config.max_turns or self._actions >= config.max_actions)
        self._done = terminated or truncated
        success = bought is not None and bought.full
        reward = 0.0
        if bought is not None:
            reward = float(success) if config.reward == "match" else bought.value
        info: dict[str, Any] = {
            "success": success,
            "action_is_valid": valid,
            "action_is_effective": self._page != before,
            "actions_taken": (action,) if valid else (),
            "end_of_page": at_dead_end(self._page),
        }
        if self._done:
            info |= _outcome(bought)
        observation = self._observe()
        if not valid:
            observation = Observation(_NOT_HERE + observation.text)
        return StepResult(observation, reward=reward, terminated=terminated, truncated=truncated, info=info)

    def finish(self) -> Ending:
        """Report the episode without a purchase; see ``TextEnv.finish``."""
        self._done = True
        return Ending(info=_outcome(None))

    def instructions(self) -> str:
        """Task description; the terse one is empty, tiny policies know the task from their warm start."""
        config = self.config
        if config.instructions == "terse":
            return ""
        pays = (
            "It pays 1 when kind of product, properties, options and price all fit, else 0."
            if config.reward == "match"
            else "It pays the share of properties, options and price that fit, less for another kind of product."
        )
        lines = [
            "You shop online for a customer. Find a product that fits the request, choose the options that the request "
            f"names, and buy it. Buying ends the task. {pays}",
            f"An answer is one action: {_SEARCH_FORM} on the page with the request, or {CLICK}[label] with a label "
            "that the page lists under Actions: a button, the code of a product, or the value of an option. Anything "
            "else does nothing.",
            f"Example: {SEARCH}[blue wool scarf], then {CLICK}[b0a1b2c3d4], {CLICK}[dark blue], {CLICK}[buy now]",
            "The texts of a page are separated by [SEP]. A product may say on its sub-pages what its title does not.",
            f"Limits: {config.max_turns} turns and {config.max_actions} actions in all.",
        ]
        if config.hints:
            lines += _HINTS
        return "\n".join(lines)

    def actions(self) -> tuple[str, ...]:
        """Actions that the page allows, as it lists them; ``search[words]`` stands for every search."""
        if isinstance(self._page, SearchPage):
            return (_SEARCH_FORM,)
        return tuple(f"{CLICK}[{label}]" for label in self._page.clicks())

    def canonical(self) -> str:
        """Product and request."""
        return self.goal.canonical()

    def demonstrate(self, rng: np.random.Generator, *, skill: float) -> Demonstration:
        """Name the request and the next action of a shopper who knows the product, or do anything the page allows."""
        reason, action = shopper.next_action(self.shop, self.goal, self._page)
        if rng.random() >= skill:
            reason, action = "maybe", shopper.any_action(self.goal, self._page, rng)
        return Demonstration(reasoning=shopper.reasoning(self.goal, reason, action, rng), answer=action)

    def data_source(self) -> DataSource:
        """The product file and the files of requests."""
        return self.shop.source

    @property
    def goal(self) -> Goal:
        """The goal of the running episode."""
        if self._goal is None:
            raise RuntimeError("no episode was begun: call reset")
        return self._goal

    @property
    def page(self) -> Page:
        """The page of the running episode."""
        return self._page

    def _check_budget(self) -> None:
        config, longest = self.config, self.shop.longest
        needed = longest.actions_needed
        if needed > min(config.max_turns, config.max_actions):
            raise ValueError(
                f"max_turns={config.max_turns}, max_actions={config.max_actions}: nobody could meet the request for "
                f"{longest.product.asin!r}, which takes {needed} actions (a search, the product, {needed - 3} options, "
                f"the purchase); use {needed} or more for both"
            )

    def _follow(self, action: str) -> Page | None:
        """The page that an action leads to; None when the page does not offer it."""
        name, _, label = action.removesuffix("]").partition("[")
        if isinstance(self._page, SearchPage):
            return ResultsPage(self._page, self.shop.search(label)) if name == SEARCH and label else None
        return self._page.clicks().get(label) if name == CLICK else None

    def _purchase(self) -> Score | None:
        if not isinstance(self._page, DonePage):
            return None
        return score(self.goal.wanted, self._page.product, dict(self._page.chosen))

    def _observe(self) -> Observation:
        lines = [text_of(self._page)]
        if not isinstance(self._page, DonePage):
            lines.append(f"Actions: {', '.join(self.actions())}")
        return Observation("\n".join(lines))


def normal_action(answer: str) -> str:
    """An answer as ``name[argument]`` in lower case without surplus blanks; "" when it does not have this form."""
    text = " ".join(answer.lower().split())
    name, bracket, rest = text.partition("[")
    if not bracket or not rest.endswith("]"):
        return ""
    return f"{name.strip()}[{rest[:-1].strip()}]"


def _outcome(bought: Score | None) -> dict[str, bool | float]:
    """Entries of ``info`` at the end of an episode."""
    if bought is None:
        return {"purchased": False, "score": 0.0}
    outcome = {
        "purchased": True,
        "score": bought.value,
        "type_factor": bought.type_factor,
        "price_ok": bought.price_ok,
    }
    if bought.attributes:
        outcome["attribute_share"] = bought.attribute_hits / bought.attributes
    if bought.options:
        outcome["option_share"] = bought.option_hits / bought.options
    return outcome


_HINTS = (
    "Search for what the product is and its properties; leave size and color to the product page.",
    "One or two searches are enough; open a product rather than look at many pages.",
    "Choose every option that the request names before you buy.",
    "When few actions are left, buy the best product seen so far.",
)
