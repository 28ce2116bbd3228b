"""Spanish: accents tell a question word, which may end an utterance ("dónde"), from the relative that can't ("donde").

Verbs answer by themselves ("sí, quiero"). Written from grammar.
"""

from __future__ import annotations

import re

from models.engines.lexical_words.table import LanguageTable, at_end, digits, phrases, two_digits, whole, words
from models.engines.spoken_digits import NumberLengths

_VERBS = (
    r"(?:es|son|está|están|estás|estoy|estaba|era|eres|soy|hay|había|ha|he|han|has|tengo|tiene|tienes|quiero|quiere|"
    r"quieres|puedo|puede|puedes|necesito|necesita|va|van|voy)"
)

SPANISH = LanguageTable(
    open_words=words(
        "el la los las un una unos unas mi mis tu tus su sus nuestro nuestra nuestros nuestras vuestro vuestra "
        "y e o u pero ni porque que si aunque cuando donde como mientras pues sino cuyo cuya "
        "de del a al en con sin por para sobre entre hasta desde hacia según durante contra mediante tras "
        "me te se lo le les nos os muy tan algún ningún cualquier cada gran buen primer tercer "
        "es son era eran está están estaba estoy ser estar ha he han has había hay hemos quiero quería quisiera "
        "querríamos querría queremos puede puedes podría podrías puedo necesito necesitamos tengo tiene tienes tenemos "
        "voy vas va vamos van iba íbamos debo debería gustaría"
    ),
    half_open_words=words(
        "yo él ella este esta estos estas ese esa esos esas aquel aquella otro otra otros otras algunos algunas alguna "
        "varios varias mucho mucha muchos muchas poco pocos más menos también solo sólo ya casi aún todavía quizá "
        "quizás tal entonces luego después antes además incluso bastante demasiado todo toda todos todas así "
        "siempre nunca mejor"
    ),
    fillers=words("eh em ehh mmm mm hm bueno pues osea digamos"),
    waits=phrases(
        r"esper[ae](?:me|te|d|n|nme)?(?! (?:a que|que (?:me|te|todo)|el|la|los|una? (?:carta|llamada|paquete))\b)"
        r"(?: un| una| que)*(?: momentito| momento| segundo| segundito| minuto| minutito| poco| poquito)?",
        r"(?:(?:solo|sólo|dame|deme|deja|aguanta|nada más) )?(?:un|dos|1) ?(?:momentito|momento|segundo|segundito|"
        r"segundos|minuto|minutito|minutos|instante|ratito)(?: por favor)?(?! (?:de|después|más tarde))",
        r"(?:dame|deme|denme) (?:un|una|dos|unos)(?: \w+)?",
        r"d[ée]j[ae](?:me|nos) (?:que )?(?:ver|pensar|mirar|buscar|comprobar|revisar|consultar|pensarlo|verlo)",
        r"(?:voy a|tengo que) (?:mirar|ver|buscar|comprobar|pensarlo|consultarlo)(?:lo|la)?(?: un momento| un "
        r"segundo)?$",
        r"a ver(?: que| qué)?(?: \w+)?$",
        r"no cuelgues?|no me cuelgue|no se retire|no corte",
        r"aguarda?e?|aguanta|permítame",
        r"(?:ahora|ya) (?:vuelvo|mismo vuelvo)|enseguida vuelvo",
        r"(?:cállate|cállese|silencio|guarda silencio)",
    ),
    digits=digits(
        "cero uno dos tres cuatro cinco seis siete ocho nueve",
        {"una": "1"}
        | two_digits("diez once doce trece catorce quince dieciséis diecisiete dieciocho diecinueve")
        | two_digits("veinte veintiuno veintidós veintitrés veinticuatro veinticinco veintiséis veintisiete veintiocho")
        | two_digits("veintinueve treinta cuarenta cincuenta sesenta setenta ochenta noventa"),
    ),
    pairs=re.compile(
        r"\b(?:treinta|cuarenta|cincuenta|sesenta|setenta|ochenta|noventa) y "
        r"(?:uno|una|dos|tres|cuatro|cinco|seis|siete|ocho|nueve)\b"
    ),
    lead_ins=words("sí no oh vale bueno por favor eh solo ay perdón ok okay claro pues ah y pero gracias mira oye"),
    corrections=phrases(
        r"no(?: espera| espere| perdón| mejor| no| digo)?",
        r"perdón|perdona|perdone",
        r"(?:o|no) (?:mejor|más bien|mejor dicho)",
        r"(?:quiero decir|quise decir|digo|me equivoqué|mejor dicho|o sea no)",
    ),
    no_corrections=re.compile(
        r"^(?:(?:ay|oh|uy|no|pues|bueno|ah|sí|eh|ya|claro) )*(?:no|perdón|perdona|perdone)$|"
        r"\b(?:que|o|por qué|cómo|ya|todavía|aún|yo|tú|él|ella|usted|ahora|hoy|esta|este|eso|mejor|claro|tampoco|"
        r"creo|dijo|dice|es|mañana|aquí|si|mí|a lo mejor|un|esa|ese) no$|\bno (?:\S+ )+no$|\b(?:con|pedir|de) perdón$"
    ),
    open_ends=at_end(
        r"(?:me|nos|te|le) (?:puede|puedes|podría|podrías|pueden|podrían|gustaría)(?: por favor)?",
        r"(?:o sea|es decir|por ejemplo|así que|para que|ya que|es que|sino que|hasta que|antes de|después de|"
        r"una especie|un montón|un par|en vez|en lugar|a pesar|acerca|alrededor|el problema|la cosa|la cuestión|"
        r"lo que pasa|resulta)",
    ),
    prefaces=whole(
        r"(?:(?:sí|hola|buenas|buenos días|bueno|pues|eh|mira|mire|oye|y|vale|a ver) )*(?:"
        r"(?:tengo|tenía)(?: solo| otra)? ?(?:una|dos|otra|unas|un par de|un) ?(?:pregunta|preguntas|dudas?|problema|"
        r"consulta)|(?:quería|quisiera|me gustaría)(?: solo| nada más)? (?:preguntar(?:le|te)?|saber|decir(?:le|te)?|"
        r"pedir(?:le|te)?|consultar(?:le|te)?)(?: una cosa| algo| una pregunta)?|una (?:pregunta|cosa|cosita|consulta)|"
        r"mira|mire|oye|oiga|sabes qué|sabe qué|lo que pasa es|en realidad|en primer lugar|primero|fíjate|te cuento)"
    ),
    whole_answers=whole(
        r"(?:(?:sí|no|ah|oh|pues|claro|ya|ay|bueno|es que) )*(?:sí|no|yo|tú|él|ella|usted|y (?:tú|usted|eso|ella|él)|"
        r"este|esta|ese|esa|esos|esas|estos|otro|otra|todo|todos|todas|mucho|poco|más|menos|también|tampoco|ya|aún no|"
        r"siempre|nunca|quizás?|bien|muy bien|así|después|luego|antes|mejor|dónde|cuándo|cómo|qué|quién|por qué|"
        r"(?:lo |la |los |las )?(?:quiero|puedo|tengo|hay|es|son|está|estoy|soy|voy|puede|he|va|necesito))"
    ),
    stranded=re.compile(
        r"\b(?:qué|quién|quiénes|dónde|cuándo|cómo|cuál|cuáles|cuánto|cuánta|cuántos|cuántas|lo que|adónde) "
        r"(?:\S+ ){0,6}" + _VERBS + r"$|"
        r"\b(?:no|ya|lo|la|los|las|si|tampoco|también|sí|donde|como|que) (?:puedo|hay|está|están|tengo|quiero|quiere|"
        r"puede|puedes|quieres|es|son|va|voy|he|necesito)$(?<!que es)(?<!que he)(?<!que va)(?<!que son)"
        r"(?<!que tengo)(?<!que hay)(?<!que está)|"
        r"\b(?:nada|algo|no|nunca|alguien|nadie|qué|uno|una|poco|cada vez|muchos?|dos|tres) más$|"
        r"\b(?:quiero|prefiero|es|con|por|para|me quedo con|dame|deme|de) (?:este|esta|ese|esa|estos|estas|esos|esas|"
        r"otro|otra|todo|todos|él|ella|aquel)$"
    ),
    closings=at_end(
        r"(?:gracias|muchas gracias|por favor|eso es todo|es todo|nada más|adiós|hasta luego|hasta mañana|mañana|hoy|"
        r"ayer|ahora|ahora mismo|verdad|no crees|también|tampoco|creo|o no|o así|o algo así|vale|de acuerdo|esta noche|"
        r"esta tarde|por ahora|euros?|horas?)"
    ),
    lengths=NumberLengths(
        whole=frozenset({9, 10, 11, 12, 13, 16}),
        of_kind=(
            (re.compile(r"\b(?:teléfono|móvil|celular|llamar\w*|localizar\w*)\b"), frozenset({9, 10, 11, 12})),
            (re.compile(r"\b(?:código postal)\b"), frozenset({5})),
            (re.compile(r"\b(?:cvv|código de seguridad)\b"), frozenset({3, 4})),
            (re.compile(r"\b(?:pin|clave|últimos cuatro|últimas cuatro)\b"), frozenset({4})),
            (re.compile(r"\b(?:tarjeta|visa|crédito|débito)\b"), frozenset({15, 16})),
        ),
        code=re.compile(
            r"\b(?:código|referencia|pedido|reserva|expediente|cliente|cuenta|dni|documento|localizador)\b"
        ),
        asked=re.compile(r"\b(?:número|cifras|dígitos)\b"),
    ),
)
