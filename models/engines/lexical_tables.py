"""Words by which an utterance shows that it goes on, or that its speaker asks for time, for each language we know.

English is thorough; the others know the words that most often stand before a pause. All in lower case, with plain
apostrophes. The tables are ours, written from grammar, not learned from data.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _phrases(*phrases: str) -> re.Pattern[str]:
    """Return a pattern that matches any of `phrases` (regular expressions of whole words) at a word's start."""
    return re.compile(r"(?:" + "|".join(phrases) + r")(?![\w'])")


@dataclass(frozen=True, slots=True)
class LanguageTable:
    """What one language's rules look up.

    `open_words` can't end an utterance: articles, possessives, prepositions that always want a noun, conjunctions,
    auxiliaries. `half_open_words` rarely do. `fillers` fill a pause. `corrections` (phrases, at the end) take back what
    was said. `waits` ask for time and may stand between `lead_ins` and anything that explains them. `closers` are whole
    answers by themselves.
    """

    open_words: frozenset[str]
    fillers: frozenset[str]
    waits: re.Pattern[str]
    digits: dict[str, str]
    half_open_words: frozenset[str] = frozenset()
    corrections: re.Pattern[str] = field(default_factory=lambda: re.compile(r"(?!)"))
    lead_ins: frozenset[str] = frozenset()


def _digits(words: str, more: dict[str, str] | None = None) -> dict[str, str]:
    """Return the table of ten number words, zero first, and what else is read as digits."""
    return {word: str(value) for value, word in enumerate(words.split())} | (more or {})


ENGLISH = LanguageTable(
    open_words=_words(
        # articles, determiners, possessives
        "a an the my your our their its whose every "
        # conjunctions and words that open a clause
        "and or but nor because cause cuz if unless until till whether although though while whereas than except "
        "which since as "
        # prepositions that aren't stranded or particles
        "of from at into onto upon toward towards during without within among amongst between beneath beside besides "
        "regarding concerning per via despite versus like plus with by to for about against "
        # subjects and contracted verbs that wait for the rest
        "i we he she they i'm i'd i'll i've we're we'd we'll we've you're you'd you'll you've he'd he'll she'd she'll "
        "they're they'd they'll they've it'll it'd that'll there's here's who's what's where's how's he's she's it's "
        "let's gonna wanna gotta "
        # auxiliaries
        "is are was were am be been being has had have having would could should shall may might must "
        "isn't aren't wasn't weren't wouldn't couldn't shouldn't hasn't hadn't doesn't didn't "
        # verbs that want an object or a clause, adverbs that want a word
        "want wants need needs wanted needed very quite rather such"
    ),
    half_open_words=_words(
        "on in over under near around behind through across after before that those this these so well just only also "
        "even really most more some any another other when where who how why what it's not no can will do does did "
        "get give make send put take tell say says said let think thought know guess mean going trying looking maybe "
        "actually basically probably usually his her one's both either neither always never then see hmm hm mm mmm"
    ),
    fillers=_words("um umm uh uhh uhm er erm eh ah"),
    corrections=_phrases(
        r"no",
        r"(?:oh )?(?:no|or)[, ]+(?:no|wait|sorry|actually|rather|hang on|i mean|no i mean|make that|scratch that)",
        r"wait(?: no| actually| sorry)?",
        r"(?:um |uh |no |wait |oh |well |or )?(?:i mean|i meant|sorry|i'm sorry|excuse me|pardon|actually|rather)",
        r"oops|whoops",
        r"(?:no |or |um )?(?:instead|scratch that|strike that|make that|correction|let me rephrase)(?: to| it)?",
        r"(?:or|no) (?:no )?(?:i guess|i think|should i say|should say|maybe|better)",
    ),
    waits=_phrases(
        r"(?:just )?(?:hold|hang) (?:on(?! to)|the line|that thought|up a (?:sec|second|minute|moment))",
        r"(?:just (?:one|a|1)|one|1) (?:quick )?(?:sec|second|moment|minute|min|mo)(?! (?:time|one|floor|thing|"
        r"question|class|hand))",
        r"just (?:wait|hold|hang)",
        r"(?:can|could|would) you (?:please )?(?:wait|hold(?! the)|hang on|bear with me)",
        r"(?:give|gimme|grant|allow) ?(?:me )?(?:just )?(?:a|one|another|two) (?:quick |few |couple (?:of )?)?"
        r"(?:sec|second|seconds|secs|moment|moments|minute|minutes|min)",
        r"bear with me",
        r"wait(?: a| one| just a)?(?: sec| second| moment| minute| bit)?",
        r"i(?:'ll)? (?:need|want) (?:just )?a (?:sec|second|moment|minute)",
        r"let me (?:just |quickly |first )?(?:think|see|check(?! in| out)|look|find|grab|get(?= my| it$| that$| back|"
        r" to)|pull|ask|rethink|reconsider|"
        r"have a look|take a look|dig|consult|open|fetch)",
        r"don't (?:go anywhere|hang up|go away)",
        r"stay (?:on the line|there|with me)",
        r"i'll be right back",
        r"(?:please )?(?:stop talking|be quiet|shush|shut up|quiet(?! please read)|hush)",
    ),
    digits=_digits(
        "zero one two three four five six seven eight nine", {"oh": "0", "o": "0", "nought": "0", "niner": "9"}
    ),
    lead_ins=_words(
        "um uh er hmm hm mm oh okay ok yeah yes yep sure right well so sorry actually please no ah alright great hey "
        "that's enough wait and but i'm thanks just"
    ),
)

