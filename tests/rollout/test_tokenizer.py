"""Ids, bytes and the chat template."""

from __future__ import annotations

import datetime
import json
import shutil
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers
from transformers.utils import chat_template_utils

from experiments import build_tokenizer
from ragen_jax.rollout.tokenizer import TINY_FOLDER, Tokenizer

TAGS = ("<think>", "</think>", "<answer>", "</answer>", "<|im_start|>", "<|im_end|>", "<|endoftext|>")


def write_folder(folder: Path, backend: Backend, **settings: object) -> Path:
    folder.mkdir(exist_ok=True)
    backend.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False} | settings
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def byte_backend(*, merges: tuple[tuple[str, str], ...] = ()) -> Backend:
    """A byte-level tokenizer whose ids are the bytes' characters in order, then the merges."""
    vocabulary = {character: i for i, character in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    for left, right in merges:
        vocabulary[left + right] = len(vocabulary)
    backend = Backend(models.BPE(vocab=vocabulary, merges=list(merges)))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(["<end>", "<pad>"])
    return backend


TEMPLATE = (
    "{% for m in messages %}{{ m['role'] + ':' + m['content'] + '<end>' }}{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)


@settings(max_examples=25, deadline=None)
@given(st.text(max_size=200))
def test_any_text_survives(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert all(0 <= token < tokenizer.vocab_size for token in ids)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.one_of(st.text(max_size=20), st.sampled_from(TAGS)), max_size=8).map("".join))
def test_bytes_of_the_tokens_are_the_bytes_of_the_text(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert b"".join(map(tokenizer.token_bytes, ids)) == text.encode()
    ends = list(tokenizer.byte_ends(ids))
    assert ends == sorted(ends)
    assert ends[-1:] == [len(text.encode())][: len(ids)]


def test_tags_are_single_ids_and_digits_stand_alone(tokenizer: Tokenizer) -> None:
    assert all(len(tokenizer.encode(tag)) == 1 for tag in TAGS)
    assert [tokenizer.decode([i]) for i in tokenizer.encode("P 1 3 42")] == ["P", " 1", " 3", " 4", "2"]
    assert tokenizer.vocab_size == 512
    assert [tokenizer.decode([i]) for i in tokenizer.stop_ids] == ["<|im_end|>", "<|endoftext|>"]
    assert tokenizer.decode([tokenizer.pad_id]) == "<|endoftext|>"


def test_a_cut_character_is_shown_as_a_replacement(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("\N{SNOWMAN}")
    assert len(ids) > 1
    assert tokenizer.decode(ids[:-1]).strip("\N{REPLACEMENT CHARACTER}") == ""


@pytest.mark.parametrize("token", [-1, 512])
def test_ids_that_no_token_uses_are_refused(tokenizer: Tokenizer, token: int) -> None:
    with pytest.raises(ValueError, match=f"token id {token} is not in tokenizer 'tiny_tokenizer'"):
        tokenizer.token_bytes(token)


def test_template_has_the_qwen_shape_and_no_system_message_of_its_own(tokenizer: Tokenizer) -> None:
    text = tokenizer.render([{"role": "user", "content": "P 1 3"}], add_generation_prompt=True)
    assert text == "<|im_start|>user\nP 1 3<|im_end|>\n<|im_start|>assistant\n"


def test_vocabulary_counts_only_used_ids_and_stops_are_found(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "small", byte_backend(), chat_template=TEMPLATE, eos_token="<pad>")
    tokenizer = Tokenizer.from_folder(folder)
    assert tokenizer.vocab_size == 258
    assert [tokenizer.decode([i]) for i in tokenizer.stop_ids] == ["<end>", "<pad>"]
    assert tokenizer.pad_id == tokenizer.encode("<pad>")[0], "without a padding token the end of text serves"
    assert tokenizer.name == "small"


def test_a_reply_also_ends_where_the_generation_settings_say(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(TINY_FOLDER, tmp_path / "tiny"))
    plain = Tokenizer.tiny()
    settings = folder / "generation_config.json"
    settings.write_text(json.dumps({"eos_token_id": [7, plain.end_of_turn_id]}))
    assert set(Tokenizer.from_folder(folder).stop_ids) == {*plain.stop_ids, 7}
    settings.write_text(json.dumps({"eos_token_id": 9}))
    assert set(Tokenizer.from_folder(folder).stop_ids) == {*plain.stop_ids, 9}
    settings.write_text(json.dumps({"temperature": 0.7}))
    assert Tokenizer.from_folder(folder).stop_ids == plain.stop_ids
    for wrong, match in (("7", "eos_token_id='7' must be an id"), (10**6, "the ids .*1000000.* end a reply, but")):
        settings.write_text(json.dumps({"eos_token_id": wrong}))
        with pytest.raises(ValueError, match=match):
            Tokenizer.from_folder(folder)


def test_tokenizers_without_exact_bytes_are_refused(tmp_path: Path) -> None:
    backend = byte_backend()
    backend.decoder = decoders.Metaspace()
    folder = write_folder(tmp_path / "pieces", backend, chat_template=TEMPLATE)
    with pytest.raises(ValueError, match=r"'pieces' is not byte level.*Metaspace"):
        Tokenizer.from_folder(folder)


def test_holes_in_the_ids_are_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "holes", byte_backend(), chat_template=TEMPLATE)
    saved = json.loads((folder / "tokenizer.json").read_text())
    saved["model"]["vocab"]["A"] = 300
    (folder / "tokenizer.json").write_text(json.dumps(saved))
    with pytest.raises(ValueError, match=r"'holes' has \d+ tokens but none with id \d+"):
        Tokenizer.from_folder(folder)


def test_a_folder_without_tokenizer_or_template_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no tokenizer\.json"):
        Tokenizer.from_folder(tmp_path)
    with pytest.raises(ValueError, match="'bare' has no chat template"):
        Tokenizer.from_folder(write_folder(tmp_path / "bare", byte_backend()))
    endless = TEMPLATE.replace("<end>", "\n")
    with pytest.raises(ValueError, match="'endless' does not end a reply with an added token"):
        Tokenizer.from_folder(write_folder(tmp_path / "endless", byte_backend(), chat_template=endless))


DATED = (
    "{% if date_string is not defined %}{% set date_string = strftime_now('%d %b %Y') %}{% endif %}"
    "Today Date: {{ date_string }}<end>"
)


def test_what_a_template_prints_of_the_date_does_not_depend_on_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Clock(datetime.datetime):
        """A clock that shows one time after the other."""

        times: ClassVar = [datetime.datetime(2031, 1, 2, 3, 4), datetime.datetime(2032, 5, 6, 7, 8)]

        @classmethod
        def now(cls, tz: object = None) -> datetime.datetime:
            return cls.times[0]

    folder = write_folder(tmp_path / "dated", byte_backend(), chat_template=DATED + TEMPLATE)
    message = [{"role": "user", "content": "hi"}]
    monkeypatch.setattr(chat_template_utils, "datetime", Clock)
    tokenizer = Tokenizer.from_folder(folder)
    raw = tokenizer._backend.apply_chat_template(message, tokenize=False)
    assert raw == "Today Date: 02 Jan 2031<end>user:hi<end>"  # the clock of transformers is the one that is set here
    texts = [tokenizer.render(message, add_generation_prompt=False)]
    Clock.times.pop(0)
    texts += [each.render(message, add_generation_prompt=False) for each in (tokenizer, Tokenizer.from_folder(folder))]
    assert texts == ["Today Date: 26 Jul 2024<end>user:hi<end>"] * 3


@pytest.mark.parametrize("layout", ["%Y-%m-%d", "%-d %B %y", "%A, %d %b %Y %H:%M:%S", "%c | %x | %X | %j | %F"])
@pytest.mark.parametrize("opening", ["", "\n", "  ", "\n\n  {% if true %}\n  x\n{% endif %}"])
def test_a_date_is_printed_as_the_template_asks_and_nothing_else_changes(
    tmp_path: Path, opening: str, layout: str
) -> None:
    plain, dated = (
        Tokenizer.from_folder(write_folder(tmp_path / name, byte_backend(), chat_template=opening + head + TEMPLATE))
        for name, head in (
            ("plain", "{% set now = 'DAY' %}{{ now }}"),
            ("dated", f"{{% set now = strftime_now('{layout}') %}}{{{{ now }}}}"),
        )
    )
    message = [{"role": "user", "content": "hi"}]
    texts = [each.render(message, add_generation_prompt=True) for each in (plain, dated)]
    assert texts[0].replace("DAY", datetime.date(2024, 7, 26).strftime(layout)) == texts[1]


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{ raise_exception('Roles must alternate') }}", "Roles must alternate"),
        ("{% for m in messages %}{{ m['content'] }", "unexpected '}'"),
        ("{{ messages.missing.attribute }}", "no attribute 'missing'"),
        ("{{ messages[0]['content'] + 1 }}", "can only concatenate str"),
    ],
    ids=["raises", "does not parse", "reads what is not there", "adds a number to a text"],
)
def test_a_template_that_fails_is_refused_with_the_remedy(tmp_path: Path, template: str, reason: str) -> None:
    folder = write_folder(tmp_path / "stern", byte_backend(), chat_template=template)
    with pytest.raises(
        ValueError, match=r"chat template of tokenizer 'stern' fails .*model\.chat_template=chatml"
    ) as caught:
        Tokenizer.from_folder(folder)
    assert reason in str(caught.value) and "\n" not in str(caught.value)


