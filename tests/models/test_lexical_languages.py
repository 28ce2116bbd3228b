"""The lexical judge in the languages beside English: what is over, what goes on, and who asks for time."""

from __future__ import annotations

import time

import pytest

from models.engines.lexical_cues import PROBABILITY, Cue
from models.engines.lexical_judge import LexicalJudge, find_cue
from models.engines.lexical_tables import TABLES
from models.interfaces import Judgement, Utterance

OVER = {
    "de": (
        "ich nehme das | was kostet das | mach die tür zu | ja doch | ich weiß nicht wo er ist | "
        "die rechnung die ich bezahlt habe | was kann man da machen | stell das radio an | wie geht es dir | "
        "das glaube ich | nein | ich hätte gern eins davon | können wir das so machen | "
        "ich will morgen früh aufstehen | kommst du mit | "
        "null eins sieben sechs zwölf vierunddreißig sechsundfünfzig"
    ),
    "fr": (
        "je l'ai | il y en a | quelle heure il est | comment ça va | où est-ce que vous habitez | et vous | "
        "je n'en veux plus | c'est où | combien je vous dois | je viens avec | c'est pour moi | pourquoi pas | "
        "on y va | je ne peux pas | ça dépend | il n'y en a plus | ce que je veux | oui s'il vous plaît | non"
    ),
    "es": (
        "qué es | dónde está | no quiero | no lo sé | y tú | nada más | creo que no | sí quiero | por qué | "
        "es para él | me quedo con este | cuánto es | ya está | cómo estás | lo que tú quieras | no puedo | "
        "seis uno dos treinta y cuatro cincuenta y seis setenta y ocho"
    ),
    "it": (
        "dov'è | che ora è | non lo so | quanto costa | e lei | non c'è | lo voglio | di più | "
        "non ne voglio più | credo di no | non so dove sono | chi è | sto bene | va bene | per me | con lei | "
        "mi piace | anch'io"
    ),
    "pt": (
        "o que é | tenho | não posso | acho que não | você vem amanhã né | quem é | não quero não | e você | "
        "quanto é | pode | já vou | está bem | é isso | não sei | mais nada | ainda não | não tem mais | "
        "gosto muito"
    ),
    "ja": (
        "はい | そうです | 何時ですか | 窓を開けてください | わかりません | 明日行きます | それでいいです | "
        "何してるの | お願いします | 名前は田中です | 行きたい | 無理だと思う | 二つ"
    ),
    "zh": (
        "好的 | 你好吗 | 我不知道 | 七点 | 谢谢 | 就这样吧 | 多少钱 | 我要一杯咖啡 | 请告诉我 | 是我的 | 对 | "
        "没有了 | 你在哪里 | 我不要 | 可以 | 说得对 | 我昨天已经付过了 | 东京"
    ),
}
"""Whole utterances, as recognisers write them, with bars between them."""

GOES_ON = {
    "de": (
        "ich weiß nicht ob | könnten sie mir bitte | ich habe eine frage | ich wollte fragen | das ist der | "
        "ich möchte gerne | wir brauchen noch ein paar | am montag oder | hallo kann ich | die rechnung ist | "
        "hallo guten tag ich habe | meine nummer ist null eins sieben sechs zwölf"
    ),
    "fr": (
        "est-ce que | je voudrais | c'est | j'ai une question | parce que | je pense que c'est | il y a | "
        "vous pouvez me | pourriez-vous me | on va à | avec le | je cherche un hôtel près de | "
        "zéro six douze trente-quatre"
    ),
    "es": (
        "creo que es | yo quiero | tengo una pregunta | lo que pasa es que | me puede | voy a | es que | "
        "vivo en el | para la | quería preguntarle"
    ),
    "it": (
        "credo che sia | io vorrei | ho una domanda | mi potrebbe | vado al | è che | abito a | il mio numero è | "
        "vorrei sapere | sono andato dal"
    ),
    "pt": (
        "acho que é | eu quero | tenho uma pergunta | você pode | eu vou | é que | moro no | o meu número é | "
        "queria saber | por causa da"
    ),
    "ja": (
        "名前は | 明日の | 東京から | もし | えーと | それで | 予約を | 行きたいけど | "
        "電話番号は〇九〇の一二三四の | 友達が | 雨が降ったら | でも | 実は"
    ),
    "zh": (
        "我想 | 因为 | 然后 | 我要一个 | 这个是 | 请帮我 | 我觉得 | 如果 | 我的名字是 | 从北京到 | 一三八一二 | "
        "周三不对 | 比较 | 我在"
    ),
}