GERMAN = LanguageTable(
    open_words=_words(
        "der die das den dem des ein eine einen einem einer eines mein meine meinen meinem meiner dein deine ihr ihre "
        "ihren ihrem ihrer unser unsere kein keine keinen und oder aber sondern denn weil dass ob wenn falls obwohl "
        "während bevor nachdem damit als wie für mit von vom zu zum zur bei beim in im ins an am auf aus nach über "
        "unter "
        "gegen ohne durch um bis seit wegen ich wir er ist sind war waren bin wird werden würde hätte habe hat haben "
        "kann "
        "können könnte könnten möchte muss soll will zwischen sehr wo"
    ),
    fillers=_words("äh ähm öh öhm hm hmm also naja tja"),
    corrections=_phrases(
        r"nein(?: warte| halt| doch)?", r"(?:oder|nein) (?:besser|lieber|eher|doch)", r"(?:ich )?meine?"
    ),
    waits=_phrases(
        r"(?:einen? |nur einen? |kleinen )?(?:moment|augenblick|sekunde|minute)(?:chen)?(?: mal)?",
        r"warte(?:n sie|t)?",
        r"(?:lass|lassen sie) mich(?: mal| kurz)* (?:überlegen|nachdenken|sehen|schauen|gucken|nachsehen)",
        r"(?:ich )?(?:muss )?(?:mal )?kurz (?:überlegen|nachdenken|nachsehen|schauen)",
        r"bleib(?:en sie)? (?:dran|kurz dran)",
    ),
    digits=_digits("null eins zwei drei vier fünf sechs sieben acht neun", {"zwo": "2"}),
    lead_ins=_words("ja nein oh okay ok gut bitte äh ähm hm nur noch"),
)

SPANISH = LanguageTable(
    open_words=_words(
        "el la los las un una unos unas mi mis tu tus su sus nuestro nuestra este esta y e o u pero ni porque que si "
        "aunque cuando donde como mientras pues de del a al en con sin por para sobre entre hasta desde hacia según yo "
        "es son era está están estaba ser estar ha he han había quiero quería quisiera puede podría puedo necesito "
        "tengo "
        "muy más tan me se lo cuyo"
    ),
    fillers=_words("eh em este mmm hm bueno pues"),
    corrections=_phrases(r"no(?: espera| perdón| mejor)?", r"perdón", r"(?:o|no) (?:mejor|más bien)", r"digo"),
    waits=_phrases(
        r"esper[ae](?:me|te|d)?",
        r"(?:un|solo un|sólo un|dame un|deme un|dame|deme) (?:momentito|momento|segundo|segundito|minuto|instante)",
        r"d[ée]j[ae]me (?:ver|pensar|mirar|buscar|comprobar)",
        r"a ver",
        r"no cuelgues?",
    ),
    digits=_digits("cero uno dos tres cuatro cinco seis siete ocho nueve"),
    lead_ins=_words("sí no oh vale bueno por favor eh solo ay perdón"),
)

