"""The check that a language model has to pass before its verdicts count: 20 sentences that people agree on.

The sentences are ours (CC0) and stand in no data set: what is measured on data stays unseen.
"""

from __future__ import annotations

import asyncio
from enum import Enum, auto

from models.engines.verdict_judge import VerdictJudge
from models.interfaces import EngineError, Judgement, Utterance

DEADLINE_S = 10.0
"""How long all 20 may take (chosen: 20 answers at four a time, two seconds for each, is what a judge must manage)."""

AT_A_TIME = 4
"""Requests under way: as many as a local server has slots by default."""

TO_PASS = 17
"""Right answers wanted. Who guesses among three words gets 17 of 20 once in 350,000 checks; who always says the same,
8; and one that is right nine times in ten, as a verdict claims to be (SURE), passes 87 times of 100."""


class Expected(Enum):
    """The right answer to an item."""

    COMPLETE = auto()
    INCOMPLETE = auto()
    WAIT = auto()


ITEMS: tuple[tuple[str, str, Expected], ...] = (
    ("Good morning, town library. What can I do for you?", "do you have any books about beekeeping", Expected.COMPLETE),
    ("Which branch shall we send it to?", "the one by the river", Expected.COMPLETE),
    ("Do you have a library card?", "no", Expected.COMPLETE),
    ("How many copies do you need?", "three", Expected.COMPLETE),
    ("Would you like a window seat or an aisle seat?", "window please", Expected.COMPLETE),
    ("Anything else?", "that was everything thanks a lot", Expected.COMPLETE),
    ("The heating comes on at six.", "can you make it seven instead", Expected.COMPLETE),
    ("What is the extension you are calling from?", "four one seven nine", Expected.COMPLETE),
    ("Good morning, town library. What can I do for you?", "i am looking for a book about the", Expected.INCOMPLETE),
    ("When did you order it?", "i think it was on the second or", Expected.INCOMPLETE),
    ("What is your phone number?", "oh seven seven one two", Expected.INCOMPLETE),
    ("How would you spell your last name?", "m c d", Expected.INCOMPLETE),
    ("What seems to be the trouble?", "well whenever i open the window um", Expected.INCOMPLETE),
    ("Where would you like to go?", "to bristol no sorry to", Expected.INCOMPLETE),
    ("What shall I put on the list?", "apples flour a dozen eggs and", Expected.INCOMPLETE),
    ("Is that all?", "almost i would also like to know whether", Expected.INCOMPLETE),
    ("What is the number on your card?", "hang on i have to find my glasses", Expected.WAIT),
    ("Shall I book the earlier one?", "give me a minute to ask my wife", Expected.WAIT),
    ("Which day suits you?", "let me look at my diary", Expected.WAIT),
    ("Could you read me the meter?", "one second i am walking over to it", Expected.WAIT),
)
"""What the agent said, what the caller has said since, and whether that is complete."""


async def right_answers(judge: VerdictJudge) -> int:
    """Return how many of the 20 `judge` gets right; an answer that is no verdict is wrong.

    Raises EngineError: eot_timeout when the 20 take longer than DEADLINE_S, else the first failure of the server.
    """
    places = asyncio.Semaphore(AT_A_TIME)

    async def is_right(agent: str, caller: str, expected: Expected) -> bool:
        async with places:
            try:
                judgement = await judge.judge(Utterance(text=caller, agent_text=agent))
            except EngineError as error:
                if error.code == "eot_bad_verdict":
                    return False
                raise
        return _verdict(judgement) is expected

    try:
        async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
            tasks = [group.create_task(is_right(*item)) for item in ITEMS]
    except* EngineError as failures:
        raise failures.exceptions[0] from failures
    except* TimeoutError as late:
        raise EngineError("eot_timeout", f"The check of the verdict judge took longer than {DEADLINE_S:g} s.") from late
    return sum(task.result() for task in tasks)


def _verdict(judgement: Judgement) -> Expected:
    if judgement.wait:
        return Expected.WAIT
    assert judgement.complete is not None, "the judge has an opinion on every text"
    return Expected.COMPLETE if judgement.complete >= 0.5 else Expected.INCOMPLETE
