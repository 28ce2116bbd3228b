"""What words over the agent's voice mean: a wish to stop it, a nod, a hesitation, or something to say.

Lists by language, all read at once: a gateway does not know which language the next word will be in, and the few words
that two languages share mean the same or stop the agent in both. Chosen by hand, untested beyond English. A phrase of
several words counts as one. Of two phrases that begin at the same word the longer one is meant: "no problem" is a nod,
"no" is not.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

STOP_PHRASES = {
    "en": "stop, wait, no, nope, hold on, hang on, cancel, enough, that's enough, excuse me, pardon me, actually, hey, "
    "pause, quiet, be quiet, shut up, never mind, one moment, one second, just a moment, just a second, listen, sorry",
    "de": "stopp, halt, warte, warten sie, moment, moment mal, einen moment, nein, nee, nicht, genug, es reicht, "
    "aufhören, hör auf, abbrechen, entschuldigung, ruhe",
    "es": "para, pare, espera, espere, alto, basta, un momento, un segundo, perdón, perdona, disculpa, cancela, oye, "
    "silencio, detente",
    "fr": "arrête, arrêtez, attends, attendez, non, assez, ça suffit, pardon, excusez moi, excuse moi, un instant, "
    "un moment, une seconde, annule, silence",
    "it": "ferma, fermati, fermo, basta, aspetta, aspetti, un attimo, un momento, scusa, scusi, alt, annulla, zitto",
    "pt": "pare, chega, espere, espera, não, um momento, um segundo, com licença, desculpe, desculpa, cancela, cala",
    "nl": "wacht, wacht even, nee, ho, genoeg, momentje, pardon, ophouden",
    "pl": "stój, czekaj, poczekaj, nie, chwila, przepraszam, dość",
    "zh": "停, 等一下, 等等, 等会, 不, 不是, 不对, 别说了, 够了",
    "ja": "止めて, やめて, 待って, ちょっと待って, ストップ, いいえ, 違う, すみません",
}
"""Who says one of these wants the agent to stop now."""

BACKCHANNELS = {
    "en": "mm, mmm, mhm, mm hm, mm hmm, mmhm, mmhmm, hm, hmm, hmmm, uh huh, uhhuh, huh, aha, ah, oh, ooh, wow, yeah, "
    "yea, yep, yup, yes, ya, ok, okay, okey, right, all right, alright, sure, sure thing, i see, i know, i understand, "
    "got it, gotcha, of course, exactly, true, that's true, that's right, that's good, good, great, nice, cool, fine, "
    "perfect, really, oh really, interesting, absolutely, definitely, indeed, totally, makes sense, that makes sense, "
    "fair enough, sounds good, go on, go ahead, no problem, oh no, no kidding, no way, thanks, thank you, you know, "
    "ha, haha, hahaha, heh, oh dear, oh boy, oh my, oh my god, my god, bless you",
    "de": "ja, jaja, jo, genau, ach so, achso, klar, na klar, alles klar, stimmt, richtig, verstehe, ich verstehe, "
    "gut, sehr gut, schön, sicher, natürlich, okay, ach, tja, eben, danke, echt, wirklich, keine frage, kein problem",
    "es": "sí, vale, claro, claro que sí, ya, ya veo, ajá, bueno, de acuerdo, entiendo, exacto, muy bien, está bien, "
    "bien, gracias, desde luego, por supuesto, no pasa nada",
    "fr": "oui, ouais, d'accord, je vois, bien sûr, exactement, c'est ça, très bien, bien, voilà, ah bon, ah, tout à "
    "fait, merci, super, je comprends, pas de problème",
    "it": "certo, va bene, capito, ho capito, esatto, giusto, d'accordo, bene, grazie, davvero, ecco, nessun problema",
    "pt": "sim, tá, tá bom, tá bem, certo, claro, entendi, isso, pois é, pois, está bem, bem, obrigado, obrigada",
    "nl": "oké, precies, klopt, goed, juist, inderdaad, natuurlijk, dank je, snap ik, geen probleem",
    "pl": "tak, no tak, jasne, dobrze, rozumiem, aha, dokładnie, dziękuję",
    "zh": "嗯, 嗯嗯, 好, 好的, 对, 对对, 是, 是的, 明白, 知道了, 哦, 啊, 没问题",
    "ja": "うん, うんうん, はい, ええ, そう, そうですね, そうですか, なるほど, わかりました, へえ, ああ",
}
"""Who says only these listens on. Thanks are here too: recognisers write them for noise."""

HESITATIONS = {
    "en": "um, uhm, umm, uh, er, erm, eh, so, well, like, and, the, an, of, uh oh",
    "de": "äh, ähm, öh, hm, und, der, die, das, na",
    "es": "este, pues, el, la, los, em",
    "fr": "euh, heu, ben, bah, alors, et, le, la, les, hein",
    "it": "ehm, allora, il, lo, gli, beh, mah",
    "pt": "hum, então, os, as, né, é",
    "nl": "eh, uhm, dus, en, de, het",
    "zh": "那个, 呃",
    "ja": "えっと, あの, ええと",
}
"""What says nothing yet, the first word of a sentence included: more will come or it won't."""

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_UNSPACED = re.compile(r"([\u3040-\u30ff\u3400-\u9fff])")
"""Scripts that put no spaces between words (Chinese, Japanese): each character is a token."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a transcript holds. `content`: its different words that are neither stop words, nods nor hesitations.

    A word said twice counts once: a misheard nod is often a double one ("yet yet").
    """

    stop: bool
    content: int
    empty: bool