FRENCH = LanguageTable(
    open_words=_words(
        "le la les l' un une des du de d' mon ma mes ton ta tes son sa ses notre nos votre vos leur leurs ce cet "
        "cette ces "
        "et ou mais ni car parce que qu' si quand lorsque comme puisque à au aux en dans par pour avec sans sur sous "
        "chez "
        "entre vers depuis pendant contre je j' tu il elle nous on est sont était suis serait être a ont avait ai "
        "voudrais veux peux pouvez pourriez aimerais dois très plus c'est qui dont où ne"
    ),
    fillers=_words("euh heu hum ben bah alors donc hein mmm"),
    corrections=_phrases(r"non(?: attends| pardon| plutôt)?", r"(?:ou|enfin) plutôt", r"pardon", r"je veux dire"),
    waits=_phrases(
        r"atten(?:ds|dez)",
        r"(?:juste )?(?:une?|deux) (?:petite? )?(?:secondes?|instant|moment|minutes?)",
        r"(?:donne|donnez|laisse|laissez)[- ]moi (?:une?|deux|réfléchir|voir|vérifier|regarder)",
        r"ne (?:quitte|quittez|raccroche|raccrochez) pas",
        r"patiente[zr]?",
    ),
    digits=_digits("zéro un deux trois quatre cinq six sept huit neuf"),
    lead_ins=_words("oui non oh ok d'accord euh bon s'il vous plaît te juste ah"),
)

ITALIAN = LanguageTable(
    open_words=_words(
        "il lo la i gli le l' un uno una un' mio mia miei mie tuo tua suo sua nostro nostra e ed o ma né perché che se "
        "anche quando dove come mentre di del dello della dei degli delle a al allo alla ai agli alle da dal dalla "
        "in nel "
        "nella con su sul sulla per tra fra io è sono era sia essere ho ha hanno aveva vorrei voglio posso può "
        "potrebbe "
        "devo molto più cui c'è siccome"
    ),
    fillers=_words("ehm eh mmm uhm allora cioè dunque beh"),
    corrections=_phrases(r"no(?: aspetta| scusa| anzi)?", r"anzi", r"scus[ai]", r"volevo dire"),
    waits=_phrases(
        r"aspett[aio](?:mi)?",
        r"(?:solo )?(?:un|mi dia un|dammi un) (?:attimo|attimino|momento|momentino|secondo|minuto)",
        r"(?:fammi|mi faccia|lasciami|mi lasci) (?:vedere|pensare|controllare|cercare)",
        r"resti in linea",
    ),
    digits=_digits("zero uno due tre quattro cinque sei sette otto nove"),
    lead_ins=_words("sì no oh ok va bene per favore ehm solo ah scusa scusi"),
)

PORTUGUESE = LanguageTable(
    open_words=_words(
        "o a os as um uma uns umas meu minha meus minhas teu tua seu sua nosso nossa este esta esse essa e ou mas nem "
        "porque que se embora quando onde como enquanto pois de do da dos das em no na nos nas ao à aos às com sem por "
        "pelo pela para pra sobre entre até desde eu é são era está estão estava ser estar tem tenho tinha quero "
        "queria "
        "gostaria posso pode poderia preciso muito mais cujo"
    ),
    fillers=_words("hã hum ah eh é né então bom tipo"),
    corrections=_phrases(
        r"não(?: espera| desculpa| melhor)?", r"(?:ou|não) melhor", r"ou seja", r"desculp[ae]", r"quer dizer"
    ),
    waits=_phrases(
        r"esper[ae](?: aí)?",
        r"pera(?:í| aí)",
        r"(?:só )?(?:um|me dá um|me dê um) (?:momento|momentinho|segundo|segundinho|minuto|minutinho|instante|"
        r"pouquinho)",
        r"(?:deixa|deixe)(?:-me| eu| me)? (?:ver|pensar|olhar|procurar|verificar)",
        r"aguard[ae]",
        r"não desligu?e",
    ),
    digits=_digits("zero um dois três quatro cinco seis sete oito nove", {"meia": "6", "uma": "1", "duas": "2"}),
    lead_ins=_words("sim não oh ok tá bom por favor só ah desculpa"),
)

TABLES = {
    "en": ENGLISH,
    "de": GERMAN,
    "es": SPANISH,
    "fr": FRENCH,
    "it": ITALIAN,
    "pt": PORTUGUESE,
}
"""By primary language subtag (BCP 47)."""
