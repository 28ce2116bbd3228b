"""`python -m tests.models.eot_table [dev]`: the judges that read, side by side, on texts with known answers."""

import asyncio
import math
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import cast

from models.engines.calibration import logit, sigmoid
from models.engines.lexical_judge import LexicalJudge
from models.engines.probability_judge import embedded_judge
from models.engines.spoken_words import plain_words
from models.interfaces import EndOfTurnJudge, Judgement, Utterance
from models.weights import WeightsStore
from models.weights_manifest import SMOLLM2
from tests.models.eot_figures import figures, rows_of
from tests.models.eot_texts import GROUPS, PREFIXES, Half, Text, read_texts

LAST_WORDS = frozenset(
    "a an the my your our their his her its and or but nor so because if when while that which who whose where of in "
    "on at "
    "to for from with by about into over under through between i you we they he she it is are was were am be been will "
    "would could should can may might must shall do does did have has had not very um uh er like well just also then "
    "than "
    "as until unless though although whether these those this some any every no how what why".split()
)
"""The usual rule of thumb, for comparison: an utterance goes on if its last word is one of these."""


async def last_word_rule(utterance: Utterance) -> Judgement:
    words = plain_words(utterance.text)
    return Judgement(float(not words or words[-1] not in LAST_WORDS))


Judge = Callable[[Utterance], Awaitable[Judgement]]


async def judge_all(texts: Sequence[Text], judge: Judge) -> list[Judgement]:
    return [await judge(text.utterance) for text in texts]


def fused(judgements: Sequence[Judgement]) -> Judgement:
    """Return the sum of the judges' log odds, in equal shares: what the readers know together."""
    opinions = [judgement.complete for judgement in judgements if judgement.complete is not None]
    if not opinions:
        return Judgement(None)
    odds = sum(logit(opinion) for opinion in opinions) / math.sqrt(len(opinions))
    return Judgement(sigmoid(odds), wait=any(judgement.wait for judgement in judgements))


async def judge_texts(texts: Sequence[Text]) -> dict[str, list[Judgement]]:
    """Return the judgements of the embedded judges that read, of both together and of the rule of thumb."""
    store = WeightsStore()
    store.fetch([SMOLLM2])
    model = store.path(SMOLLM2, "SmolLM2-135M-Instruct.Q4_1.gguf")
    probability = await asyncio.to_thread(embedded_judge, model, "SmolLM2", deadline_s=60.0)
    try:
        lexical: EndOfTurnJudge = LexicalJudge()
        found = {
            "probability": await judge_all(texts, probability.judge),
            "lexical": await judge_all(texts, lexical.judge),
            "last word": await judge_all(texts, last_word_rule),
        }
    finally:
        await probability.aclose()
    pairs = zip(found["probability"], found["lexical"], strict=True)
    return {**found, "both": [fused(pair) for pair in pairs]}


def in_language(texts: Sequence[Text], language: str) -> list[int]:
    return [place for place, text in enumerate(texts) if text.language == language]


def lines(texts: Sequence[Text], judged: Mapping[str, Sequence[Judgement]]) -> list[str]:
    table = [f"{'':22}" + "".join(f"{name:>40}" for name in judged)]
    languages = sorted({text.language for text in texts} - {"en"})
    rows = {group: rows_of(texts, group) for group in (*GROUPS, PREFIXES)}
    rows |= {f"all in {language}": in_language(texts, language) for language in languages}
    for group, places in rows.items():
        if not places:
            continue  # a sample without this group
        row = f"{group:22}"
        for judgements in judged.values():
            found = figures([texts[place] for place in places], [judgements[place] for place in places])
            low, high = found.interval
            wait = f" wait {found.wait_right}/{found.wait}" if found.wait else ""
            row += f"{f'{found.balanced:.3f} [{low:.2f} {high:.2f}] AUC {found.auc:.3f}{wait}':>40}"
        table.append(f"{row}   n={len(places)}")
    return table


async def main(half: Half) -> None:
    texts = read_texts(half)
    start = time.monotonic()
    judged = await judge_texts(texts)
    print(f"{half} half, {len(texts)} texts, balanced accuracy at 0.5 [95 %], {time.monotonic() - start:.0f} s")
    print("\n".join(lines(texts, judged)))


if __name__ == "__main__":
    asyncio.run(main(cast(Half, sys.argv[1] if sys.argv[1:] else "test")))
