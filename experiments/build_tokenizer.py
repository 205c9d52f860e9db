"""Learn the tokenizer of the tiny policies from the text of our environments.

    python -m experiments.build_tokenizer                    # writes ragen_jax/assets/tiny_tokenizer
    python -m experiments.build_tokenizer folder=out seeds=20

Byte-level BPE: any text can be written, and our own text in few tokens. Digits stand alone, so that coordinates and
sums look the same everywhere; words take their leading space along. Same environments, same seeds: same bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from experiments._main import run_main
from experiments._options import read_options, whole_number
from ragen_jax import envs
from ragen_jax.rollout.prompting import ChatFormat, UserMessages
from ragen_jax.rollout.tokenizer import TINY_FOLDER
from ragen_jax.rollout.tokenizer import Tokenizer as ChatTokenizer

CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TAGS = ("<think>", "</think>", "<answer>", "</answer>")
FEWEST = 256 + len(CONTROL) + len(TAGS)  # every byte, and the tokens that stand for themselves
OPTIONS = {
    "folder": "where to write (default: the tokenizer that ships with the package)",
    "seeds": "instances per environment and format (default 200)",
    "vocabulary": f"ids in all, {FEWEST} or more (default 512)",
}
PIECES = r" ?\p{L}+| ?\p{N}| ?[^\s\p{L}\p{N}]|\s+(?!\S)|\s"
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
COMPACT: dict[str, object] = {"instructions": "terse", "observation_format": "compact", "action_separator": " "}
COUNTDOWN_COMPACT: dict[str, object] = {
    "instructions": "terse",
    "observation_format": "compact",
    "numbers_min": 3,
    "numbers_max": 3,
    "max_number": 9,
    "max_target": 60,
    "unsolvable_share": 0.5,
}
SOURCES: tuple[tuple[str, dict[str, object]], ...] = (
    ("frozen_lake", COMPACT | {"locked_share": 0.75, "max_turns": 1, "max_actions_per_turn": 10}),
    ("frozen_lake", COMPACT | {"max_turns": 3}),
    ("frozen_lake", {"observation_format": "grid_coord"}),
    ("sokoban", COMPACT | {"max_turns": 1, "max_actions_per_turn": 4, "max_solution_len": 4, "unsolvable_share": 0.5}),
    ("sokoban", {"observation_format": "grid_coord"}),
    ("countdown", COUNTDOWN_COMPACT),
    ("countdown", {}),
    ("bandit", {"instructions": "terse"}),
    ("bandit", {}),
)


def main(argv: Sequence[str]) -> None:
    """Build, save, and print how many tokens our prompts and demonstrations take."""
    given = read_options(argv, options=OPTIONS, doc=__doc__)
    folder = Path(given["folder"]) if "folder" in given else TINY_FOLDER
    seeds = whole_number(given, "seeds", default=200, least=1)
    build(folder, seeds=seeds, vocabulary=whole_number(given, "vocabulary", default=512, least=FEWEST))
    print(f"{'environment':<14}{'format':<14}{'prompt tokens':>20}{'demonstration tokens':>24}")
    tokenizer = ChatTokenizer.from_folder(folder)
    for name, overrides in SOURCES:
        prompts, demonstrations = count_tokens(tokenizer, name, overrides, seeds=50)
        kind = f"{overrides.get('instructions', 'full')} {overrides.get('max_turns', '')}".strip()
        print(f"{name:<14}{kind:<14}{spread(prompts):>20}{spread(demonstrations):>24}")


def build(folder: Path, *, seeds: int, vocabulary: int) -> None:
    """Learn the merges and write ``tokenizer.json`` and ``tokenizer_config.json``."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - len(CONTROL) - len(TAGS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus(seeds), trainer)
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in CONTROL])
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in TAGS])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(tokenizer.to_str(pretty=True) + "\n", encoding="utf-8")
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def corpus(seeds: int) -> Iterator[str]:
    """Text between added tokens, as the tokenizer will meet it; instructions once, lest they outweigh the rest."""
    markers = re.compile("|".join(re.escape(token) for token in CONTROL + TAGS))
    for name, overrides in SOURCES:
        told: set[str] = set()
        for (instructions, shown), reply in conversations(name, overrides, seeds=seeds):
            chat = f"<|im_start|>user\n{shown}<|im_end|>\n<|im_start|>assistant\n{reply}<|im_end|>\n"
            if instructions not in told:
                chat = f"<|im_start|>system\n{instructions}<|im_end|>\n" + chat
                told.add(instructions)
            yield from (piece for piece in markers.split(chat) if piece)


def conversations(name: str, overrides: dict[str, object], *, seeds: int) -> Iterator[tuple[tuple[str, str], str]]:
    """((instructions, first observation), demonstrated reply) of many instances."""
    for seed in range(seeds):
        env = envs.make_env(name, split="all", **overrides)
        messages = UserMessages(env.config, max_turns=env.config.max_turns, show_rewards=False)
        shown = messages.first(env.reset(seed))
        demonstration = env.demonstrate(np.random.default_rng(seed), skill=0.5)
        reply = f"<think>{demonstration.reasoning}</think><answer>{demonstration.answer}</answer>"
        yield (env.instructions(), shown), reply


def count_tokens(
    tokenizer: ChatTokenizer, name: str, overrides: dict[str, object], *, seeds: int
) -> tuple[list[int], list[int]]:
    """Tokens of each first prompt and of each demonstration with its end marker, without the think marker."""
    chat = ChatFormat(tokenizer)
    prompts, demonstrations = [], []
    for (instructions, shown), reply in conversations(name, overrides, seeds=seeds):
        prompts.append(len(chat.first_prompt(instructions, shown)))
        demonstrations.append(len(tokenizer.encode(reply.removeprefix("<think>"))) + 1)
    return prompts, demonstrations


def spread(counts: list[int]) -> str:
    """Mean and largest."""
    return f"mean {np.mean(counts):.1f} max {max(counts)}"


if __name__ == "__main__":
    run_main(main)