def tokens_in(text: str) -> list[str]:
    """Return the words of `text` in lower case, without accents and punctuation; Chinese and Japanese by character."""
    plain = unicodedata.normalize("NFKD", _UNSPACED.sub(r" \1 ", text).casefold().replace("’", "'"))
    return _WORD.findall("".join(c for c in plain if not unicodedata.combining(c)))


def _phrases(*lists: dict[str, str]) -> frozenset[tuple[str, ...]]:
    return frozenset(tuple(tokens_in(phrase)) for by in lists for some in by.values() for phrase in some.split(","))


_STOP = _phrases(STOP_PHRASES)
_NO_CONTENT = _phrases(BACKCHANNELS, HESITATIONS)
_LONGEST = max(map(len, _STOP | _NO_CONTENT))


def read_words(text: str) -> Reading:
    """Return what the words of `text`, a recogniser's look at an overlap, come to."""
    tokens = tokens_in(text)
    stop, other, at = False, set[str](), 0
    while at < len(tokens):
        size = next((n for n in range(_LONGEST, 0, -1) if _is_known(tuple(tokens[at : at + n]), n)), 0)
        if size:
            stop = stop or tuple(tokens[at : at + size]) in _STOP
        else:
            other.add(tokens[at])
        at += size or 1
    return Reading(stop, int(sum(map(_weight, other)) + 0.5), not tokens)


def _is_known(phrase: tuple[str, ...], size: int) -> bool:
    return len(phrase) == size and (phrase in _STOP or phrase in _NO_CONTENT)


def _weight(token: str) -> float:
    """Return how many words a token counts for: a lone letter is a piece of one, a Chinese character half of one."""
    if _UNSPACED.fullmatch(token):
        return 0.5
    return 0.0 if len(token) == 1 and token.isalpha() else 1.0


def repeats(text: str, agent_text: str) -> bool:
    """Return whether the words of `text`, two or more, stand in a row in `agent_text`.

    Of three and more in a row the ones before and behind may differ: a look cuts words at its edges.
    """
    words, said = tokens_in(text), tokens_in(agent_text)
    inner = [some for some in (words[1:], words[:-1], words[1:-1]) if len(some) >= 3]
    return (len(words) >= 2 and _in_a_row(words, said)) or any(_in_a_row(some, said) for some in inner)


def _in_a_row(words: Sequence[str], said: Sequence[str]) -> bool:
    return any(said[at : at + len(words)] == words for at in range(len(said) - len(words) + 1))
