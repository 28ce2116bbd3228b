"""Portuguese, of Brazil and of Portugal: yes is said by repeating the verb ("tenho", "posso"), "né" ends a turn.

Six is also "meia". Written from grammar.
"""

from __future__ import annotations

import re

from models.engines.lexical_words.table import LanguageTable, at_end, digits, phrases, two_digits, whole, words
from models.engines.spoken_digits import NumberLengths

_VERBS = (
    r"(?:é|são|está|estão|tá|estava|era|tem|têm|tenho|tinha|quero|quer|posso|pode|podem|fica|ficam|foi|vai|vou|ser|"
    r"preciso|precisa|sou|estou|há|custa|chama)"
)

PORTUGUESE = LanguageTable(
    open_words=words(
        "o a os as um uma uns umas meu minha meus minhas teu tua teus tuas seu sua seus suas nosso nossa nossos nossas "
        "este esta estes estas esse essa esses essas aquele aquela cada qualquer algum nenhum cujo cuja "
        "e ou mas nem porque que se embora quando onde como enquanto pois caso conforme "
        "de do da dos das d' em no na nos nas num numa dum duma neste nesta nesse nessa deste desta desse dessa "
        "naquele ao à aos às com sem por pelo pela pelos pelas para pra pro pros pras sobre entre até desde durante "
        "contra me te lhe nos vos eu é são era eram está estão estava ser estar tem tenho tinha temos têm quero queria "
        "queríamos gostaria gostava posso pode poderia podia podes consegue preciso precisava vou vai vamos vão ia "
        "íamos devo deveria sou estou há"
    ),
    half_open_words=words(
        "você ele ela eles elas tu outro outra outros outras alguma alguns algumas vários várias muito muita muitos "
        "muitas pouco mais menos também só apenas já quase ainda talvez então depois antes além até bastante demais "
        "tudo todo toda todos todas assim sempre nunca melhor lá aqui isso aí"
    ),
    fillers=words("hã hãn ahn hum hm hmm mm ah eh ehh éé tipo digamos pronto"),
    waits=phrases(
        r"esper[ae](?:-me|m)?(?! (?:que (?:me|te|você|ele|tudo|dê)|o|a|um pacote)\b)"
        r"(?: aí| só| um| uma| lá)*(?: momento| momentinho| segundo| segundinho| minuto| minutinho| bocadinho| pouco| "
        r"pouquinho| instante)?",
        r"pera(?:í| aí)?(?: só)?",
        r"(?:só |apenas |me dá |me dê |dá-me |dê-me |mais )*(?:um|dois|1) (?:momento|momentinho|segundo|segundinho|"
        r"minuto|minutinho|instante|instantinho|pouquinho|bocadinho|minutos|segundos)(?: por favor)?(?! (?:de|depois|"
        r"atrás))",
        r"(?:deixa|deixe|deixem)(?:-me| eu| me)? (?:só )?(?:ver|pensar|olhar|procurar|verificar|conferir|buscar|"
        r"confirmar|acabar)",
        r"(?:vou|tenho de|tenho que|preciso) (?:só )?(?:ver|verificar|procurar|pensar|confirmar)(?: aqui| isso)?$",
        r"aguard[ae](?: só)?(?: um| mais)*(?: momento| instante| pouco| pouquinho| minuto)?",
        r"calma(?: aí| lá)?",
        r"não deslig(?:a|ue|ues)",
        r"(?:já|eu já) (?:volto|venho|te digo|lhe digo)|fica na linha|fique na linha|não desligue",
        r"(?:cala a boca|cale-se|cala-te|silêncio|fica quieto|fica quieta)",
    ),
    digits=digits(
        "zero um dois três quatro cinco seis sete oito nove",
        {"meia": "6", "uma": "1", "duas": "2"}
        | two_digits("dez onze doze treze catorze quatorze quinze dezesseis dezasseis dezessete dezassete dezoito")
        | two_digits("dezenove dezanove vinte trinta quarenta cinquenta cinqüenta sessenta setenta oitenta noventa"),
    ),
    pairs=re.compile(
        r"\b(?:vinte|trinta|quarenta|cinquenta|sessenta|setenta|oitenta|noventa) e "
        r"(?:um|uma|dois|duas|três|quatro|cinco|seis|sete|oito|nove)\b"
    ),
    lead_ins=words(
        "sim não oh ok okay tá bom por favor só ah desculpa desculpe hã hum e mas então certo obrigado olha"
    ),
    corrections=phrases(
        r"não(?: espera| espere| desculpa| desculpe| melhor| não| digo| peraí)?",
        r"(?:ou|não) melhor|(?:ou|não) antes",
        r"ou seja não|desculp[ae]|perdão|minto|aliás",
        r"quer dizer|quero dizer|digo|me enganei|enganei-me",
    ),
    no_corrections=re.compile(
        r"^(?:(?:ah|oh|ai|não|é|pois|sim|hã|eh|bem) )*(?:não|desculp[ae]|perdão)$|"
        r"\b(?:que|ou|ainda|hoje|agora|eu|você|ele|ela|isso|esse|essa|este|assim|também|claro|melhor|é|mas|talvez|"
        r"amanhã|acho|disse|por quê|porque|um|por que|se|já|pois|mim|peço) (?:não|desculpa)$|\bnão (?:\S+ )+não$"
    ),
    open_ends=at_end(
        r"(?:você|vocês|o senhor|a senhora|cê|a gente|me|nos) (?:pode|podia|poderia|podem|consegue|tem|teria|teriam|"
        r"quer|gostaria)(?: me| nos| por favor)*",
        r"(?:ou seja|isto é|por exemplo|uma espécie|um monte|um par|em vez|ao invés|a respeito|por causa|além|antes de|"
        r"depois de|o problema|a questão|o negócio|a coisa|acontece|o caso|seria|teria|será|gostava)",
    ),
    prefaces=whole(
        r"(?:(?:sim|oi|olá|bom dia|boa tarde|então|bem|olha|olhe|hã|e|tá|ok|pois) )*(?:"
        r"(?:tenho|eu tenho|tinha)(?: só| mais)* (?:uma|duas|outra|umas|um) ?(?:pergunta|perguntas|dúvidas?|problema|"
        r"questão|coisa)|(?:eu )?(?:queria|gostaria de|gostava de|quero)(?: só| lhe| te| de)* (?:perguntar|saber|dizer|"
        r"pedir|tirar uma dúvida)(?: uma coisa| algo)?|uma (?:pergunta|coisa|dúvida)|olha|olhe|escuta|escute|"
        r"sabe o quê|sabe uma coisa|o que acontece é|é o seguinte|o seguinte|na verdade|primeiro|em primeiro lugar)"
    ),
    whole_answers=whole(
        r"(?:(?:sim|não|ah|oh|pois|claro|já|é|ainda|também) )*(?:sim|não|eu|você|ele|ela|tu|e (?:você|tu|ela|isso)|"
        r"este|esta|esse|essa|aquele|aquela|outro|outra|tudo|todos|todas|muito|pouco|mais|menos|também|já|ainda não|"
        r"sempre|nunca|talvez|bem|muito bem|assim|depois|antes|melhor|onde|quando|como|o quê|quem|por quê|porquê|isso|"
        r"lá|aqui|aí|só|tenho|tem|quero|posso|pode|sei|é|está|tá|vou|foi|gostaria|sou|estou|tinha|preciso|há|são|"
        r"queria|quis|fui|consigo)"
    ),
    stranded=re.compile(
        r"\b(?:o que|quem|onde|quando|como|qual|quais|quanto|quanta|quantos|quantas|que horas|por que|de que) "
        r"(?:\S+ ){0,6}" + _VERBS + r"$|"
        r"\b(?:não|já|lá|aqui|aí|isso|se|assim|também|tudo|só|ainda) (?:tem|tenho|é|está|pode|posso|quero|vou|vai|foi|"
        r"há|são|sou|estou|preciso|era)$|"
        r"\b(?:nada|não|nunca|algo|alguém|ninguém|que|um pouco|só|sem|uma vez|dois|duas|um|uma) (?:\S+ ){0,2}mais$|"
        r"\b(?:gosto|gostei|adoro|ajudou|obrigad[oa]|custa|demora|vale) muito$|"
        r"\b(?:quero|prefiro|é|com|por|para|pra|fico com) (?:este|esta|esse|essa|estes|esses|aquele|aquela|outro|outra|"
        r"tudo|todos|você|ele|ela|eles|elas|isso|lá|aqui)$|\b(?:para|pra|de|com) (?:você|ele|ela|isso|lá|aqui|onde|"
        r"quando)$|\b(?:faz|fazer|acha|diz|quer|precisa) (?:o )?(?:quê|isso|tudo)$|\b(?:está|tá|tudo|muito|estou|vai) "
        r"bem$"
    ),
    closings=at_end(
        r"(?:obrigad[oa]|muito obrigad[oa]|por favor|se faz favor|só isso|é isso|é tudo|mais nada|nada mais|tchau|"
        r"até logo|até amanhã|adeus|amanhã|hoje|ontem|agora|né|não é|certo|tá|tá bom|está bem|também|ou não|eu acho|"
        r"acho|de novo|outra vez|ok|demais|hoje à noite|horas?|reais|euros?)"
    ),
    lengths=NumberLengths(
        whole=frozenset({9, 10, 11, 12, 13, 16}),
        of_kind=(
            (re.compile(r"\b(?:telefone|celular|telemóvel|contato|contacto|ligar)\b"), frozenset({8, 9, 10, 11, 12})),
            (re.compile(r"\b(?:cep|código postal)\b"), frozenset({7, 8})),
            (re.compile(r"\b(?:cpf)\b"), frozenset({11})),
            (re.compile(r"\b(?:cvv|código de segurança)\b"), frozenset({3, 4})),
            (re.compile(r"\b(?:pin|senha|últimos quatro)\b"), frozenset({4, 6})),
            (re.compile(r"\b(?:cartão|visa|crédito|débito)\b"), frozenset({15, 16})),
        ),
        code=re.compile(r"\b(?:código|referência|pedido|reserva|protocolo|cliente|conta|contrato|nif)\b"),
        asked=re.compile(r"\b(?:número|dígitos|algarismos)\b"),
    ),
)
