"""Italian: clitics, articled prepositions and "che" can't end; "è" may, where a question word stands before it.

Written from grammar.
"""

from __future__ import annotations

import re

from models.engines.lexical_words.table import LanguageTable, at_end, digits, phrases, two_digits, whole, words
from models.engines.spoken_digits import NumberLengths

_TENS = "venti trenta quaranta cinquanta sessanta settanta ottanta novanta"
_UNITS = "uno due tre quattro cinque sei sette otto nove"


def _compounds() -> dict[str, str]:
    """Return 21 … 99 in one word: ventuno, trentadue, quarantotto, and those in -tré."""
    found = {}
    for ten in _TENS.split():
        for unit in _UNITS.split():
            stem = ten[:-1] if unit[0] in "uo" else ten
            found[stem + unit] = "00"
            found[stem + unit.replace("tre", "tré")] = "00"
    return found


ITALIAN = LanguageTable(
    open_words=words(
        "il lo la i gli le l' un uno una un' mio mia miei mie tuo tua tuoi tue suo sua suoi sue nostro nostra nostri "
        "nostre vostro vostra loro e ed o oppure ma né perché che se quando dove come mentre siccome poiché sebbene "
        "di d' del dello della dell' dei degli delle a ad al allo alla all' ai agli alle da dal dallo dalla dall' dai "
        "dagli dalle in nel nello nella nell' nei negli nelle con col coi su sul sullo sulla sull' sui sugli sulle per "
        "tra fra senza verso durante contro mi ti si ci vi ne quel quell' quei quegli quest' ogni qualche alcuni "
        "alcune io è sono era erano sia siano essere ho ha hai hanno abbiamo aveva avevo vorrei vorremmo voglio vuole "
        "posso può potrebbe potresti puoi devo deve dovrei volevo volevamo sto stavo cui c'è c'era com'è molto"
    ),
    half_open_words=words(
        "tu lui lei noi voi questo questa questi queste quello quella quelli quelle altro altra altri altre anche solo "
        "soltanto più meno già ancora quasi forse poi dopo prima inoltre persino abbastanza troppo tutto tutta tutti "
        "tutte così sempre mai meglio proprio appena circa allora quindi"
    ),
    fillers=words("ehm eh ehh mmm mm uhm um hm cioè dunque beh mah ecco insomma diciamo tipo praticamente"),
    waits=phrases(
        r"aspett[aio](?:mi)?(?! (?:il|la|un pacco|una chiamata|che (?:mi|ti|arriv\w*))\b)"
        r"(?: un| una| che| solo)*(?: attimo| attimino| momento| momentino| secondo| minuto| po')?",
        r"(?:solo |mi dia |dammi |datemi |ancora )?(?:un|due|1) (?:attimo|attimino|momento|momentino|secondo|secondino|"
        r"minuto|minutino|istante|secondi|minuti)(?: per favore| solo)?(?! (?:dopo|fa|prima))",
        r"(?:fammi|mi faccia|lasciami|mi lasci|fatemi|ci faccia) (?:un attimo )?(?:vedere|pensare|controllare|cercare|"
        r"guardare|riflettere|finire|pensarci)",
        r"(?:devo|fammi|adesso) (?:solo )?(?:controllare|cercare|pensarci|guardare)(?: un attimo| un momento)?$",
        r"(?:resti|resta|rimanga|rimani) in linea",
        r"non (?:riattacchi|riattaccare|chiuda|chiudere|metta giù)",
        r"attend[ai]|porti pazienza|torno subito|arrivo subito",
        r"(?:stai|stia|fai|faccia|state) (?:zitto|zitta|zitti|silenzio)",
    ),
    digits=digits(
        f"zero {_UNITS}",
        two_digits("dieci undici dodici tredici quattordici quindici sedici diciassette diciotto diciannove")
        | two_digits(_TENS)
        | _compounds(),
    ),
    lead_ins=words("sì no oh ok okay va bene per favore ehm eh solo ah scusa scusi allora e ma certo grazie beh"),
    corrections=phrases(
        r"no(?: aspetta| aspetti| scusa| scusi| anzi| no| meglio)?",
        r"(?:o |no )?anzi",
        r"scus[ai]|scusami|mi scusi",
        r"(?:o|no) meglio|volevo dire|cioè no|voglio dire|mi sono sbagliat[oa]|o piuttosto",
    ),
    no_corrections=re.compile(
        r"^(?:(?:ah|oh|no|eh|beh|ma|sì|mi|ehm) )*(?:no|scus[ai]|scusami|mi scusi)$|"
        r"\b(?:di|o|che|perché|come|io|tu|lui|lei|ma|adesso|oggi|anche|ancora|proprio|certo|meglio|magari|"
        r"assolutamente|credo|penso|detto|dice|un|questo|questa|quello|domani|se|invece|spero di) no$"
    ),
    open_ends=at_end(
        r"(?:mi|ci|ti|le|gli) (?:può|puoi|potrebbe|potresti|sa|sapresti|saprebbe|piacerebbe|serve|servono|servirebbe)"
        r"(?: per favore)?",
        r"(?:per esempio|ad esempio|una specie|un sacco|un paio|invece|a causa|a proposito|oltre|prima di|dopo di|"
        r"il problema|la questione|il fatto|il punto|ho bisogno|avrei bisogno|stiamo|stanno|potrebbe|potresti)",
    ),
    prefaces=whole(
        r"(?:(?:sì|ciao|buongiorno|salve|allora|ehm|senta|senti|guarda|guardi|e|ok|bene) )*(?:"
        r"(?:ho|avrei)(?: solo| anche| ancora)* (?:una|due|un'altra|un paio di|un|delle|alcune) ?(?:domanda|domande|"
        r"problema|richiesta|cosa)|(?:volevo|vorrei|mi piacerebbe)(?: solo)? (?:chieder(?:le|ti|vi)|chiedere|sapere|"
        r"dir(?:le|ti)|dire|domandare)(?: una cosa| qualcosa)?|una (?:domanda|cosa)|senta|senti|guarda|guardi|"
        r"sai cosa|il fatto è|la cosa è|in realtà|prima di tutto|innanzitutto|per prima cosa)"
    ),
    whole_answers=whole(
        r"(?:(?:sì|no|ah|oh|beh|certo|eh|ma) )*(?:sì|no|io|tu|lui|lei|noi|e (?:tu|lei|lui|voi|questo)|questo|questa|"
        r"quello|quella|questi|quelli|altro|tutto|tutti|tutte|molto|poco|di più|di meno|anche io|anch'io|neanche io|"
        r"già|non ancora|forse|sempre|mai|bene|molto bene|così|dopo|prima|meglio|dove|quando|come|cosa|chi|perché|"
        r"abbastanza|non (?:posso|voglio|lo so|so|c'è|credo)|lo (?:so|voglio|è)|ci sono|ci siamo|eccomi|"
        r"se (?:posso|può|vuoi|puoi))"
    ),
    stranded=re.compile(
        r"\b(?:dove|chi|che cosa|che ora|che ore|cosa|quanto|quanti|quante|quanta|come|quale|quali|quello che|"
        r"quando) (?:\S+ ){0,6}(?:è|sono|era|erano|sia|siano|sei|ho|ha|hai|hanno|posso|può|devo|deve|voglio|puoi|"
        r"vuoi|c'è|costa|costano|vorrei)$|"
        r"\b(?:lo|la|li|le|ne|ce n'|ce) (?:ho|ha|hai|voglio|posso|devo|so|è|sono)$|"
        r"\bnon (?:posso|voglio|c'è|lo è|può|devo)$|\bse (?:posso|può|vuoi|puoi|vuole|c'è)$|"
        r"\b(?:di|mai|in|sempre|niente|nulla|nessuno|cosa|sempre di|per lo) più$|\bnon (?:\S+ ){1,4}più$|"
        r"\b(?:da|di|per|fino a|verso) (?:dove|quando)$|\b(?:con|da|per|di|a|su) (?:noi|voi|lui|lei|loro|me|te)$|"
        r"\b(?:voglio|preferisco|prendo|è|con|per|vorrei|di) (?:questo|questa|quello|quella|questi|quelli|altro|tutto|"
        r"tutti|tutte)$|\bmi piace molto$|\bsto (?:bene|male)$"
    ),
    closings=at_end(
        r"(?:grazie|grazie mille|per favore|per piacere|prego|è tutto|tutto qui|basta così|nient'altro|arrivederci|"
        r"ciao|domani|oggi|ieri|adesso|subito|stasera|vero|giusto|neanche|credo|penso|o no|va bene|d'accordo|di nuovo|"
        r"o qualcosa del genere|euro|ore)"
    ),
    lengths=NumberLengths(
        whole=frozenset({9, 10, 11, 12, 13, 16}),
        of_kind=(
            (re.compile(r"\b(?:telefono|cellulare|chiamar\w*|richiamar\w*|recapito)\b"), frozenset({9, 10, 11, 12})),
            (re.compile(r"\b(?:cap|codice postale)\b"), frozenset({5})),
            (re.compile(r"\b(?:cvv|codice di sicurezza)\b"), frozenset({3, 4})),
            (re.compile(r"\b(?:pin|ultime quattro)\b"), frozenset({4, 5})),
            (re.compile(r"\b(?:carta|visa|credito)\b"), frozenset({15, 16})),
        ),
        code=re.compile(r"\b(?:codice|riferimento|ordine|prenotazione|pratica|cliente|contratto|conto|tessera)\b"),
        asked=re.compile(r"\b(?:numero|cifre)\b"),
    ),
)
