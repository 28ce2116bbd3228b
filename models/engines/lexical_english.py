"""What an English utterance shows beyond its last word: questions, short answers, prefaces, addresses, particles."""

from __future__ import annotations

import re
from collections.abc import Sequence

from models.engines.lexical_cues import Cue
from models.engines.lexical_words.english import ENGLISH

_PREFACE = re.compile(
    r"^(?:(?:okay|ok|so|well|um|uh|hi|hello|hey|right|alright|yes|yeah|and|now|actually|listen|look) )*"
    r"(?:(?:so )?(?:listen|look)|(?:i|we) (?:just )?(?:have|had|got|have got|'ve got) (?:a|one|two|three|a few|"
    r"a couple of|some|another)"
    r"(?: quick| more| other| few)? (?:question|questions|thing|things|problem|issue|request)s?|here's the (?:thing|"
    r"deal|problem)|"
    r"(?:i have )?(?:just )?one (?:more|other|last) (?:thing|question)|first of all|the thing is|"
    r"(?:you )?know what|guess what|i (?:was|am|'m) (?:just )?(?:wondering|thinking)|let me explain|to be honest|"
    r"i (?:just )?(?:wanted|want|need|would like|'d like) to (?:ask|say|know|check))(?: you)?(?: something)?$"
)
_PARTICLE_AFTER = re.compile(
    r"\b(?:turn|switch|put|take|pick|log|sign|hang|come|go|get|move|carry|keep|bring|check|drop|call|set|give|hold|"
    r"shut|"
    r"back|find|work|what's|it|that|this|them|me|him|her|us|lights?|going|from|day)\s+(?:on|in|over|around|through|"
    r"behind|"
    r"before|after)$"
)
_WH = re.compile(r"\b(?:what|what's|who|who's|whom|whose|which|where|where's|when|how|why)\b")
_STRANDED = re.compile(
    r"(?:\b(?:i|you|we|they|he|she|it|that|this|there) (?:really |actually )?(?:have|has|had|is|are|was|were|do|does|"
    r"did|can|will|could|"
    r"should|would|need|needs|want|wants|mean|means|say|said|think|going)|"
    r"\b(?!(?:the|a|an|what|how|kind|kinds|type|types|sort|sorts|and|or|is|are|was|were|get|be) )[a-z']{3,} "
    r"(?:for|from|about|with|like|in|on|to)|\b(?:made|part|afraid|think|thinking|full|out|capable|composed) of)$"
)
_IN_SITU = re.compile(
    r"\b(?:is|are|was|were|of|to|by|with|in|for|at|from|live|lives|happened|called|named|after|than|do|did|does|say|"
    r"said) "
    r"(?:what|where|who|whom|which|when)$"
)
_TAG = re.compile(
    r"(?:\b(?:i (?:think|guess|suppose|hope|believe|don't know|know)|or (?:not|something|so|whatever)|anyway|though|"
    r"you know what i mean|"
    r"isn't it|aren't they|don't you|right)|\b(?:they|you|it|we|he|she|i|that) (?:do|does|did|can't|don't|doesn't|"
    r"didn't|won't))$"
)
_OPEN_PAIR = re.compile(
    r"\b(?:(?:can|could|would|will|do|did|are|were|have|if|that|when|what|because|whether|so|and|but|or) (?:you|it)|"
    r"(?:what|how) about|"
    r"(?:kind|kinds|type|types|sort|sorts|variety|varieties|assortment|list|number|lot|bit|couple|name) of|"
    r"i (?:just )?mean|"
    r"you know|kind of|sort of|as well as|such as|so that|in order to|able to|trying to|going to|want to|need to|"
    r"have to)$"
)
_SHORT_ANSWER = re.compile(
    r"^(?:(?:yes|yeah|yep|no|nope|oh|okay|ok|sure|of course|well|um|uh|actually|i think|i guess|i suppose) ?)*"
    r"(?:(?:i|we|you|they|he|she|it|that|this|there|those|these) (?:really |always |never )?(?:am|are|is|was|were|do|"
    r"does|did|have|has|had|can|could|will|"
    r"would|should|might|may|must|can't|don't|didn't|won't|isn't|aren't|wasn't|haven't|hasn't|doesn't|couldn't|"
    r"wouldn't|"
    r"shouldn't|cannot)(?: not)?|not (?:really|now|yet|anymore|today|at all|for me|that i know of)|"
    r"(?:yes|yeah|no|nope|never|always|both|neither|either|maybe|probably|mine|you|that|this|those|these|"
    r"me|us|them|please)|(?:and|how about|what about) (?:you|that|this)|who|why|when|how|where|what|so what|"
    r"(?:i (?:don't )?)?(?:think|hope|guess|suppose) so|(?:i )?don't (?:know|think so|want to)|i know|i see|"
    r"that's it|that's all)$"
)
CLOSING = re.compile(
    r"(?:\b(?:please|thanks|thank you|cheers|bye|goodbye|tomorrow|today|tonight|yesterday|that's (?:all|it)|too|"
    r"mm hmm|uh huh|as well|either|instead|already|yet|anymore|again|okay|ok|correct|right now|at all|of course|"
    r"never mind|forget it|"
    r"danke|bitte|gracias|merci|grazie|obrigad[oa]))$"
)
NO_CORRECTION = re.compile(
    r"^(?:(?:oh|well|um|uh|er|hmm|okay|ok|actually|yes|yeah|no|nope|please|and|but|so|i'm|i|am|very|really) )*(?:no|"
    r"sorry|wait)$|"
    r"^(?:excuse|pardon) me$|\b(?:say|says|said|yes or|answer is|it's a|that's a|a big|a clear|a definite|why) no$"
)
"""Utterances that end in a correction's words and correct nothing."""

