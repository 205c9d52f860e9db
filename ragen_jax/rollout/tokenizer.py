"""Text to ids and back, with the exact bytes of every id."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ragen_jax.files import read_json_object

Message = dict[str, str]
"""A chat message: ``role`` and ``content``."""

# Templates to use in the place of a tokenizer's own, where that one rewrites earlier replies. ChatML is the format of
# the Qwen family.
CHAT_TEMPLATES = {
    "chatml": (
        "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
        "{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
}

# Today, for templates that print it. With the clock, a run would meet other prompts after midnight, and so would its
# evaluation and the next arm of an experiment. Templates of Llama 3 print this day where they are given no clock.
TEMPLATE_DATE = datetime.date(2024, 7, 26)

_JSON_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")

TINY_FOLDER = Path(__file__).parent.parent / "assets" / "tiny_tokenizer"


class Tokenizer:
    """A byte-level BPE tokenizer with a chat template, loaded from a local folder.

    Attributes:
      name: name of the folder, for messages.
      vocab_size: number of ids that some token uses. A network may have more rows; they are never sampled or scored.
      end_of_turn_id: the id that the chat template writes behind a reply.
      stop_ids: ids that end a reply: end of turn, end of text, the other ends that ``generation_config.json`` names
        (a Llama 3 folder has three), padding (nothing sensible follows it).
      pad_id: fills unused slots. It may equal an end id, so masks come from lengths, never from this id.
    """

    def __init__(self, backend: Any, *, name: str, ends: Sequence[int] = ()) -> None:
        """Wrap a transformers ``PreTrainedTokenizerFast``; ``from_folder`` is the usual way in.

        Args:
          backend: the tokenizer of transformers.
          name: for messages.
          ends: further ids that end a reply.

        Raises:
          ValueError: when the tokenizer is not byte level, has holes in its ids, or has no usable chat template.
        """
        self.name = name
        self._backend = backend
        added = {int(i): str(token) for i, token in backend.added_tokens_decoder.items()}
        self._bytes = _byte_table(backend, added, name)
        self.vocab_size = len(self._bytes)
        self._added = frozenset(added)
        self.end_of_turn_id = self._find_end_of_turn()
        stops = (self.end_of_turn_id, backend.eos_token_id, *ends, backend.pad_token_id)
        self.stop_ids = tuple(dict.fromkeys(i for i in stops if i is not None))
        if not all(0 <= i < self.vocab_size for i in self.stop_ids):
            raise ValueError(
                f"{name}: the ids {self.stop_ids} end a reply, but the tokens are 0 to {self.vocab_size - 1}"
            )
        self.pad_id: int = next(
            i for i in (backend.pad_token_id, backend.eos_token_id, self.end_of_turn_id) if i is not None
        )

    @classmethod
    def from_folder(cls, path: str | Path, *, chat_template: str = "") -> Tokenizer:
        """Load ``tokenizer.json``, ``tokenizer_config.json`` and the chat template of a local folder.

        Args:
          path: the folder.
          chat_template: a key of ``CHAT_TEMPLATES``, used in the place of the folder's own; "" = its own.

        Raises:
          ValueError: when the folder has no ``tokenizer.json`` or a file that cannot be read, or see the constructor.
        """
        folder = Path(path)
        if not (folder / "tokenizer.json").is_file():
            raise ValueError(f"{folder} has no tokenizer.json: give the folder of a Hugging Face fast tokenizer")
        _check_files(folder)
        # Imported here because it is slow; without torch it prints advice that nobody here can use.
        os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
        from transformers import PreTrainedTokenizerFast

        try:
            backend = PreTrainedTokenizerFast.from_pretrained(str(folder), local_files_only=True)
        except Exception as error:
            # For content that makes no tokenizer, tokenizers raises the bare class, transformers what its reading met.
            if type(error) is not Exception and not isinstance(error, _CONTENT_ERRORS):
                raise
            raise ValueError(
                f"{folder}: tokenizer.json and tokenizer_config.json make no tokenizer ({_one_line(error)}): download "
                "both again"
            ) from error
        if chat_template:
            backend.chat_template = CHAT_TEMPLATES[chat_template]
        return cls(backend, name=folder.resolve().name, ends=_ends(folder / "generation_config.json"))

    @classmethod
    def tiny(cls) -> Tokenizer:
        """The packaged tokenizer for tiny policies, learned from the text of our environments."""
        return cls.from_folder(TINY_FOLDER)

    def encode(self, text: str) -> list[int]:
        """Ids of a text. Special tokens in it are recognised; none is added."""
        ids: list[int] = self._backend.encode(text, add_special_tokens=False)
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """Text of ids, special tokens included. Bytes that are not UTF-8 (a cut character) become U+FFFD."""
        return b"".join(self.token_bytes(i) for i in ids).decode("utf-8", errors="replace")

    def token_bytes(self, token: int) -> bytes:
        """The bytes that an id stands for.

        Raises:
          ValueError: for an id that no token uses.
        """
        if not 0 <= token < self.vocab_size:
            raise ValueError(
                f"token id {token} is not in tokenizer {self.name!r}, which uses 0 to {self.vocab_size - 1}"
            )
        return self._bytes[token]

    def byte_ends(self, ids: Sequence[int]) -> Iterator[int]:
        """For each id, the offset of the byte behind its last one."""
        end = 0
        for token in ids:
            end += len(self.token_bytes(token))
            yield end

    def render(self, messages: Sequence[Message], *, add_generation_prompt: bool) -> str:
        """Text of a conversation by the chat template, with the opening of the next reply if asked for.

        A template that asks for today's date is given ``TEMPLATE_DATE``.

        Raises:
          ValueError: the template does not parse, or it fails (some refuse a system message).
        """
        from jinja2 import TemplateError

        try:
            text: str = self._backend.apply_chat_template(
                list(messages),
                tokenize=False,
                add_generation_prompt=add_generation_prompt,
                chat_template=_dated(self._backend.get_chat_template()),
            )
        except (TemplateError, *_CONTENT_ERRORS) as error:
            raise ValueError(
                f"the chat template of tokenizer {self.name!r} fails ({_one_line(error)}): use another one, such as "
                "model.chat_template=chatml for the Qwen family, or mend the template in its folder"
            ) from error
        return text

    def _find_end_of_turn(self) -> int:
        if not self._backend.chat_template:
            raise ValueError(f"tokenizer {self.name!r} has no chat template: add chat_template.jinja to its folder")
        reply = "reply"
        question: Message = {"role": "user", "content": "question"}
        text = self.render([question, {"role": "assistant", "content": reply}], add_generation_prompt=False)
        behind = self.encode(text.rpartition(reply)[2].lstrip())
        if not behind or behind[0] not in self._added:
            raise ValueError(
                f"the chat template of tokenizer {self.name!r} does not end a reply with an added token: "
                "sampling could not stop there; use a template that does"
            )
        return behind[0]


# What code meets in a file that is read without a fault and holds something else than expected.
_CONTENT_ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _dated(template: str) -> str:
    """The template with ``strftime_now`` as a macro that formats ``TEMPLATE_DATE``, where it asks for it.

    transformers gives templates its own function of that name, and plain data only of what a caller passes.
    """
    if "strftime_now" not in template:
        return template
    codes = [*(f"%{letter}" for letter in "aAwdbBmyYHIMSfpjUWcxXeF"), *(f"%-{letter}" for letter in "dmyHIMSj")]
    filled = "".join(f" | replace('{code}', '{TEMPLATE_DATE.strftime(code)}')" for code in codes)
    # The line break behind the macro is no part of the text: chat templates are read with trim_blocks.
    return f"{{% macro strftime_now(format) %}}{{{{ format{filled} }}}}{{% endmacro %}}\n{template}"


def _check_files(folder: Path) -> None:
    """Refuse files that are cut or no text, by name; the libraries that read them do not say which one it was."""
    for name in _JSON_FILES:
        if (folder / name).is_file():
            read_json_object(folder / name)
    template = folder / "chat_template.jinja"
    if template.is_file():
        try:
            template.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{template} is no text in UTF-8 ({error}): download or write it again") from error


def _ends(path: Path) -> list[int]:
    """The ends that a ``generation_config.json`` names; none without the file."""
    value = read_json_object(path).get("eos_token_id") if path.is_file() else None
    ends = [] if value is None else value if isinstance(value, list) else [value]
    if not all(type(end) is int for end in ends):
        raise ValueError(f"{path}: eos_token_id={value!r} must be an id or a list of ids")
    return ends


def _byte_table(backend: Any, added: dict[int, str], name: str) -> list[bytes]:
    """Bytes of every id. Byte-level BPE spells each byte as one printable character; added tokens are plain text."""
    decoder = json.loads(backend.backend_tokenizer.to_str())["decoder"] or {}
    parts = decoder.get("decoders", [decoder])
    kinds = [part.get("type") for part in parts]
    if kinds != ["ByteLevel"]:
        raise ValueError(
            f"tokenizer {name!r} is not byte level (its decoder is {kinds}): its tokens have no exact bytes; "
            "use a byte-level BPE tokenizer such as those of Qwen or Llama 3"
        )
    tokens = {i: token for token, i in backend.get_vocab().items()}
    missing = next((i for i in range(len(tokens)) if i not in tokens), None)
    if missing is not None:
        raise ValueError(
            f"tokenizer {name!r} has {len(tokens)} tokens but none with id {missing}: ids must have no holes"
        )
    byte_of = _byte_characters()
    return [
        added[i].encode() if i in added else bytes(byte_of[character] for character in tokens[i])
        for i in range(len(tokens))
    ]


def _byte_characters() -> dict[str, int]:
    """The alphabet of byte-level BPE: printable Latin-1 bytes stand for themselves, the others for U+0100 and up."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + n): byte for n, byte in enumerate(others)}
