"""What people say over somebody who speaks to them, by language: to stop them, to nod, to gain time.

Written from knowledge of the languages, in the polite and the familiar form; no corpus was counted. Phrases are lower
case, with commas between them. What a recogniser writes without accents counts as well.
"""

STOP_PHRASES = {
    "en": "stop, wait, no, nope, hold on, hang on, cancel, enough, that's enough, excuse me, pardon me, actually, "
    "hey, pause, quiet, be quiet, shut up, never mind, one moment, one second, just a moment, just a second, listen, "
    "sorry",
    "de": "stopp, stop, halt, warte, warte mal, warten sie, moment, moment mal, einen moment, augenblick, sekunde, "
    "nein, nee, nicht, genug, es reicht, das reicht, aufhören, hör auf, hören sie auf, abbrechen, entschuldigung, "
    "entschuldige, entschuldigen sie, verzeihung, ruhe, sei still, pause, vergiss es, hallo, hey, falsch, "
    "stimmt nicht",
    "es": "para, pare, párate, stop, espera, espere, espérate, alto, basta, ya basta, un momento, un momentito, "
    "un segundo, perdón, perdona, perdone, disculpa, disculpe, cancela, cancelar, oye, oiga, silencio, cállate, "
    "detente, no, no no, olvídalo, déjalo, déjame hablar, escucha, escúchame, pausa",
    "fr": "arrête, arrêtez, stop, attends, attendez, non, assez, ça suffit, pardon, excusez moi, excuse moi, "
    "désolé, un instant, un moment, une seconde, une minute, deux secondes, annule, annulez, silence, tais toi, "
    "taisez vous, chut, écoute, écoutez, laisse tomber, laissez tomber, pause, minute, hé",
    "it": "ferma, fermati, si fermi, fermo, stop, basta, aspetta, aspetti, un attimo, un momento, un secondo, "
    "scusa, scusi, scusami, mi scusi, alt, annulla, zitto, silenzio, no, no no, senti, senta, ascolta, "
    "lascia perdere, pausa, smettila, ehi",
    "pt": "pare, para, stop, chega, já chega, espere, espera, espera aí, peraí, não, não não, um momento, "
    "um momentinho, um segundo, um minuto, com licença, desculpe, desculpa, cancela, cancelar, cala, cala a boca, "
    "silêncio, escuta, escute, esquece, deixa pra lá, deixa para lá, pausa, calma, ei, opa",
    "nl": "wacht, wacht even, nee, ho, genoeg, momentje, pardon, ophouden",
    "pl": "stój, czekaj, poczekaj, nie, chwila, przepraszam, dość",
    "zh": "停, 停下, 停一下, 停停, 等一下, 等等, 等下, 等会, 等会儿, 等一等, 稍等, 慢着, 慢点, 不, 不要, 不用, "
    "不用了, 不是, 不对, 错了, 别说了, 别说话, 够了, 行了, 打住, 打断一下, 闭嘴, 安静, 取消, 算了, 暂停, 不好意思, "
    "对不起, 抱歉, 喂, 听我说",
    "ja": "止めて, 止まって, やめて, やめてください, 待って, 待ってください, ちょっと待って, "
    "ちょっと待ってください, ちょっと, ストップ, いいえ, いや, 違う, 違います, ちがう, ちがいます, すみません, "
    "すいません, ごめん, ごめんなさい, もういい, もういいです, 結構です, 静かに, 黙って, キャンセル, 中止, 一旦, "
    "聞いて, ねえ, あのね, あのですね",
}
"""Who says one of these wants the agent to stop now."""

