"""The probability judge: would a language model put a full stop after the user's words, or three dots?

The model continues a list of calls in which every utterance ends in one or the other. That asks it for nothing but its
next token, so any model that shows its probabilities can do it, however small, chat template or not; and since the list
is always the same, one a language, it stays in the server's cache and only the last line is read.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from models.engines.calibration import sigmoid
from models.engines.llama_server import LlamaServer
from models.engines.probability_examples import SMOLLM2_LANGUAGES, examples_of
from models.engines.spoken_words import plain_words
from models.engines.token_scores import TokenScores
from models.interfaces import EngineError, Judgement, Utterance
from models.languages import knows, primary_language

NAME = "probability"

DEADLINE_S = 2.0
"""An answer that comes later decides nothing: semantic_vad with high eagerness ends the turn then (chosen)."""

WARM_UP_DEADLINE_S = 10.0
"""How long the examples may take to be read for the first time, 330 tokens: 2 s on one core (chosen)."""

AGENT_WORDS = 15
"""Words of the agent's last line that the model is shown, from its end, where questions stand (chosen: each costs some
5 ms, at the first pause of a turn, or before it by `prepare`)."""

LONGEST_WORDS = 120
"""Characters of the user's and of the agent's words that the model is shown at most: a language without blanks has but
one word (chosen: 12 words of ten letters, so that it hardly ever cuts others)."""

USER_WORDS = 12
"""Words of the user's that the model is shown, from their end (each costs some 5 ms, and the reply waits). On the 312
texts of the dev half that are longer, balanced accuracy is 0.867 so, 0.862 with all words (AUC .943, .946;
2026-11-30)."""

END_WEIGHT = 1.535
DOTS_WEIGHT = -0.431
OFFSET = 1.102
"""Log odds of a finished turn = END_WEIGHT · ln P(end) + DOTS_WEIGHT · ln P(dots) + OFFSET.

Fitted with SmolLM2-135M on the dev half of tests/data/eot_text_open.jsonl (logistic regression, 2026-11-29): complete
texts against unfinished ones, half of the weight on those of the data, half on the first 60 % of the words of complete
texts. Of the texts given p = 0.1 … 0.9, a share within 0.08 of p is complete. Another model is calibrated less well."""

_END_MARKS = frozenset({"", ".", "?", "!"})
_DOTS = frozenset({"..", "...", "....", "…"})
_LEAST = 1e-6
"""Stands for the probability of tokens that aren't among the candidates."""


OWN_CONTEXT_TOKENS = 1024
"""The examples take 330, the last line rarely 60."""


def embedded_judge(
    model: Path,
    alias: str,
    *,
    languages: frozenset[str] | None = SMOLLM2_LANGUAGES,
    deadline_s: float = DEADLINE_S,
) -> ProbabilityJudge:
    """Return a judge over a GGUF file, with a server of its own in this process. Loads the model, which blocks.

    Of its own, because the conversations' server reads prompts with two threads. Beside other work, such as the
    recogniser's and the audio judge's at the same pause, those keep each other waiting: on two busy cores a judgement
    took 1,400 ms (440 ms of CPU), with one thread 160 ms (60 ms of CPU; 2026-11-29). And so it can neither take a
    conversation's slot nor wait for one. Its slot holds the examples of one language: where sessions in several
    take turns they are read anew, 250 tokens, most often by `prepare`.
    """
    server = LlamaServer(model, alias, slots=1, slot_tokens=OWN_CONTEXT_TOKENS, threads=1, batch_threads=1, cache_mib=0)
    scores = TokenScores(server.base_url, server.model, api_key=server.api_key)
    return ProbabilityJudge(scores, server=server, languages=languages, deadline_s=deadline_s)