_QUESTION = re.compile(
    r"^(?:(?:okay|ok|so|well|um|uh|hi|hello|hey|and|but|yes|yeah|sorry|excuse me|please) )*"
    r"(?:what|what's|who|who's|where|where's|when|when's|why|how|how's|which|whose|is|are|was|were|do|does|did|can|"
    r"could|will|"
    r"would|should|have|has|may)\b"
)
_ADDRESS = re.compile(r"\b(?:e ?mail|mail address)\b")
_AFTER_DOT = re.compile(
    r"\b(?:dot|punto|point|punkt|ponto) (?:com|org|net|edu|gov|io|de|es|fr|it|uk|br|co|info|me|us|eu)$"
)
_STREET = re.compile(
    r"\b(?:street|st|road|rd|avenue|ave|lane|drive|boulevard|way|court|place|square|close|terrace|highway|apartment|"
    r"apt|suite|floor|city|town|county)\b"
)
_STREET_ASKED = re.compile(r"\b(?:address|where do you live|deliver(?:y|ed)? to|street)\b")
_HOUSE_NUMBER = re.compile(
    r"(?:(?:it's|it is|number|um|uh|at) )*(?:\d+|(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|"
    r"\w+teen|twenty|"
    r"thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred)\b) "
)
_A_SECOND = re.compile(r"^(?:(?:for |just )?(?:a|one) (?:second|sec|minute|min|moment|bit|tick)(?: please)?)?\s*")
_LISTING = re.compile(r"\b(?:the|a|an|some|one) \w+ (?:one|ones)?(?: (?:and )?the \w+ (?:one|ones))+$")


def asks_after_all(said: str) -> bool:
    """Say whether what follows "hold on" is a question of its own ("a second what time do you open")."""
    return _QUESTION.match(_A_SECOND.sub("", said, count=1)) is not None


def english_cue(words: Sequence[str], said: str, question: str) -> Cue | None:
    """Return the cue of the utterance `words` (joined: `said`) in answer to `question`; None: the last word decides."""
    last = words[-1]
    if (_ADDRESS.search(question) or _ADDRESS.search(said) or "dot" in words[-3:]) and (
        last in ("at", "dot", "underscore", "dash", "hyphen", "gmail", "hotmail", "yahoo", "outlook")
    ):
        return Cue.ADDRESS_OPEN
    if _AFTER_DOT.search(said):
        return Cue.CLOSING
    if _STREET_ASKED.search(question) and _HOUSE_NUMBER.match(said) and not _STREET.search(said):
        return Cue.ADDRESS_OPEN
    if _OPEN_PAIR.search(said) and not (len(words) == 2 and last in ("you", "it", "about")):
        return Cue.OPEN_WORD
    if _PREFACE.match(said):
        return Cue.PREFACE
    if _SHORT_ANSWER.match(said):
        return Cue.SHORT_ANSWER
    if _PARTICLE_AFTER.search(said):
        return Cue.STRANDED
    if len(words) > 3 and _TAG.search(said):
        return Cue.CLOSING
    if len(words) > 2 and _IN_SITU.search(said):
        return Cue.QUESTION
    if len(words) > 3 and _WH.search(" ".join(words[:-1])) and _STRANDED.search(said):
        return Cue.STRANDED
    if _LISTING.search(said):
        return Cue.LIST_OPEN
    if _QUESTION.match(said) and last not in ENGLISH.open_words and last not in ENGLISH.half_open_words:
        return Cue.QUESTION
    return None
