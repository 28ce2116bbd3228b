"""The calls that the probability judge shows a language model before the caller's last words, by language.

All ours (CC0). As many end as go on: fillers, function words, numbers, corrections; short answers and commands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_RULE = (
    "Each line is what a caller said to an agent before a pause. A line ends with a full stop if the caller had "
    "finished, and with ... if the caller was about to go on.\n"
)


@dataclass(frozen=True, slots=True)
class Examples:
    """`opening`: what the agent is taken to have said before the user's first words."""

    opening: str
    lines: str

    @property
    def text(self) -> str:
        """What the prompt begins with."""
        return _RULE + self.lines


ENGLISH = Examples(
    "how can i help you?",
    """\
agent: how can i help you? caller: what time does the museum open on sundays.
agent: it opens at ten. caller: i would like to book a...
agent: what is your number? caller: five five five...
agent: how many tickets? caller: two.
agent: anything else? caller: so i was thinking that um...
agent: how can i help you? caller: which country no...
agent: let me read you the terms. caller: stop.
agent: your ticket is ready. caller: can you send it to...
agent: shall i book it? caller: yes.
agent: how can i help you? caller: i wanted to ask about the...
agent: how can i help you? caller: where was the king born no sorry where was the queen born.
agent: when would you like to come? caller: tomorrow.
agent: would you like to go by train? caller: well it depends on whether...
agent: anything else? caller: could you turn off the light.
agent: is that all? caller: okay so...
agent: what city? caller: boston.
agent: how can i help you? caller: what year did the war or rather...
agent: anything else? caller: no that is all thank you.
""",
)
"""Chosen on the dev half of the English data, where a list without the agent's lines told ends from cuts worse (AUC .85
instead of .96 on own cards), a longer one no better, and the model's chat template much worse (.78 instead of .95 on
Disfl-QA)."""

_GERMAN = Examples(
    "wie kann ich helfen?",
    """\
agent: wie kann ich helfen? caller: wann macht das museum am sonntag auf.
agent: um zehn. caller: ich möchte gern einen...
agent: ihre nummer? caller: fünf fünf fünf...
agent: wie viele karten? caller: zwei.
agent: sonst noch etwas? caller: also ich dachte dass ähm...
agent: soll ich buchen? caller: ja.
agent: wann möchten sie kommen? caller: morgen.
agent: sonst noch etwas? caller: können sie mir bitte...
agent: sonst noch etwas? caller: nein das ist alles danke.
agent: womit fahren sie? caller: das hängt davon ab ob...
""",
)

_SPANISH = Examples(
    "en qué puedo ayudarle?",
    """\
agent: en qué puedo ayudarle? caller: a qué hora abre el museo los domingos.
agent: a las diez. caller: quisiera reservar una...
agent: su número? caller: cinco cinco cinco...
agent: cuántas entradas? caller: dos.
agent: algo más? caller: pues estaba pensando que eh...
agent: lo reservo? caller: sí.
agent: cuándo quiere venir? caller: mañana.
agent: algo más? caller: puede enviarlo a...
agent: algo más? caller: no eso es todo gracias.
agent: en tren? caller: depende de si...
""",
)

_FRENCH = Examples(
    "comment puis-je vous aider?",
    """\
agent: comment puis-je vous aider? caller: à quelle heure ouvre le musée le dimanche.
agent: à dix heures. caller: je voudrais réserver une...
agent: votre numéro? caller: cinq cinq cinq...
agent: combien de billets? caller: deux.
agent: autre chose? caller: alors je pensais que euh...
agent: je réserve? caller: oui.
agent: quand voulez-vous venir? caller: demain.
agent: autre chose? caller: pouvez-vous l'envoyer à...
agent: autre chose? caller: non c'est tout merci.
agent: en train? caller: ça dépend si...
""",
)

_ITALIAN = Examples(
    "come posso aiutarla?",
    """\
agent: come posso aiutarla? caller: a che ora apre il museo la domenica.
agent: alle dieci. caller: vorrei prenotare una...
agent: il suo numero? caller: cinque cinque cinque...
agent: quanti biglietti? caller: due.
agent: altro? caller: allora pensavo che ehm...
agent: prenoto? caller: sì.
agent: quando vuole venire? caller: domani.
agent: altro? caller: può mandarlo a...
agent: altro? caller: no è tutto grazie.
agent: in treno? caller: dipende se...
""",
)

_PORTUGUESE = Examples(
    "como posso ajudar?",
    """\
agent: como posso ajudar? caller: a que horas abre o museu aos domingos.
agent: às dez. caller: eu queria reservar uma...
agent: o seu número? caller: cinco cinco cinco...
agent: quantos bilhetes? caller: dois.
agent: mais alguma coisa? caller: então eu pensava que hã...
agent: reservo? caller: sim.
agent: quando quer vir? caller: amanhã.
agent: mais alguma coisa? caller: pode mandar para...
agent: mais alguma coisa? caller: não é só isso obrigado.
agent: de comboio? caller: depende se...
""",
)

_BY_LANGUAGE: Mapping[str, Examples] = {
    "en": ENGLISH,
    "de": _GERMAN,
    "es": _SPANISH,
    "fr": _FRENCH,
    "it": _ITALIAN,
    "pt": _PORTUGUESE,
}

SMOLLM2_LANGUAGES = frozenset({"en", "de", "es", "fr", "pt"})
"""Where SmolLM2-135M tells ends from cuts, each with its own examples: AUC on the cards' dev half (11 to 18 texts a
language, 2026-11-30) .99 in German, .98 in Spanish, .86 in French, .99 in Portuguese; with the English examples .99,
.95, .88, .82. Not in Italian (.78; .47), Chinese and Japanese, for whose words it mostly shows no probabilities."""


def examples_of(language: str) -> Examples:
    """Return the examples for `language` (a primary subtag); English ones where there are none."""
    return _BY_LANGUAGE.get(language, ENGLISH)
