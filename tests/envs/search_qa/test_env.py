"""The SearchQA environment: actions, rewards, errors, and what policies earn."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragen_jax.envs import env_config, make_env
from ragen_jax.envs.base import Observation, StepResult
from ragen_jax.envs.pool import EnvPool
from ragen_jax.envs.search_qa import RetrievalError, SearchQA
from ragen_jax.envs.search_qa.index import Bm25Index
from ragen_jax.envs.search_qa.server import RetrievalServer
from ragen_jax.envs.search_qa.world import make_world

pytest.importorskip("bm25s", reason="needs the extra 'search'")
pytest.importorskip("Stemmer", reason="needs the extra 'search'")


@pytest.fixture(autouse=True)
def _embedded_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of this machine must not take the place of the embedded rows."""
    monkeypatch.setenv("RAGEN_CACHE_DIR", str(tmp_path / "cache"))
    for variable in ("RAGEN_DATA_DIR", "RETRIEVAL_SERVER_URL"):
        monkeypatch.delenv(variable, raising=False)


def _env(**options: Any) -> SearchQA:
    env = make_env("search_qa", **options)
    assert isinstance(env, SearchQA)
    return env


def _ready(seed: int = 1, **options: Any) -> SearchQA:
    env = _env(**options)
    env.reset(seed)
    return env


def _file(
    tmp_path: Path, *passages: dict[str, Any], question: str = "Who?", answer: str = "Tal Orn", gold: str = ""
) -> dict[str, str]:
    """Files with one question, whose evidence is by default the first passage with a title."""
    files = {"questions_file": tmp_path / "q.jsonl", "corpus_file": tmp_path / "c.jsonl"}
    gold = gold or next((row["title"] for row in passages if row.get("title")), "0")
    files["questions_file"].write_text(json.dumps({"question": question, "answer": answer, "gold": [gold]}))
    files["corpus_file"].write_text("\n".join(json.dumps({"id": n, **row}) for n, row in enumerate(passages)))
    return {name: str(path) for name, path in files.items()}


# ----- actions


@pytest.mark.parametrize(
    "answer", ["search[heron]", "  search[ heron ]\n", "SEARCH[heron]", "search[heron] || x]", "search[[heron]]"]
)
def test_searches(answer: str) -> None:
    result = _ready().step(answer)
    assert result.info["action_is_valid"]
    assert result.info["actions_taken"] == ("search",)
    assert result.observation.text.startswith("Results for ")
    assert (result.reward, result.done) == (0.0, False)


@pytest.mark.parametrize(
    "answer",
    ["", " ", "search[]", "search[ ]", "finish[]", "search heron", "search[heron", "look[heron]", "search[a] finish",
     "I think finish[a]", "search[" + "x" * 301 + "]"],
)  # fmt: skip
def test_an_answer_that_is_no_action_changes_nothing(answer: str) -> None:
    env = _ready()
    result = env.step(answer)
    assert not result.info["action_is_valid"]
    assert not result.info["action_is_effective"]
    assert result.info["actions_taken"] == ()
    assert (result.reward, result.done) == (0.0, False)
    gold = env.question.answers[0]
    assert env.step(f"finish[{gold}]").info["success"]


@pytest.mark.parametrize(
    "answer",
    [
        "search[a] finish[b]",
        "search[a]\nsearch[b]",
        "finish[a] or finish[b]",
        "SEARCH[a]] and FINISH[b]",
        "finish[a]search[b]",
    ],
)
def test_two_actions_in_one_answer_are_none(answer: str) -> None:
    result = _ready().step(answer)
    assert not result.info["action_is_valid"]
    assert result.info["actions_taken"] == ()
    assert not result.done


def test_the_bare_answer_is_not_an_action() -> None:
    env = _ready()
    result = env.step(env.question.answers[0])
    assert not result.done
    assert not result.info["success"]


def test_free_text_can_be_scored_and_stays_invalid() -> None:
    env = _ready(free_text="score")
    result = env.step(f" {env.question.answers[0]} ")
    assert result.terminated
    assert result.reward == 1.0
    assert result.info["success"]
    assert not result.info["action_is_valid"]
    assert not _ready(free_text="score").step("  ").done