BACKCHANNELS = {
    "en": "mm, mmm, mhm, mm hm, mm hmm, mmhm, mmhmm, hm, hmm, hmmm, uh huh, uhhuh, huh, aha, ah, oh, ooh, wow, "
    "yeah, yea, yep, yup, yes, ya, ok, okay, okey, right, all right, alright, sure, sure thing, i see, i know, "
    "i understand, got it, gotcha, of course, exactly, true, that's true, that's right, that's good, good, great, "
    "nice, cool, fine, perfect, really, oh really, interesting, absolutely, definitely, indeed, totally, "
    "makes sense, that makes sense, fair enough, sounds good, go on, go ahead, no problem, oh no, no kidding, "
    "no way, thanks, thank you, you know, ha, haha, hahaha, heh, oh dear, oh boy, oh my, oh my god, my god, "
    "bless you",
    "de": "ja, jaja, ja ja, jo, jep, jawohl, genau, ganz genau, ach so, achso, ach, ach ja, aha, klar, na klar, "
    "alles klar, stimmt, das stimmt, richtig, verstehe, ich verstehe, verstanden, gut, sehr gut, na gut, schön, "
    "super, toll, prima, perfekt, sicher, natürlich, selbstverständlich, okay, ok, tja, eben, doch, danke, "
    "danke schön, vielen dank, bitte, echt, wirklich, interessant, wahnsinn, krass, in ordnung, passt, keine frage, "
    "kein problem, weiter, ah, oh, hm, hmm, mhm, mh, oh nein, haha, o je, oje, mensch",
    "es": "sí, sí sí, si, vale, vale vale, claro, claro que sí, ya, ya veo, ya ya, ajá, aja, bueno, de acuerdo, "
    "entiendo, entendido, comprendo, exacto, exactamente, correcto, eso es, eso, así es, muy bien, está bien, bien, "
    "perfecto, genial, guau, gracias, muchas gracias, desde luego, por supuesto, no pasa nada, no me digas, "
    "sin problema, okay, ok, dale, anda, vaya, ah, oh, uy, mm, mhm, hm, jaja, en serio, de verdad, sigue, siga, "
    "cierto, verdad",
    "fr": "oui, oui oui, ouais, d'accord, je vois, bien sûr, exactement, exact, c'est ça, c'est vrai, c'est bon, "
    "très bien, bien, voilà, ah bon, ah oui, ah d'accord, ah, oh, tout à fait, absolument, effectivement, en effet, "
    "merci, merci beaucoup, super, génial, parfait, je comprends, compris, entendu, ok, okay, ça marche, "
    "pas de problème, pas de souci, pas mal, vraiment, intéressant, tiens, hum, hm, mm, mmh, mhm, si, ha ha, haha, "
    "oh non, oh là là, continue, continuez, ah non",
    "it": "sì, si, sì sì, certo, va bene, bene, benissimo, molto bene, capito, ho capito, capisco, esatto, "
    "esattamente, giusto, d'accordo, ok, okay, perfetto, grazie, grazie mille, prego, davvero, ecco, già, appunto, "
    "infatti, assolutamente, certamente, ovviamente, naturalmente, interessante, ottimo, bello, dai, ah, ah sì, oh, "
    "oh no, mm, mhm, hm, eh, eh già, nessun problema, non importa, non c'è problema, wow, ahah, continua, continui, "
    "vero, è vero",
    "pt": "sim, sim sim, tá, tá bom, tá bem, tá certo, está bom, está bem, certo, claro, claro que sim, "
    "com certeza, entendi, entendo, percebo, percebi, isso, isso mesmo, exato, exatamente, pois é, pois, pois pois, "
    "é verdade, verdade, bem, muito bem, ótimo, perfeito, beleza, legal, fixe, nossa, sério, a sério, obrigado, "
    "obrigada, ok, okay, aham, uhum, ahã, hum, hm, mm, mhm, ah, ah tá, ah sim, oh, sem problema, não faz mal, "
    "não diga, haha, continua, continue, bacana, interessante",
    "nl": "oké, precies, klopt, goed, juist, inderdaad, natuurlijk, dank je, snap ik, geen probleem",
    "pl": "tak, no tak, jasne, dobrze, rozumiem, aha, dokładnie, dziękuję",
    "zh": "嗯, 嗯嗯, 嗯嗯嗯, 嗯哼, 好, 好的, 好吧, 好啊, 好呀, 好好好, 行, 行吧, 可以, 对, 对对, 对对对, 对的, "
    "对啊, 对呀, 是, 是的, 是啊, 是吗, 是吧, 是这样, 没错, 明白, 明白了, 懂了, 知道, 知道了, 我知道, 我知道了, 了解, "
    "了解了, 清楚了, 原来如此, 原来是这样, 这样啊, 哦, 噢, 喔, 哦哦, 啊, 哎, 哇, 哈哈, 真的, 真的吗, 不错, 不会吧, "
    "太好了, 厉害, 当然, 没问题, 没事, 没关系, 不客气, 谢谢, 谢谢你, 继续, ok",
    "ja": "うん, うんうん, うーん, うむ, はい, はいはい, はいはいはい, ええ, そう, そうそう, そうですね, "
    "そうですか, そうなんですか, そうなんですね, そうなんだ, そうだね, そうか, そっか, なるほど, なるほどね, "
    "なるほどですね, たしかに, 確かに, 本当, 本当ですか, ほんと, ほんとですか, わかりました, 分かりました, わかった, "
    "分かった, わかります, 了解, 了解です, 了解しました, 承知しました, オッケー, ok, へえ, へー, ふーん, ふうん, "
    "ほう, ほー, おお, おー, ああ, あー, あ, あっ, え, えっ, すごい, すごいですね, いいですね, いいね, 大丈夫, "
    "大丈夫です, ありがとう, ありがとうございます, どうぞ, 続けて, もちろん, 問題ない, 問題ないです, まじで, まじ, "
    "やっぱり",
}
"""Who says only these listens on. Thanks are here too: recognisers write them for noise."""

HESITATIONS = {
    "en": "um, uhm, umm, uh, er, erm, eh, so, well, like, and, the, an, of, uh oh",
    "de": "äh, ähm, öh, öhm, eh, und, der, die, das, na, na ja, naja, also, so, mal, dann",
    "es": "este, pues, el, la, los, las, em, eh, y, o, mmm, a ver, entonces, es que",
    "fr": "euh, heu, ben, bah, alors, donc, et, le, la, les, un, hein, bon, enfin",
    "it": "ehm, uhm, allora, il, lo, la, gli, beh, mah, e, cioè, dunque, boh, insomma, quindi",
    "pt": "ahn, hã, então, o, os, a, as, né, é, e, eh, tipo, bom, olha, assim",
    "nl": "eh, uhm, dus, en, de, het",
    "pl": "no, więc, i, to, yyy, eee",
    "zh": "那个, 这个, 呃, 额, 然后, 就是, 那, 就, 的, 了, 吧, 呢",
    "ja": "えっと, えーと, えーっと, ええと, えと, あの, あのー, その, そのー, んー, ん, まあ, なんか, で, と, は, が",
}
"""What says nothing yet, the first word of a sentence included: more will come or it won't."""

EVERYWHERE = {
    "stop": "stop",
    "nod": "ok, okay, mm, mmm, mhm, mm hm, mm hmm, mmhm, mmhmm, hm, hmm, hmmm, uh huh, uhhuh, aha, ah, oh, ha, "
    "haha, wow",
    "hesitation": "um, uhm, umm, uh, er, erm, eh, hum",
}
"""Sounds and words that recognisers write in any language, and that mean the same in all of these."""
