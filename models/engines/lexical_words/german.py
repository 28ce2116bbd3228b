"""German: verbs come last and their particles too, so that an auxiliary or "an" at the end may well be the end.

Idea: what follows "dass", "ob", "weil" or a question word ends in its verb; a verb like "rufen" with "an" at the end is
whole. Written from grammar.
"""

from __future__ import annotations

import re

from models.engines.lexical_words.table import LanguageTable, at_end, digits, phrases, two_digits, whole, words
from models.engines.spoken_digits import NumberLengths

_AUXILIARIES = (
    r"(?:ist|sind|war|waren|warst|bin|bist|seid|sei|wäre|wären|wird|werden|wurde|wurden|würde|würden|hätte|hätten|habe|"
    r"hab|hat|haben|habt|hast|hatte|hatten|kann|kannst|können|könnte|könnten|möchte|möchten|muss|müssen|musst|soll|"
    r"sollen|sollte|will|willst|wollen|wollte|darf|dürfen|brauche|brauchst)"
)
_MODALS = (
    r"(?:kann|kannst|können|könnte\w*|möchte\w*|will|willst|wollen|wollte\w*|muss|müssen|soll|sollen|sollte\w*|darf|"
    r"dürfen|dürfte\w*|würde\w*|hätte\w*)"
)
_SUBORDINATE = (
    r"\b(?:dass|ob|weil|wenn|wo|was|wie|wer|wen|wem|wann|warum|wieso|wohin|woher|falls|obwohl|während|bevor|nachdem|"
    r"damit|seit|bis|als|welche[rsnm]?|(?:der|die|das|den|dem) (?:ich|wir|er|es|du|man|mir|mich|uns|ihr))"
)
_SEPARABLE = (
    r"\b(?:mach|schalt|ruf|steh|hör|komm|geh|fang|fäng|fahr|fähr|sieh|seh|nehm|nimm|bring|hol|stell|schreib|lad|lädt|"
    r"gib|geb|leg|kling|zieh|pass|biet|dreh|schick|meld|probier|kauf|räum|wach|schlag|fäll|lies|les|teil|sag|denk|"
    r"trag|tret|tritt|schließ|zünd|füg|richt|wend|sprech|sprich|lass|fühl)\w*"
)