def test_a_repeated_search_is_valid_and_not_effective() -> None:
    env = _ready()
    assert env.step("search[guild]").info["action_is_effective"]
    assert not env.step("search[guild]").info["action_is_effective"]
    empty = env.step("search[unheardof]")
    assert "Nothing was found." in empty.observation.text
    assert empty.info["action_is_valid"]
    assert not empty.info["action_is_effective"]


@pytest.mark.parametrize("turn", ["search[guild]", "no action"])
def test_running_out_of_turns_truncates(turn: str) -> None:
    env = _ready(max_turns=2)
    assert not env.step(turn).done
    result = env.step(turn)
    assert result.truncated
    assert not result.terminated
    assert result.info["answered"] is False
    assert result.info["f1"] == 0.0
    assert result.info["searches"] == (2 if turn.startswith("search") else 0)
    with pytest.raises(RuntimeError, match="call reset"):
        env.step("finish[x]")


def test_running_out_of_actions_truncates_and_invalid_answers_do_not_count() -> None:
    env = _ready(max_actions=2, max_turns=5)
    assert not env.step("search[guild]").done
    assert not env.step("nonsense").done
    assert env.step("search[guild]").truncated


# ----- rewards


@pytest.mark.parametrize(
    ("answer", "reward", "success", "f1"),
    [
        ("tal orn.", {"exact": 1.0, "f1": 1.0}, True, 1.0),
        ("Tal", {"exact": 0.0, "f1": 2 / 3}, False, 2 / 3),
        ("Tal and many more people", {"exact": 0.0, "f1": 0.0}, False, 2 / 7),
        ("Nobody", {"exact": 0.0, "f1": 0.0}, False, 0.0),
        ("Tal Orn" + " x" * 29, {"exact": 0.0, "f1": 0.0}, False, 0.0),
    ],
)
@pytest.mark.parametrize("mode", ["exact", "f1"])
def test_rewards(tmp_path: Path, answer: str, reward: dict[str, float], success: bool, f1: float, mode: str) -> None:
    env = _ready(**_file(tmp_path, {"title": "T", "text": "x"}), split="all", reward=mode)
    result = env.step(f"finish[{answer}]")
    assert result.terminated
    assert result.reward == pytest.approx(reward[mode])
    assert result.info["success"] is success
    assert result.info["f1"] == pytest.approx(f1)
    assert result.info["answered"] is True


def test_a_search_costs_what_the_option_says_and_the_instructions_say_it() -> None:
    env = _ready(search_cost=0.05, reward="f1", f1_threshold=0.4)
    assert env.step("search[guild]").reward == -0.05
    assert env.step("nonsense").reward == 0.0
    assert env.step(f"finish[{env.question.answers[0]}]").reward == 1.0
    assert "Each search costs 0.05." in env.instructions()
    assert "at least 0.4" in env.instructions()
    assert "costs" not in _env().instructions()
    assert "F1" not in _env().instructions()


def test_gold_recall_is_the_share_of_the_evidence_that_was_shown() -> None:
    env = _ready()
    for searches, recall in ((0, 0.0), (1, 0.5), (2, 1.0)):
        env.reset(1)
        for hop in env.question.plan[:searches]:
            env.step(f"search[{hop.query}]")
        info = env.step("finish[x]").info
        assert info["gold_recall"] == recall
        assert info["searches"] == searches


def test_gold_recall_goes_by_title_too_and_is_left_out_when_unknown(tmp_path: Path) -> None:
    options = _file(tmp_path, {"title": "T", "text": "heron"}, {"title": "U", "text": "kettle"})
    for word, recall in (("heron", 1.0), ("kettle", 0.0)):
        env = _ready(**options, split="all")
        env.step(f"search[{word}]")
        assert env.step("finish[x]").info["gold_recall"] == recall
    Path(options["questions_file"]).write_text('{"question": "When?", "answer": "now"}')
    other = options | {"questions_file": str(Path(options["questions_file"]).rename(tmp_path / "q2.jsonl"))}
    assert "gold_recall" not in _ready(**other, split="all").step("finish[x]").info


# ----- observations


def test_passages_are_cut_to_their_lengths(tmp_path: Path) -> None:
    options = _file(tmp_path, *({"title": f"Heron {n}", "text": "wing " * 100} for n in range(4)))
    shown = _ready(**options, split="all", max_results=3, max_passage_chars=50).step("search[heron]").observation.text
    assert shown.count("wing") == 3 * 10
    assert shown.count("...") == 3
    assert "[3] Heron 2 (id 2, score " in shown
    assert "[4]" not in shown
    short = _ready(**options, split="all", max_total_chars=120).step("search[heron]").observation.text
    assert len(short) < 120 + 100


