"""English: thorough. What goes beyond the last word stands in lexical_english.py."""

from __future__ import annotations

from models.engines.lexical_words.table import LanguageTable, digits, phrases, words

ENGLISH = LanguageTable(
    open_words=words(
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
    half_open_words=words(
        "on in over under near around behind through across after before that those this these so well just only also "
        "even really most more some any another other when where who how why what it's not no can will do does did "
        "get give make send put take tell say says said let think thought know guess mean going trying looking maybe "
        "actually basically probably usually his her one's both either neither always never then see hmm hm mm mmm"
    ),
    fillers=words("um umm uh uhh uhm er erm eh ah"),
    corrections=phrases(
        r"no",
        r"(?:oh )?(?:no|or)[, ]+(?:no|wait|sorry|actually|rather|hang on|i mean|no i mean|make that|scratch that)",
        r"wait(?: no| actually| sorry)?",
        r"(?:um |uh |no |wait |oh |well |or )?(?:i mean|i meant|sorry|i'm sorry|excuse me|pardon|actually|rather)",
        r"oops|whoops",
        r"(?:no |or |um )?(?:instead|scratch that|strike that|make that|correction|let me rephrase)(?: to| it)?",
        r"(?:or|no) (?:no )?(?:i guess|i think|should i say|should say|maybe|better)",
    ),
    waits=phrases(
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
    digits=digits(
        "zero one two three four five six seven eight nine", {"oh": "0", "o": "0", "nought": "0", "niner": "9"}
    ),
    lead_ins=words(
        "um uh er hmm hm mm oh okay ok yeah yes yep sure right well so sorry actually please no ah alright great hey "
        "that's enough wait and but i'm thanks just"
    ),
)
