"""A judge that doesn't know a language has no opinion, at once; where nobody knows the language it is asked."""

from __future__ import annotations

from typing import Any

import pytest

from models.engines.guessed_language import guessed_language
from models.engines.lexical_judge import LexicalJudge
from models.engines.probability_examples import ENGLISH, SMOLLM2_LANGUAGES, examples_of
from models.engines.probability_judge import LONGEST_WORDS, ProbabilityJudge, prompt_for
from models.engines.proven_judge import ProvenJudge
from models.engines.smart_turn import LANGUAGES, SmartTurnJudge
from models.engines.spoken_words import plain_words
from models.interfaces import Judgement, Utterance
from models.languages import languages_of


class Scores:
    """What a language model's server would say; it notes what it was asked."""

    server = "server"

    def __init__(self) -> None:
        self.prompts: list[str] = []

    async def next_token(self, prompt: str) -> dict[str, float]:
        self.prompts.append(prompt)
        return {".": 0.5, "...": 0.1}


def probability(scores: Scores, languages: frozenset[str] | None = SMOLLM2_LANGUAGES) -> ProbabilityJudge:
    return ProbabilityJudge(scores, languages=languages)  # the server's stand-in


async def test_the_probability_judge_asks_in_the_callers_language_or_not_at_all() -> None:
    scores = Scores()
    judge = probability(scores)
    for language, said in [("fr", "je voudrais"), ("de-AT", "ich hätte"), (None, "i would"), ("it", "vorrei")]:
        judged = await judge.judge(Utterance(text=said, language=language))
        assert (judged == Judgement(None)) is (language == "it")
    french, german, english = scores.prompts
    assert french.startswith(examples_of("fr").text)
    assert french.endswith("agent: comment puis-je vous aider? caller: je voudrais")
    assert german.startswith(examples_of("de").text)
    assert english.startswith(ENGLISH.text)


async def test_a_model_of_which_nobody_knows_is_asked_in_any_language() -> None:
    scores = Scores()
    judge = probability(scores, languages=None)
    assert (await judge.judge(Utterance(text="明日は", language="ja"))).complete is not None
    await judge.prepare("何時ですか", "ja")
    assert len(scores.prompts) == 2
    assert all(prompt.startswith(ENGLISH.text) for prompt in scores.prompts)


async def test_nothing_is_prepared_in_a_language_that_is_not_judged() -> None:
    scores = Scores()
    await probability(scores).prepare("Come posso aiutarla?", "it")
    assert scores.prompts == []
    await probability(scores).prepare("Puis-je vous aider ?", "fr")
    assert scores.prompts[0].endswith("agent: puis-je vous aider? caller: ")


@pytest.mark.parametrize("language", sorted(SMOLLM2_LANGUAGES))
def test_as_many_examples_end_as_go_on_in_each_language(language: str) -> None:
    lines = examples_of(language).lines.splitlines()
    assert len(lines) >= 10
    assert sum(line.endswith("...") for line in lines) in (len(lines) // 2, len(lines) // 2 - 1)
    assert lines[0].startswith(f"agent: {examples_of(language).opening} caller: ")


def test_words_without_blanks_are_bounded_in_the_prompt() -> None:
    line = prompt_for(["明" * 1_000], ["日" * 1_000], "ja").removeprefix(ENGLISH.text)
    assert line == f"agent: {'日' * LONGEST_WORDS}? caller: {'明' * LONGEST_WORDS}"
    (words,) = [prompt_for(["internationalisation"] * 20, [], "en").rsplit("caller: ")[-1]]
    assert words == " ".join(["internationalisation"] * 5)


async def test_the_audio_judge_is_silent_outside_its_languages() -> None:
    assert {"en", "fr", "es", "it", "pt", "de", "ja", "zh"} <= LANGUAGES
    judge = SmartTurnJudge.__new__(SmartTurnJudge)  # without its model, which is not asked
    assert await judge.judge(Utterance(pcm=bytes(48_000), language="sw")) == Judgement(None)


def test_a_proven_judge_knows_what_its_judge_knows() -> None:
    async def prove() -> None:
        pass

    assert languages_of(ProvenJudge(LexicalJudge(), prove)) == LexicalJudge.languages
    assert languages_of(ProvenJudge(probability(Scores(), None), prove)) is None


GUESSES = [
    ("what time does the museum open on sundays", "en"),
    ("hello", "en"),
    ("je voudrais savoir si vous avez une table", "fr"),
    ("ich hätte gern einen tisch für zwei personen", "de"),
    ("quisiera saber si hay una mesa para dos", "es"),
    ("vorrei sapere se avete un tavolo per due", "it"),
    ("eu gostaria de saber se vocês têm uma mesa", "pt"),
    ("予約を変更したいです", "ja"),
    ("我想改预约", "zh"),
    ("dobry wieczór", "en"),
]


@pytest.mark.parametrize(("text", "language"), GUESSES)
def test_where_nobody_tells_the_language_it_is_guessed_from_the_words(text: str, language: str) -> None:
    assert guessed_language(plain_words(text)) == language


async def test_the_lexical_judge_reads_a_text_of_unknown_language_as_what_it_seems() -> None:
    going_on: Any = await LexicalJudge().judge(Utterance(text="Je voudrais savoir si vous avez une"))
    assert going_on.complete < 0.1