def test_a_passage_without_room_is_neither_shown_nor_counted(tmp_path: Path) -> None:
    options = _file(tmp_path, {"title": "U", "text": "heron " * 3}, {"title": "T", "text": "heron"}, gold="T")
    for room, recall in ((4000, 1.0), (20, 0.0)):
        env = _ready(**options, split="all", max_total_chars=room)
        result = env.step("search[heron]")
        assert ("] T (id 1" in result.observation.text) == bool(recall)
        assert env.step("finish[x]").info["gold_recall"] == recall


MARKERS = "<think> </think> <answer> </answer> <|im_end|> <|im_start|>"


def test_markers_in_a_corpus_a_question_or_a_query_are_data(tmp_path: Path) -> None:
    options = _file(
        tmp_path, {"title": f"Heron {MARKERS}", "text": f"{MARKERS} x\x00y \ud800"}, question=f"Who? {MARKERS}"
    )
    env = _env(**options, split="all")
    texts = [env.reset(0).text, env.step(f"search[heron {MARKERS}]").observation.text]
    env.reset(0)
    for skill in (0.0, 1.0):
        demonstration = env.demonstrate(np.random.default_rng(0), skill=skill)
        texts += [demonstration.reasoning, demonstration.answer]
    for text in texts:
        assert not any(marker in text for marker in MARKERS.split())
        text.encode("utf-8")
    assert "im_end" in texts[0]
    assert "im_start" in texts[1]


# ----- what policies earn

Policy = Callable[[SearchQA, Observation, np.random.Generator], str]


def _play(policy: Policy, *, episodes: int, **options: Any) -> list[StepResult]:
    env, rng, last = _env(**options), np.random.default_rng(0), []
    for seed in range(episodes):
        observation = env.reset(seed)
        while True:
            result = env.step(policy(env, observation, rng))
            observation = result.observation
            if result.done:
                break
        last.append(result)
    return last


def _searched(env: SearchQA, observation: Observation) -> bool:
    return not observation.text.startswith("Question")


def _random(env: SearchQA, observation: Observation, rng: np.random.Generator) -> str:
    words = observation.text.split()
    return f"{rng.choice(['search', 'finish'])}[{words[int(rng.integers(len(words)))]}]"


def _dump_names(env: SearchQA, observation: Observation, rng: np.random.Generator) -> str:
    if not _searched(env, observation):
        return f"search[{env.question.text}]"
    return f"finish[{' '.join(re.findall(r'[A-Z][a-z]+', observation.text)[:30])}]"


def _dump_passage(env: SearchQA, observation: Observation, rng: np.random.Generator) -> str:
    if not _searched(env, observation):
        return f"search[{env.question.text}]"
    return f"finish[{observation.text}]"


def _guess_a_title(env: SearchQA, observation: Observation, rng: np.random.Generator) -> str:
    if not _searched(env, observation):
        return f"search[{env.question.text}]"
    titles = re.findall(r"^\[\d+\] (.*) \(id", observation.text, re.MULTILINE)
    return f"finish[{titles[int(rng.integers(len(titles)))]}]"


@pytest.mark.parametrize("split", ["train", "validation"])
def test_the_oracle_succeeds_after_two_searches(split: str) -> None:
    results = _play(lambda env, _, rng: env.demonstrate(rng, skill=1.0).answer, episodes=200, split=split)
    assert all(result.info["success"] and result.reward == 1.0 for result in results)
    assert {result.info["searches"] for result in results} == {2}
    assert np.mean([result.info["gold_recall"] for result in results]) >= 0.9


def test_a_random_policy_hardly_ever_succeeds() -> None:
    assert np.mean([result.info["success"] for result in _play(_random, episodes=400)]) < 0.02


@pytest.mark.parametrize("reward", ["exact", "f1"])
@pytest.mark.parametrize("policy", [_dump_names, _dump_passage, _guess_a_title])
def test_dumping_what_was_found_earns_nothing(policy: Policy, reward: str) -> None:
    """One name out of five may share a word with the right one, which ``reward=f1`` pays on purpose; dumps earn 0."""
    results = _play(policy, episodes=200, reward=reward)
    assert np.mean([result.info["success"] for result in results]) == 0
    if policy is not _guess_a_title:
        assert sum(result.reward for result in results) == 0