GERMAN = LanguageTable(
    open_words=words(
        "ein eine einem einer eines mein meine meinen meinem meiner dein deine deinen deinem deiner sein seine seinen "
        "seinem ihre ihren ihrem ihrer unser unsere unseren unserem euer eure kein keinem keiner des "
        "und aber sondern denn weil dass ob wenn falls obwohl während bevor nachdem damit sodass sowie als wie "
        "für von vom zum zur bei beim im ins am ans in gegen ohne durch bis seit wegen trotz zwischen hinter neben "
        "außer statt ich wir er man ist sind war waren bin bist wird werden würde hätte habe hab hat haben hatte kann "
        "kannst können könnte könnten möchte möchten muss müssen soll sollen sollte will wollen wollte darf brauche "
        "sehr zu wo welche welcher welchen welches diese diesen diesem jede jeden jedem sogar es's"
    ),
    half_open_words=words(
        "der die das den dem oder an auf aus ab mit vor nach um über unter noch nur auch schon dann mal vielleicht "
        "eigentlich ziemlich ganz immer mir mich uns ihm ihn euch dir dich sich einen keine keinen dieser dieses alle "
        "andere anderen einige mehrere viele wenige gerne gern so da hier jetzt sonst wahrscheinlich zuerst erst "
        "wirklich du sie"
    ),
    fillers=words("äh ähm ähh öh öhm hm hmm mh also naja tja halt irgendwie sozusagen quasi"),
    waits=phrases(
        r"(?:einen?n? |nur (?:einen? )?|noch (?:einen? )?|kleinen )?(?:kurzen |kleinen |klitzekleinen )?"
        r"(?:moment|augenblick|sekunde|minute|momentchen|sekündchen|minütchen)(?: mal| noch| bitte)*(?! später| vor)",
        r"wart(?:e|et|en sie)(?! auf)(?: mal| kurz| bitte| noch| einen| eine)*",
        r"halt(?: mal| kurz)? ?(?:moment|stopp)?",
        r"(?:ich )?(?:muss|schaue?|gucke?|suche?|hole?|prüfe?|sehe?) (?:das |es |da |nur |mal |kurz |eben |schnell )*"
        r"(?:mal|kurz|eben|schnell|gerade)(?: \w+)?",
        r"(?:ich )?muss (?:mal |kurz |erst |eben |das )*(?:überlegen|nachdenken|nachsehen|nachschauen|gucken|schauen|"
        r"suchen|holen)",
        r"(?:lass|lasst|lassen sie) mich(?: mal| kurz| bitte| nur| eben)* "
        r"(?:überlegen|nachdenken|sehen|schauen|gucken|nachsehen|nachschauen|suchen|prüfen)",
        r"(?:gib|gebt|geben sie) mir(?: bitte| mal| noch| nur)* (?:einen|eine|kurz|zwei|ein paar)"
        r"(?: kurzen| kleine)? ?(?:moment|minute|minuten|sekunde|sekunden|augenblick)?",
        r"(?:mal )?kurz (?:überlegen|nachdenken|nachsehen|schauen|warten)",
        r"(?:bleib|bleibt|bleiben sie)(?: bitte| kurz| mal)* dran",
        r"(?:ich )?(?:bin|komme) gleich (?:wieder )?(?:da|zurück|soweit)",
        r"leg(?:en sie)? (?:bitte )?nicht auf",
        r"(?:sei|seid|seien sie) (?:bitte |mal |kurz )*(?:still|leise|ruhig)",
    ),
    digits=digits(
        "null eins zwei drei vier fünf sechs sieben acht neun",
        {"zwo": "2", "ein": "1"}
        | two_digits("zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn")
        | two_digits("zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig")
        | {
            f"{unit}und{ten}": "00"
            for unit in "ein zwei drei vier fünf sechs sieben acht neun".split()
            for ten in "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()
        },
    ),
    lead_ins=words(
        "ja nein oh okay ok gut bitte äh ähm hm nur noch also und aber sorry entschuldigung super danke ach"
    ),
    corrections=phrases(
        r"(?:äh |ähm |oder )?nein(?: warte(?:n sie)?| halt| doch| moment| nein| quatsch| falsch| sorry| ich meine)?",
        r"(?:oder|nein) (?:besser|lieber|eher|doch|vielmehr|nein|warte)",
        r"(?:äh |also )?ich meine?",
        r"beziehungsweise",
        r"(?:sorry|entschuldigung|quatsch|falsch|korrektur|vielmehr|moment nein)",
    ),
    no_corrections=re.compile(
        r"^(?:(?:oh|ach|nein|also|äh|ähm|ja|okay|na|danke) )*(?:nein|sorry|entschuldigung|falsch|quatsch)$|"
        r"\b(?:ja oder|mit|sagte|sagt|ein|eher|leider|das ist|ist das|alles|ganz) (?:nein|falsch|quatsch)$"
    ),
    open_ends=at_end(
        _MODALS
        + r" (?:sie|du|ich|wir|ihr|man|er|es)(?: bitte| mal| mir| uns| dann| auch| noch| kurz| vielleicht| das)*",
        r"(?:sie|du|ihr) (?:mir|uns)(?: bitte| mal| kurz| noch)*",
        r"(?:ein paar|und zwar|zum beispiel|vor allem|je nachdem|so dass|als ob|mehr als|anstatt|das heißt|es sei denn|"
        r"geht um|es geht|im gegensatz|in bezug|was ist mit|wie wäre es|gibt es|haben sie|hast du|hätten sie)",
    ),
    prefaces=whole(
        r"(?:(?:ja|also|hallo|guten tag|äh|ähm|okay|so|und|gut) )*(?:"
        r"ich (?:habe|hab|hätte)(?: da| noch| mal| nur)* (?:eine|zwei|ein|ein paar|drei)(?: kurze| andere| weitere)? "
        r"(?:frage|fragen|bitte|problem|anliegen|sache)|"
        r"ich (?:wollte|möchte|würde gern|würde gerne)(?: sie| dich| mal| nur| kurz)*(?: was| etwas)? "
        r"(?:fragen|wissen|sagen)|folgendes|pass auf|weißt du was|wissen sie was|die sache ist|das problem ist|"
        r"erstens|zunächst|hör mal|schau mal|die frage ist)"
    ),
    whole_answers=whole(
        r"(?:(?:ja|nein|doch|ach|na|oh|nee) )*(?:ja|nein|doch|das|die|der|den|ich|wir|er|du|sie|ich auch|ich nicht|"
        r"wer|wo|wie|was|wann|und du|und sie|wie bitte|ich habe|haben wir|kann ich|hab ich|bin ich|ist es|ist er|"
        r"ich will|ich kann|ich muss|so ist es|beide|keine|keinen|keiner|eine|einen|mit|ohne|sehr|sehr gern|sehr gerne|"
        r"gern|gerne|vielleicht|wahrscheinlich|noch nicht|immer|alle|hier|da|jetzt|ab und zu|zu)"
    ),
    stranded=re.compile(
        rf"{_SUBORDINATE} (?:\S+ ){{1,12}}{_AUXILIARIES}$|"
        rf"\b{_MODALS} (?:\S+ ){{1,12}}(?:haben|werden|können|wollen|müssen|dürfen)$|"
        rf"{_SEPARABLE} (?:\S+ ){{0,8}}(?:an|aus|auf|ab|zu|mit|ein|vor|nach|um|über|unter|durch|bei|statt|da)$|"
        r"\b(?:glaube|denke|meine|finde|hoffe|schätze|weiß|nehme an|glaub|denk|find) ich$|"
        r"\b(?:was|wie|wo|wer|wem|wann) (?:\S+ ){0,4}(?:ist|sind|war|kostet|kosten|heißt|bedeutet|geht|macht|hast|hat|"
        r"bin|will|soll|liegt)?(?: denn)? ?(?:der|die|das|den|dem|ihr|du|sie|er|ich|wir|man|mir|uns|dir)$|"
        r"\b(?:nehme|nehmen|mag|weiß|möchte|will|kenne|kennst|meine|brauche|reicht|passt|mit|für|von|ohne) "
        r"(?:das|den|die|der|dem|dir|mir|uns|euch|ihm|dich|mich|ihn|sie|dieser|dieses)$|"
        r"\b(?:auf und|ab und|nach und|um und) (?:ab|zu|nach|um)$"
    ),
    closings=at_end(
        r"(?:bitte|danke|danke schön|vielen dank|tschüss|auf wiederhören|auf wiedersehen|heute|morgen|gestern|"
        r"heute abend|übermorgen|nicht wahr|oder nicht|oder so|oder was|glaube ich|denke ich|das war's|das ist alles|"
        r"das war alles|alles|okay|in ordnung|stimmt|uhr|euro|gut|nicht|gar nicht|nichts|auch nicht|noch nicht|"
        r"nicht mehr|zurück)"
    ),
    lengths=NumberLengths(
        whole=frozenset({7, 8, 10, 11, 12, 13, 16, 22}),
        of_kind=(
            (re.compile(r"\b(?:telefon\w*|handy\w*|rückruf\w*|mobil\w*|erreich\w*)\b"), frozenset({8, 10, 11, 12})),
            (re.compile(r"\b(?:postleitzahl|plz)\b"), frozenset({5})),
            (re.compile(r"\b(?:prüfziffer|kartenprüfnummer|sicherheitscode)\b"), frozenset({3, 4})),
            (re.compile(r"\b(?:pin|geheimzahl|letzten vier)\b"), frozenset({4})),
            (re.compile(r"\b(?:kreditkarte\w*|kartennummer|visa|mastercard)\b"), frozenset({15, 16})),
            (re.compile(r"\b(?:iban)\b"), frozenset({20, 22})),
        ),
        code=re.compile(r"\b(?:code|\w+nummer|aktenzeichen|buchung\w*|kennung)\b"),
        asked=re.compile(r"\b(?:\w*nummer|ziffern|zahl)\b"),
    ),
)
