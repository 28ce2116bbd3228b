"""French: clitics, "que" and elided words can't end; "est" and "a" may, where a question word stands before them.

Telephone numbers are said in pairs ("zéro six, douze, trente-quatre"). Written from grammar.
"""

from __future__ import annotations

import re

from models.engines.lexical_words.table import LanguageTable, at_end, digits, phrases, two_digits, whole, words
from models.engines.spoken_digits import NumberLengths

_TEENS = "dix onze douze treize quatorze quinze seize dix-sept dix-huit dix-neuf"
_UNITS = r"(?:un|une|deux|trois|quatre|cinq|six|sept|huit|neuf)"
_BE_AND_HAVE = (
    r"(?:est|sont|es|était|étaient|suis|êtes|sommes|ai|a|as|ont|avait|avez|avons|peux|peut|pouvez|veux|veut|voulez|"
    r"dois|doit|devez|sera|serait|faut)"
)

FRENCH = LanguageTable(
    open_words=words(
        "le la les l' un une des du de d' mon ma mes ton ta tes son sa ses notre nos votre vos leurs ce cet cette ces "
        "quel quelle quels quelles chaque quelques plusieurs "
        "et ou mais ni car parce que qu' si quand lorsque comme puisque quoique sinon afin "
        "à au aux en dans par pour avec sans sur sous chez entre vers depuis pendant contre dès malgré selon parmi "
        "je j' tu il ils on qui dont où ne n' me m' te t' se s' y "
        "est es sont était étaient suis serait seraient être a ont avait avais ai aurais aurait avoir voudrais "
        "voudrait veux veut peux peut pouvez pourriez pourrais pourrait aimerais aimerait dois doit devrais vais va "
        "vont allons c'est c'était j'ai j'avais j'aurais j'aimerais j'étais d'un d'une qu'il qu'elle qu'on qu'un "
        "qu'une s'il n'est n'ai n'a l'on très trop"
    ),
    half_open_words=words(
        "nous elle elles lui leur plus moins peu tout tous toute toutes même aussi encore juste vraiment peut-être "
        "ensuite puis après avant ça autre autres assez beaucoup toujours déjà presque environ surtout cependant "
        "pourquoi comment combien vous toi moi celui celle ceux"
    ),
    fillers=words("euh heu euhm hum hm hmm mmm ben bah beh alors donc hein enfin genre disons"),
    waits=phrases(
        r"atten(?:ds|dez|d)(?! (?:le|la|les|un bus|mon|ma|mes|que|de|depuis)\b)"
        r"(?: un peu| un instant| une seconde| une minute| deux secondes| voir)?",
        r"(?:juste |rien qu')?(?:une?|deux|quelques)? ?(?:petite? |toute petite |petites )?"
        r"(?:secondes?|instants?|minutes?|moment)(?: s'il vous plaît| s'il te plaît)?(?! (?:de|plus|avant|après|pour))",
        r"(?:donne|donnez|laisse|laissez|accorde|accordez)[- ]moi (?:juste |donc )?(?:une?|deux|le temps|réfléchir|"
        r"voir|vérifier|regarder|chercher|finir|quelques)(?: petite| petit)? ?(?:secondes?|minutes?|instants?|moment)?",
        r"(?:je|j') ?(?:vais |dois )?(?:juste )?(?:réfléchis|cherche|regarde|vérifie|réfléchir|chercher|regarder|"
        r"vérifier)(?: ça| un peu)?$",
        r"(?:que|laissez que) je (?:réfléchisse|regarde|vérifie|cherche)",
        r"ne (?:quitte|quittez|raccroche|raccrochez|bouge|bougez) pas",
        r"(?:reste|restez) en ligne",
        r"patiente[zr]?(?: un peu| un instant)?",
        r"je reviens(?: tout de suite| dans une minute| dans deux minutes)?",
        r"(?:tais|taisez)[- ](?:toi|vous)",
        r"minute",
    ),
    digits=digits(
        "zéro un deux trois quatre cinq six sept huit neuf",
        {"une": "1", "zero": "0"}
        | two_digits(_TEENS + " vingt trente quarante cinquante soixante septante octante huitante nonante")
        | two_digits("soixante-dix quatre-vingt quatre-vingts quatre-vingt-dix"),
    ),
    pairs=re.compile(
        r"\b(?:(?:vingt|trente|quarante|cinquante|septante|nonante|huitante)(?:[ -]et)?[ -]" + _UNITS + r"|"
        r"(?:soixante|quatre[ -]vingts?)(?:[ -]et)?[ -](?:dix[ -](?:sept|huit|neuf)|dix|onze|douze|treize|quatorze|"
        r"quinze|seize|" + _UNITS + r")|quatre[ -]vingts?|dix[ -](?:sept|huit|neuf))(?![\w-])"
    ),
    lead_ins=words(
        "oui non oh ok okay d'accord euh heu ben bah bon alors s'il vous te plaît juste ah et mais pardon merci voilà"
    ),
    corrections=phrases(
        r"non(?: attends| attendez| pardon| plutôt| non| désolé| enfin)?",
        r"(?:ou|enfin|ou bien|non) plutôt",
        r"pardon|désolée?",
        r"(?:enfin )?je veux dire",
        r"je me (?:suis )?trompée?",
    ),
    no_corrections=re.compile(
        r"^(?:(?:oh|ah|ben|bah|euh|non|mais|oui|ok|bon) )*(?:non|pardon|désolée?)$|"
        r"\b(?:que|qu'elle|ou|mais|pourquoi|moi|lui|toi|dit|répondu|bien sûr que|c'est|peut-être que|suis|vraiment) "
        r"(?:non|désolée?)$"
    ),
    open_ends=at_end(
        r"(?:\S*ce|parce|puisque|alors|avant|après|pour|dit|dis|crois|pense|voulais|voudrais|faut|sais|veux|afin|bien|"
        r"tandis|est|c'est) (?:que|qu')(?: vous| nous| je| tu| il| elle| on| ça)?",
        r"(?:pouvez|pourriez|voulez|auriez|avez|peux|pourrais|veux|allez|êtes|savez|as|aurais)-(?:vous|tu)"
        r"(?: me| m'| nous| le| la| s'il vous plaît| peut-être)*",
        r"(?<!si )(?<!comme )(?<!quand )(?<!que )(?:vous|tu) (?:pouvez|pourriez|pourrais|peux|auriez|aurais|voulez|"
        r"veux|avez|as)(?: me| m'| nous)?",
        r"(?:un peu|un tas|une sorte|un genre|plein|à cause|au sujet|à propos|à côté|en face|au lieu|au niveau|près|"
        r"loin|le problème c'est|la question c'est|ce qui se passe c'est|il me faut|j'ai besoin|il y a|il y avait|par "
        r"exemple)",
    ),
    prefaces=whole(
        r"(?:(?:oui|bonjour|alors|euh|bon|ok|voilà|et|donc|en fait|allô) )*(?:"
        r"j'(?:ai|aurais)(?: juste| encore| aussi)* (?:une|deux|un|trois|quelques)(?: petite| petites| autre| petit)? "
        r"(?:questions?|problèmes?|soucis?|demandes?|choses?)|"
        r"(?:je voulais|je voudrais|j'aimerais|j'aurais voulu|je souhaite(?:rais)?)(?: juste| vous| te)* "
        r"(?:demander|savoir|dire|poser une question)(?: quelque chose)?|voilà|en fait|écoutez?|tu sais quoi|"
        r"vous savez quoi|d'abord|premièrement|le truc|le truc c'est|le problème|la question)"
    ),
    whole_answers=whole(
        r"(?:(?:oui|non|ah|oh|ben|bah|si|euh) )*(?:oui|non|si|moi|toi|vous|lui|elle|nous|moi aussi|pas moi|moi non "
        r"plus|et (?:vous|toi|lui|elle|ça)|où|quand|qui|quoi|comment|pourquoi|combien|à qui|de qui|avec qui|d'où|par "
        r"où|un|une|les deux|tous|toutes|tout|aucun|aucune|peut-être|toujours|jamais|déjà|pas encore|encore|un peu|"
        r"beaucoup|plus tard|après|avant|c'est (?:ça|moi|lui|bon)|j'y vais|on y va|vas-y|allez-y|je (?:peux|veux)|je "
        r"l'ai|pas très|pas trop|sans|avec|pour|contre|bien)"
    ),
    stranded=re.compile(
        r"\b(?:où|qui|quoi|quels?|quelles?|comment|combien|quand|ce que|ce qu'\w+|ce qui) (?:\S+ ){0,6}"
        + _BE_AND_HAVE
        + r"$|\b(?:qu'est-ce|ce) que c'est$|\bc'est (?:où|qui|quand)$|"
        r"\b(?:en|j'en|n'en|y|l'|t'en) (?:ai|a|as|avons|avez|ont|avait|veux|peux|dois|suis|est|sont|va|vais)$|"
        r"\b(?:ne|n'\w+)\b.* plus$|\b(?:en|non|de|moi|rien de|un de|une de|au|pas) plus$|\bde plus en plus$|"
        r"\b(?:en|j'en|n'en|m'en|m'en faut) (?:\S+ ){0,3}(?:un|une)$|\b(?:numéro|l'|pas|plus d') ?(?:un|une)$|"
        r"\b(?:suis|es|est|sommes|êtes|sont) (?:pour|contre)$|\b(?:fais|faire|fait|viens|va|viennent) avec$|"
        r"\b(?:avec|à|pour|de|chez|sans|par) (?:qui|nous|vous|elle|elles|lui|moi|toi|eux)$|"
        r"\b(?:d'|par |vers |jusqu')(?:où|quand)$|\b(?:allez|vas|va|es|êtes|est|habitez|habites|sommes) où$|"
        r"\b(?:si|comme|quand) (?:vous voulez|tu veux|vous pouvez|tu peux|je peux)$|"
        r"\b(?:vas|allons|allez)-y$|\bon y va$|\bj'y (?:vais|suis)$|\b(?:ne|n') ?\S* ?(?:peux|veux|sais|dois)$"
    ),
    closings=at_end(
        r"(?:merci|merci beaucoup|merci bien|s'il (?:vous|te) plaît|c'est tout|voilà|au revoir|bonne journée|bonne "
        r"soirée|demain|hier|aujourd'hui|maintenant|ce soir|ce matin|tout de suite|n'est-ce pas|non plus|d'accord|je "
        r"crois|je pense|je suppose|ou pas|ou non|quoi|comme ça|ça va|ça ira|en fait|quand même|du tout|pas|rien|"
        r"heures?|euros?)"
    ),
    lengths=NumberLengths(
        whole=frozenset({10, 11, 12, 13, 16}),
        of_kind=(
            (re.compile(r"\b(?:téléphone|portable|mobile|joindre|rappeler|rappelle)\b"), frozenset({10, 11, 12})),
            (re.compile(r"\b(?:code postal)\b"), frozenset({5})),
            (re.compile(r"\b(?:cryptogramme|code de sécurité|cvv)\b"), frozenset({3, 4})),
            (re.compile(r"\b(?:code pin|pin|code secret|quatre derniers)\b"), frozenset({4})),
            (re.compile(r"\b(?:carte|carte bleue|carte bancaire|visa)\b"), frozenset({15, 16})),
        ),
        code=re.compile(r"\b(?:code|référence|dossier|client|commande|réservation|contrat|adhérent)\b"),
        asked=re.compile(r"\b(?:numéro|chiffres?)\b"),
    ),
)