def test_demonstrations_tell_what_the_passages_say() -> None:
    env, rng = _ready(), np.random.default_rng(0)
    first, second = env.question.plan
    assert first.query in env.demonstrate(rng, skill=1.0).reasoning
    env.step(f"search[{first.query}]")
    told = env.demonstrate(rng, skill=1.0)
    assert first.fact in told.reasoning
    assert told.answer == f"search[{second.query}]"
    env.step(told.answer)
    told = env.demonstrate(rng, skill=1.0)
    assert second.fact in told.reasoning
    assert told.answer == f"finish[{env.question.answers[0]}]"
    assert _ready(max_turns=1).demonstrate(rng, skill=1.0).answer.startswith("finish[")


def test_demonstrations_without_a_plan_search_once(tmp_path: Path) -> None:
    env = _ready(**_file(tmp_path, {"title": "T", "text": "who"}), split="all")
    rng = np.random.default_rng(0)
    assert env.demonstrate(rng, skill=1.0).answer == "search[Who?]"
    env.step("search[Who?]")
    assert env.demonstrate(rng, skill=1.0).answer == "finish[Tal Orn]"


def test_demonstrations_search_for_the_titles_of_the_evidence(tmp_path: Path) -> None:
    options = _file(tmp_path, {"title": "T", "text": "who"})
    row = {"question": "Which?", "answer": "x", "supporting_facts": [["Orvel Tower", 0], ["Tal Orn", 0]]}
    other = tmp_path / "hotpot.jsonl"
    other.write_text(json.dumps(row))
    env = _ready(**options | {"questions_file": str(other)}, split="all")
    rng, answers = np.random.default_rng(0), []
    for _ in range(3):
        demonstration = env.demonstrate(rng, skill=1.0)
        answers.append(demonstration.answer)
        env.step(demonstration.answer)
    assert answers == ["search[Orvel Tower]", "search[Tal Orn]", "finish[x]"]


@pytest.mark.parametrize(
    "title",
    ["x" * 400, "  padded \n", "<b>bold", "y" * 299 + " z" * 9, "a] finish[b", "two] search[three]", "</answer>"],
)
def test_demonstrations_are_valid_and_end_whatever_the_data_hold(tmp_path: Path, title: str) -> None:
    options = _file(tmp_path, {"title": title, "text": "who is it"})
    row = {"question": f"{title} Which?", "answer": "a] search[b", "supporting_facts": [[title, 0], ["Tal Orn", 0]]}
    (tmp_path / "hard.jsonl").write_text(json.dumps(row))
    env = _ready(**options | {"questions_file": str(tmp_path / "hard.jsonl")}, split="all")
    rng, results = np.random.default_rng(0), []
    while not (results and results[-1].done):
        results.append(env.step(env.demonstrate(rng, skill=1.0).answer))
        assert results[-1].info["action_is_valid"]
    assert len(results) == 3
    assert results[-1].info["success"]
    for seed in range(20):
        env.reset(seed)
        env.step(f"search[{'who is it'}]")
        assert env.step(env.demonstrate(rng, skill=0.0).answer).info["action_is_valid"]


# ----- a server, and what goes wrong