WAITS = {
    "de": (
        "sekunde | einen kleinen moment noch | bin gleich wieder da | geben sie mir eine minute | "
        "bleiben sie bitte kurz dran"
    ),
    "fr": (
        "attends | une seconde s'il vous plaît | deux minutes | donnez-moi une minute | "
        "je reviens tout de suite | attendez je cherche mes lunettes"
    ),
    "es": ("espera | espera que lo busco | un segundo | deme un momento | a ver | no cuelgue | déjeme ver"),
    "it": ("aspetta | un attimo | mi dia un secondo | fammi vedere | resti in linea | aspetti che controllo"),
    "pt": ("espera aí | só um momento | peraí | deixa eu ver | um minutinho | já volto | aguarda um momento"),
    "ja": (
        "待って | ちょっと待ってください | 少々お待ちください | 確認しますのでお待ちください | "
        "考えさせてください | ちょっとお時間ください"
    ),
    "zh": ("等一下 | 稍等 | 等等 | 让我看看 | 我查一下 | 别挂 | 给我一分钟 | 请等一会儿"),
}


def cases(lists: dict[str, str]) -> list[tuple[str, str]]:
    return [(language, text) for language, texts in lists.items() for text in texts.split(" | ")]


@pytest.mark.parametrize(("language", "text"), cases(OVER))
def test_a_whole_utterance_is_over(language: str, text: str) -> None:
    cue = find_cue(text, table=TABLES[language])
    assert cue is not None
    assert PROBABILITY[cue] > 0.7, cue


@pytest.mark.parametrize(("language", "text"), cases(GOES_ON))
def test_what_wants_another_word_goes_on_in_its_language(language: str, text: str) -> None:
    cue = find_cue(text, table=TABLES[language])
    assert cue is not None
    assert cue is not Cue.WAIT
    assert PROBABILITY[cue] <= 0.5, cue


@pytest.mark.parametrize(("language", "text"), cases(WAITS))
def test_whoever_asks_for_time_in_their_language_gets_it(language: str, text: str) -> None:
    assert find_cue(text, table=TABLES[language]) is Cue.WAIT


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("de", "ich warte auf den bus"),
        ("de", "warten sie auf den zug"),
        ("fr", "j'attends le bus"),
        ("fr", "une minute plus tard il est parti"),
        ("es", "espero el autobús"),
        ("es", "espera a que llegue"),
        ("it", "aspetto il treno"),
        ("pt", "espero o autocarro"),
        ("ja", "駅で待っています"),
        ("zh", "我在等车"),
    ],
)
def test_who_waits_for_something_else_asks_for_no_time(language: str, text: str) -> None:
    assert find_cue(text, table=TABLES[language]) is not Cue.WAIT


