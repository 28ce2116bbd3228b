import time

import pytest

from models.engines.lexical_cues import PROBABILITY, Cue
from models.engines.lexical_judge import LexicalJudge, find_cue
from models.engines.lexical_tables import TABLES
from models.engines.lexical_words.table import LanguageTable
from models.interfaces import Judgement, Utterance


async def judge(text: str, agent_text: str = "", language: str | None = None) -> Judgement:
    return await LexicalJudge().judge(Utterance(text=text, agent_text=agent_text, language=language))


GOES_ON = [
    ("I was wondering whether", ""),
    ("I would like to book a.", ""),
    ("Can you tell me the", ""),
    ("Yes, but", ""),
    ("And then she said that we", ""),
    ("So, um.", ""),
    ("I think it was, uh", ""),
    ("I'm", ""),
    ("What kind of", ""),
    ("Okay, so", "Would you like me to book it?"),
    ("Hi, could you", ""),
    ("To Leeds, no wait.", "Where would you like to go?"),
    ("What group no", ""),
    ("On the fifth, I mean,", ""),
    ("on Tuesday, or rather", ""),
    ("My phone number is five five five", ""),
    ("555-12", "What's your phone number?"),
    ("four five three two eight eight", "Could you give me the number of your card?"),
    ("the code is bravo seven", "Could you give me the code?"),
    ("J O H", "How do you spell your name?"),
    ("jay doe at", "What's your e-mail address?"),
    ("twenty four birchwood", "What is the delivery address?"),
    ("I have two questions.", ""),
    ("okay so listen", ""),
    ("two pizzas, one with ham and", ""),
    ("The reason I'm calling is because", ""),
]

IS_OVER = [
    ("Yes.", "Shall I book it?"),
    ("No", "Anything else?"),
    ("Well, no.", "Anything else?"),
    ("No, no.", "Shall I cancel it?"),
    ("I'm sorry.", ""),
    ("She said no", "Did you ask her?"),
    ("Is that a yes or no", ""),
    ("Two.", "How many tickets?"),
    ("Two tickets", ""),
    ("Boston.", "What city?"),
    ("Tomorrow", "When?"),
    ("Stop", ""),
    ("What time does the museum open on Sundays?", ""),
    ("What are you looking for?", ""),
    ("Where are you from", ""),
    ("Could you turn it on", ""),
    ("I don't know what you mean", ""),
    ("No, that's all, thank you.", ""),
    ("Yes, I do.", "Do you have a card?"),
    ("My phone number is 555 123 4567", ""),
    ("five five five one two three four five six seven", "What's your phone number?"),
    ("four five three two eight eight one one two two three three four four five five", "Your card number, please?"),
    ("zip code nine four one one zero", ""),
    ("It was in 1984", ""),
    ("I need three", "How many?"),
    ("jay doe at gmail dot com", "What's your e-mail address?"),
    ("I already paid the bill yesterday", ""),
    ("where was the king born no sorry where was the queen born", ""),
]

WAITS = [
    "Hold on a second.",
    "Hang on.",
    "um, one moment please",
    "Just a sec",
    "Give me a moment",
    "Let me think.",
    "Let me check my calendar",
    "okay wait a minute",
    "bear with me while I look it up",
    "hang on, I'm getting my card",
    "one sec, someone's at the door",
    "put me down for, hmm, wait a second",
    "please stop talking",
]

NO_WAITS = [
    "Hold on to the ticket for me please",
    "It takes one minute",
    "I'll be there in a second",
    "Let me get a latte with oat milk please",
    "Could you give me the menu again",
    "Don't wait",
    "Let me check in please",
    "I would like one second class ticket",
]


@pytest.mark.parametrize(("text", "agent_text"), GOES_ON)
async def test_what_wants_another_word_goes_on(text: str, agent_text: str) -> None:
    found = await judge(text, agent_text)
    assert found.complete is not None
    assert found.complete < 0.3, find_cue(text, agent_text)
    assert not found.wait


