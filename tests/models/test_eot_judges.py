"""What the judges that read are worth on texts with known answers: the test half, which nothing was tuned on."""

from collections import Counter
from collections.abc import Sequence
from hashlib import sha256

import pytest

from models.interfaces import Judgement
from tests.models.eot_figures import Figures, figures, rows_of, wilson
from tests.models.eot_table import judge_texts, lines
from tests.models.eot_texts import GROUPS, PREFIXES, Text, half_of, read_texts

MOST_OF_A_KIND = 60
"""Texts of one label in one group that the test asks about: the whole half takes minutes; eot_table prints it."""

FIRST = ("Disfl-QA", "Niu cards", "own cards, English")


def sample(texts: list[Text], groups: Sequence[str]) -> list[Text]:
    """Return the first texts of each of `groups` and label, in the order of their hashes: the same ones every time."""
    taken: Counter[tuple[str, str]] = Counter()
    kept = []
    for text in sorted(texts, key=lambda text: sha256(text.text.encode()).digest()):
        if text.group not in groups:
            continue
        taken[text.group, text.label] += 1
        if taken[text.group, text.label] <= MOST_OF_A_KIND:
            kept.append(text)
    return kept


def found(texts: list[Text], judgements: list[Judgement], *groups: str) -> Figures:
    places = [place for group in groups for place in rows_of(texts, group)]
    return figures([texts[place] for place in places], [judgements[place] for place in places])


def test_no_text_is_in_both_halves_and_both_hold_all_groups() -> None:
    dev, test = read_texts("dev"), read_texts("test")
    whole = [[text.text for text in half if text.group != PREFIXES] for half in (dev, test)]
    assert not set(whole[0]) & set(whole[1])
    assert len(whole[0]) + len(whole[1]) == 1_989 + 196
    for half in (dev, test):
        assert {text.group for text in half} == {*GROUPS, PREFIXES}
    assert half_of("hello  there ") == half_of("hello there")


def test_the_figures_are_what_they_say() -> None:
    texts = [Text("", "complete", "en", "AMI", "")] * 4 + [Text("", "incomplete", "en", "AMI", "")] * 2
    texts += [Text("", "wait", "en", "AMI", "")] * 2
    scores = [0.9, 0.8, 0.6, 0.4, 0.5, None, 0.1, 0.1]
    judged = [Judgement(score, wait=place == 7) for place, score in enumerate(scores)]
    got = figures(texts, judged)
    assert got.balanced == (3 / 4 + 1 / 2) / 2
    assert got.auc == 7 / 8
    assert (got.wait, got.wait_right) == (2, 1)
    assert got.interval[0] < got.balanced < got.interval[1]
    assert wilson(0, 10)[0] == pytest.approx(0.0)
    assert wilson(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)


@pytest.mark.models
async def test_a_language_models_probabilities_and_the_last_words_know_more_together() -> None:
    texts = sample(read_texts("test"), (*FIRST, PREFIXES))
    judged = await judge_texts(texts)
    print("\n" + "\n".join(lines(texts, judged)))
    probability, lexical, both, rule = (
        {groups: found(texts, judged[name], *groups) for groups in (FIRST, (PREFIXES,))}
        for name in ("probability", "lexical", "both", "last word")
    )
    assert probability[FIRST].auc > rule[FIRST].auc + 0.1
    assert probability[FIRST].balanced > rule[FIRST].balanced
    assert probability[(PREFIXES,)].balanced > lexical[(PREFIXES,)].balanced > rule[(PREFIXES,)].balanced - 0.02
    assert both[FIRST].balanced > probability[FIRST].balanced
    assert both[(PREFIXES,)].auc > max(probability[(PREFIXES,)].auc, lexical[(PREFIXES,)].auc)
    waits = found(texts, judged["lexical"], "Niu cards", "own cards, English")
    assert waits.wait_right > 0.6 * waits.wait