JSON_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "generation_config.json")


@pytest.mark.parametrize("name", [*JSON_FILES, "added_tokens.json", "chat_template.jinja"])
def test_a_broken_file_is_named(tmp_path: Path, name: str) -> None:
    folder = write_folder(tmp_path / "cut", byte_backend(), chat_template=TEMPLATE)
    whole = (folder / name).read_bytes() if (folder / name).is_file() else b'{"eos_token": "<end>"}'
    wrong = {"cut": whole[: len(whole) // 2], "of other bytes": b"\xff", "a list": b"[]"}
    for kind, content in wrong.items() if name != "chat_template.jinja" else [("of other bytes", b"\xff")]:
        (folder / name).write_bytes(content)
        with pytest.raises(ValueError) as caught:
            Tokenizer.from_folder(folder)
        assert str(folder / name) in str(caught.value), kind


@pytest.mark.parametrize(
    ("name", "content"), [("tokenizer.json", "{}"), ("tokenizer_config.json", '{"added_tokens_decoder": 3}')]
)
def test_a_file_of_other_content_is_named(tmp_path: Path, name: str, content: str) -> None:
    folder = write_folder(tmp_path / "odd", byte_backend(), chat_template=TEMPLATE)
    (folder / name).write_text(content)
    with pytest.raises(ValueError, match=rf"{folder}.*{name.replace('.', '[.]')}.*again"):
        Tokenizer.from_folder(folder)


def test_rebuilding_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        build_tokenizer.build(tmp_path / name, seeds=3, vocabulary=320)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    small = Tokenizer.from_folder(tmp_path / "one")
    assert small.vocab_size == 320
    assert small.decode(small.encode("<think>me 1 3</think>")) == "<think>me 1 3</think>"
    committed = (TINY_FOLDER / "tokenizer_config.json").read_bytes()
    assert (tmp_path / "one" / "tokenizer_config.json").read_bytes() == committed


def test_prompts_and_demonstrations_of_tiny_policies_are_short(tokenizer: Tokenizer) -> None:
    name, overrides = build_tokenizer.SOURCES[0]
    prompts, demonstrations = build_tokenizer.count_tokens(tokenizer, name, overrides, seeds=30)
    assert max(prompts) <= 60
    assert max(demonstrations) <= 32