@pytest.mark.parametrize(("text", "agent_text"), IS_OVER)
async def test_answers_questions_and_whole_numbers_are_over(text: str, agent_text: str) -> None:
    found = await judge(text, agent_text)
    assert found.complete is not None
    assert found.complete > 0.7, find_cue(text, agent_text)
    assert not found.wait


@pytest.mark.parametrize("text", WAITS)
async def test_whoever_asks_for_time_gets_it(text: str) -> None:
    found = await judge(text)
    assert found.wait
    assert found.complete is not None
    assert found.complete < 0.1


@pytest.mark.parametrize("text", NO_WAITS)
async def test_words_of_time_in_another_sense_ask_for_none(text: str) -> None:
    assert not (await judge(text)).wait


@pytest.mark.parametrize(
    ("given", "whole"), [(6, False), (7, True), (8, False), (9, False), (10, True), (11, True), (12, False), (13, True)]
)
def test_a_number_of_no_stated_kind_is_whole_at_usual_lengths_only(given: int, whole: bool) -> None:
    text = "it is " + " ".join(["five"] * given)
    assert find_cue(text) is (Cue.NUMBER_WHOLE if whole else Cue.NUMBER_OPEN)


@pytest.mark.parametrize(("given", "whole"), [(14, False), (15, True), (16, True), (17, False)])
def test_the_agents_question_tells_a_card_number_from_others(given: int, whole: bool) -> None:
    cue = find_cue(" ".join(["two"] * given), "What is your card number?")
    assert cue is (Cue.NUMBER_WHOLE if whole else Cue.NUMBER_OPEN)


def test_double_and_triple_digits_count_as_what_they_say() -> None:
    assert find_cue("oh double seven one triple two four five six") is Cue.NUMBER_WHOLE  # ten digits
    assert find_cue("oh double seven one triple two four five") is Cue.NUMBER_OPEN


@pytest.mark.parametrize("language", ["nl-BE", "xx", ""])
async def test_of_other_languages_it_says_nothing(language: str) -> None:
    expected = Judgement(None) if language else await judge("kunt u mij zeggen of de")  # none given: English
    assert await judge("kunt u mij zeggen of de", language=language) == expected


@pytest.mark.parametrize("text", ["", "   ", "...", "—", "\x00"])
async def test_no_words_are_no_opinion(text: str) -> None:
    assert await judge(text) == Judgement(None)


def test_every_cue_has_its_probability_and_every_table_its_ten_digits() -> None:
    assert set(PROBABILITY) == set(Cue)
    assert all(0.0 < probability < 1.0 for probability in PROBABILITY.values())
    spaced = [table for table in TABLES.values() if isinstance(table, LanguageTable)]
    assert len(spaced) == 6
    assert all(set("0123456789") <= set(table.digits.values()) for table in spaced)


async def test_an_hour_of_words_costs_no_more_than_their_end() -> None:
    start = time.thread_time()
    await judge("um so " * 100)
    short_s = time.thread_time() - start
    start = time.thread_time()
    await judge("um so " * 100_000)
    assert time.thread_time() - start < 20 * short_s + 0.001


async def test_words_without_blanks_and_hostile_repetitions_end_at_once() -> None:
    for text in ("a" * 100_000, "no no " * 5_000, "wait a " * 5_000, "5" * 100_000, "the one " * 5_000):
        start = time.thread_time()
        await judge(text)
        assert time.thread_time() - start < 0.05


def test_who_comes_back_with_a_question_asks_for_no_more_time() -> None:
    assert find_cue("Hold on a second.") is Cue.WAIT
    assert find_cue("Hold on a second. What time do you open on Sundays?") is not Cue.WAIT
    assert find_cue("Hang on, I'm getting my card.") is Cue.WAIT


def test_a_number_that_the_recogniser_wrote_with_hyphens_was_spoken_digit_by_digit() -> None:
    assert find_cue("It's 212-946-") is Cue.NUMBER_OPEN
    assert find_cue("It's 212-946-0958.") is Cue.NUMBER_WHOLE
    assert find_cue("That was in 1999-2000") is Cue.PLAIN