@pytest.fixture
def url() -> Iterator[str]:
    server = RetrievalServer(Bm25Index(make_world().passages), port=0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server.url
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_server_shows_the_same_as_the_process(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETRIEVAL_SERVER_URL", url)
    here, there, by_variable = _ready(), _ready(retriever="server", server_url=url), _ready(retriever="server")
    for hop in here.question.plan:
        shown = here.step(f"search[{hop.query}]")
        for other in (there, by_variable):
            assert other.step(f"search[{hop.query}]") == shown
    assert there.step("finish[x]").info["gold_recall"] == 1.0


def test_a_server_that_is_down_is_an_error_at_reset_and_the_row_is_invalid() -> None:
    env = _env(retriever="server", server_url="http://127.0.0.1:9")
    with pytest.raises(RetrievalError, match=r"no retrieval server at http://127.0.0.1:9"):
        env.reset(0)
    with EnvPool("search_qa", env.config, groups=2, group_size=1, workers=2) as pool:
        assert pool.reset([0, 1]) == [None, None]
        assert all("no retrieval server" in str(error) for error in pool.errors)


def test_a_search_that_fails_is_an_error_and_never_an_observation(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config = env_config("search_qa", retriever="server", server_url=url)
    with EnvPool("search_qa", config, groups=1, group_size=2, workers=1) as pool:
        pool.reset([0])

        def broken(query: str, k: int) -> list[Any]:
            raise RetrievalError("the index is lost")

        monkeypatch.setattr(pool.envs[0], "_retriever", type("Broken", (), {"search": staticmethod(broken)})())
        first, second = pool.step(["search[guild]", "search[guild]"])
        assert first is None
        assert pool.errors[0] == "RetrievalError: the index is lost"
        assert second is not None


def test_a_server_needs_an_address() -> None:
    with pytest.raises(ValueError, match="set server_url or RETRIEVAL_SERVER_URL"):
        _env(retriever="server")


def test_an_empty_split_is_refused(tmp_path: Path) -> None:
    options = _file(tmp_path, {"title": "T", "text": "x"})
    splits = {"train": 0, "validation": 0}
    for split in splits:
        try:
            _env(**options, split=split).reset(0)
        except ValueError as error:
            assert f"no instance of split '{split}'" in str(error)
            splits[split] += 1
    assert sum(splits.values()) == 1, "the only question lies in exactly one split"


def test_an_answer_that_nobody_could_give_is_refused_with_the_number_of_its_words(tmp_path: Path) -> None:
    options = _file(tmp_path, {"title": "T", "text": "x"}, answer="one two three four")
    with pytest.raises(ValueError, match=r"nobody could answer 'Who\?', .* 4 words; use max_answer_words=4 or more"):
        _env(**options, max_answer_words=3)
    env = _ready(**options, max_answer_words=4, split="all")
    env.step("search[x]")
    env.step("search[Who?]")
    assert env.step(env.demonstrate(np.random.default_rng(0), skill=1.0).answer).info["success"]


def test_a_short_spelling_of_a_long_answer_is_enough(tmp_path: Path) -> None:
    options = _file(tmp_path, {"title": "T", "text": "x"})
    row = {"question": "Who?", "answer": ["one two three four", "four"]}
    (tmp_path / "two.jsonl").write_text(json.dumps(row))
    env = _ready(**options | {"questions_file": str(tmp_path / "two.jsonl")}, max_answer_words=3, split="all")
    env.step("search[Who?]")
    assert env.step(env.demonstrate(np.random.default_rng(0), skill=1.0).answer).info["success"]


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"max_actions": 6}, "max_actions=6 has no effect because max_turns=5 replies hold one action each"),
        ({"max_actions_per_turn": 2}, "max_actions_per_turn=2 has no effect because an answer is one action"),
        ({"world": "real"}, "world='real': use one of invented, factbook"),
        ({"world": "factbook", "questions_file": "q.jsonl"}, "questions_file='q.jsonl' has no effect because world="),
        ({"retriever": "bm42"}, "retriever='bm42': use one of bm25, server"),
        ({"reward": "em"}, "reward='em': use one of exact, f1"),
        ({"free_text": "guess"}, "free_text='guess': use one of reject, score"),
        ({"max_results": 0}, "max_results=0: use 1 to 50"),
        ({"max_results": 51}, "max_results=51: use 1 to 50"),
        ({"max_passage_chars": 0}, "max_passage_chars=0"),
        ({"max_total_chars": 0}, "max_total_chars=0"),
        ({"max_answer_words": 0}, "max_answer_words=0"),
        ({"search_cost": 1.0}, "search_cost=1.0"),
        ({"search_cost": -0.1}, "search_cost=-0.1"),
        ({"search_cost": float("nan")}, "search_cost=nan"),
        ({"reward": "f1", "f1_threshold": 0.0}, "f1_threshold=0.0"),
        ({"f1_threshold": 0.5}, "f1_threshold=0.5 has no effect because reward='exact'"),
        ({"server_url": "http://127.0.0.1:1"}, "server_url=.* has no effect because retriever='bm25'"),
        ({"retrieval_timeout_s": 1.0}, "retrieval_timeout_s=1.0 has no effect"),
        ({"retriever": "server", "retrieval_timeout_s": 0.0}, "retrieval_timeout_s=0.0"),
        ({"retriever": "server", "corpus_file": "c.jsonl"}, "corpus_file='c.jsonl' has no effect because the server"),
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        env_config("search_qa", **options)