class ProbabilityJudge:
    """EndOfTurnJudge over the next-token probabilities of a server's model: one request of one token a judgement."""

    name = NAME
    listens = False

    def __init__(
        self,
        scores: TokenScores,
        *,
        server: LlamaServer | None = None,
        languages: frozenset[str] | None = None,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        """`server`: one in this process that nobody else asks; it is closed with the judge.

        `languages`: those that the model can judge, None where nobody knows.
        """
        self.languages = languages
        self._scores = scores
        self._own_server = server
        self._deadline_s = deadline_s
        self.server = scores.server

    async def warm_up(self) -> float | None:
        """Have the server read the examples into its cache, and return its opinion of a complete question.

        Of a llama.cpp server it takes one slot for good, so that no conversation's cache is overwritten. Raises
        EngineError as `judge` does, after WARM_UP_DEADLINE_S.
        """
        await self._scores.take_last_slot()
        return await self._ask(["what", "time", "is", "it"], [], "en", WARM_UP_DEADLINE_S)

    async def judge(self, utterance: Utterance) -> Judgement:
        """Return how probable it is that the turn is over; no opinion on words that the model can't read.

        Raises EngineError: eot_timeout, or what the server's failure is called (`as_engine_error`).
        """
        words = plain_words(utterance.text)
        if not words or not knows(self, utterance.language):
            return Judgement(None)
        language = primary_language(utterance.language)
        return Judgement(await self._ask(words, plain_words(utterance.agent_text), language, self._deadline_s))

    async def prepare(self, agent_text: str, language: str | None = None) -> None:
        """Have the server read the agent's last line into its cache while the user speaks. Raises as `judge` does."""
        if knows(self, language):
            await self._ask([], plain_words(agent_text), primary_language(language), self._deadline_s)

    async def aclose(self) -> None:
        """Close the connections, and the server if it is the judge's own."""
        await self._scores.aclose()
        if self._own_server is not None:
            await self._own_server.aclose()

    async def _ask(
        self, words: Sequence[str], agent_words: Sequence[str], language: str, deadline_s: float
    ) -> float | None:
        try:
            async with asyncio.timeout(deadline_s):
                return probability_from(await self._scores.next_token(prompt_for(words, agent_words, language)))
        except TimeoutError as error:
            raise EngineError("eot_timeout", f"The server {self.server} took too long to judge.") from error


def prompt_for(words: Sequence[str], agent_words: Sequence[str], language: str = "en") -> str:
    """Return the examples in `language` (a primary subtag) and the line that ends in the user's `words`."""
    examples = examples_of(language)
    agent = _end_of(agent_words, AGENT_WORDS) + "?" if agent_words else examples.opening
    return f"{examples.text}agent: {agent} caller: {_end_of(words, USER_WORDS)}"


def _end_of(words: Sequence[str], most: int) -> str:
    """Return the last words, `most` of them and LONGEST_WORDS characters at most; whole words, where there are some."""
    end = " ".join(words[-most:])
    if len(end) <= LONGEST_WORDS:
        return end
    cut = end[-LONGEST_WORDS:]
    return cut.partition(" ")[2] or cut


def probability_from(candidates: Mapping[str, float]) -> float | None:
    """Return the probability of a finished turn, from the next token's `candidates`; None without candidates.

    Ends are a full stop, question or exclamation mark, a line's or a message's end; three dots say that it goes on.
    """
    if not candidates:
        return None
    end = sum(probability for token, probability in candidates.items() if _is_end(token))
    on = sum(probability for token, probability in candidates.items() if _is_dots(token))
    return sigmoid(END_WEIGHT * math.log(max(_LEAST, end)) + DOTS_WEIGHT * math.log(max(_LEAST, on)) + OFFSET)


def _is_end(token: str) -> bool:
    """Say whether a token ends an utterance: a mark, with whatever blanks, a line's end, or a model's sign of an end.

    llama.cpp writes that sign as "" or as its own text, such as `<|im_end|>`; no other tokens look like it.
    """
    mark = token.strip()
    return "\n" in token or mark in _END_MARKS or (mark.startswith("<") and mark.endswith(">"))


def _is_dots(token: str) -> bool:
    return token.strip() in _DOTS