@pytest.mark.parametrize(
    ("language", "text", "question", "cue"),
    [
        ("fr", "zéro six douze trente-quatre cinquante-six soixante-dix-huit", "", Cue.NUMBER_WHOLE),
        ("fr", "zéro six douze trente quatre cinquante six quatre vingt dix", "", Cue.NUMBER_WHOLE),
        ("fr", "06 12 34 56", "Quel est votre numéro de téléphone ?", Cue.NUMBER_OPEN),
        ("fr", "06 12 34 56 78", "Quel est votre numéro de téléphone ?", Cue.NUMBER_WHOLE),
        ("es", "seis uno dos treinta y cuatro cincuenta y seis setenta y ocho", "", Cue.NUMBER_WHOLE),
        ("es", "seis uno dos tres cuatro cinco seis siete", "", Cue.NUMBER_OPEN),
        ("it", "trentaquattro ventuno quarantotto", "Mi dà il CAP?", Cue.NUMBER_OPEN),
        ("it", "zero zero uno otto quattro", "Mi dà il CAP?", Cue.NUMBER_WHOLE),
        ("pt", "nove um dois três quatro cinco seis sete oito", "", Cue.NUMBER_WHOLE),
        ("pt", "nove meia dois", "Qual é o telefone?", Cue.NUMBER_OPEN),
        ("de", "null eins sieben sechs zwölf vierunddreißig sechsundfünfzig", "", Cue.NUMBER_WHOLE),
        ("de", "eins null eins eins sieben", "Wie ist Ihre Postleitzahl?", Cue.NUMBER_WHOLE),
        ("ja", "〇九〇の一二三四の五六七八", "", Cue.NUMBER_WHOLE),
        ("ja", "090-1234", "電話番号は？", Cue.NUMBER_OPEN),
        ("ja", "2024", "", Cue.NUMBER_OPEN),
        ("zh", "一三八一二三四五六七八", "您的手机号是多少？", Cue.NUMBER_WHOLE),
        ("zh", "一三八一二", "您的手机号是多少？", Cue.NUMBER_OPEN),
        ("zh", "四二", "", Cue.PLAIN),
    ],
)
def test_numbers_are_whole_at_the_lengths_of_their_countries(language: str, text: str, question: str, cue: Cue) -> None:
    assert find_cue(text, question, TABLES[language]) is cue


@pytest.mark.parametrize(
    ("language", "text", "cue"),
    [
        ("de", "am dritten nein warte", Cue.CORRECTION),
        ("de", "ach nein", Cue.SHORT_ANSWER),
        ("fr", "le trois non pardon", Cue.CORRECTION),
        ("fr", "je crois que non", Cue.SHORT_ANSWER),
        ("es", "el tres no espera", Cue.CORRECTION),
        ("es", "creo que no", Cue.SHORT_ANSWER),
        ("it", "il tre anzi", Cue.CORRECTION),
        ("pt", "dia três ou melhor", Cue.CORRECTION),
        ("pt", "não quero não", Cue.SHORT_ANSWER),
        ("ja", "三日じゃなくて", Cue.CORRECTION),
        ("ja", "予約したいんですけど", Cue.SOFT_END),
        ("zh", "三号不对", Cue.CORRECTION),
    ],
)
def test_a_correction_is_told_from_a_no(language: str, text: str, cue: Cue) -> None:
    assert find_cue(text, table=TABLES[language]) is cue


@pytest.mark.parametrize("tag", ["fr", "FR", "fr-CA", "fr_BE", "french", "fra"])
async def test_a_language_may_be_called_by_any_of_its_names(tag: str) -> None:
    judged = await LexicalJudge().judge(Utterance(text="Je voudrais un billet pour", language=tag))
    assert judged.complete is not None
    assert judged.complete < 0.1
    assert await LexicalJudge().judge(Utterance(text="Je voudrais", language="xx")) == Judgement(None)


@pytest.mark.parametrize("language", TABLES)
def test_no_words_cost_no_time_in_any_language(language: str) -> None:
    table = TABLES[language]
    for text in ("a" * 100_000, "no non nein " * 5_000, "5" * 100_000, "的" * 50_000, "の" * 50_000, "un uno " * 5_000):
        start = time.thread_time()
        find_cue(text, text, table)
        assert time.thread_time() - start < 0.1
    assert find_cue("...", table=table) is None
