"""Words that stand in no keyphrase: English function words and the plainest verbs of reporting, Chinese particles."""

from __future__ import annotations

_ENGLISH = """
a able about above across after again against all allow allows almost along already also although always am among an
and another any anyone anything applied apply are aren't around as at available away back based be became because
become been before behind being below better between both but by called came can can't cannot certain come compared
consider considered could couldn't demonstrate demonstrated demonstrates describe described describes develop developed
did didn't different discuss discussed discusses do does doesn't doing don't done down due during each either else
enough etc even ever every everyone everything examine examined examines few find finds first following for found from
further gave general get gets getting give given gives go goes going gone good got great had hadn't has hasn't have
haven't having he he's hence her here hers herself high him himself his how however i i'd i'll i'm i've if important in
include includes including indeed instead into introduce introduced investigate investigated is isn't it it's its
itself just keep kept know known large last least less let let's like made main make makes making many may maybe me
might mine more moreover most much must my myself near neither never new no nobody non none nor not nothing novel now
obtain obtained of off often oh on once one only onto or other others otherwise ought our ours ourselves out over own
paper per perhaps please possible present presented presents propose proposed proposes provide provided provides put
quite rather really recent recently report reported reports respectively said same saw say says second see seem seems
seen several shall she she's should shouldn't show showed shown shows similar simple since small so some someone
something sometimes soon specific still studied study such suggest suggests take taken takes than that that's the their
theirs them themselves then there there's thereby therefore these they they're thing things this those though three
through throughout thus to together too toward towards two under unless until up upon us use used uses using usually
various very via want was wasn't way we we're we've well went were weren't what what's when where whereas whether which
while who whom whose why will with within without won't would wouldn't yes yet you you're you've your yours yourself
yourselves
"""
_CHINESE = (
    "的了是在和与及或等对为以将被把从到于也就都而但并其这那有个们我你他她它之所该各由则且又很吗呢吧啊呀么着过给让"
)

STOP_WORDS = frozenset([*_ENGLISH.split(), *_CHINESE])


def is_stop_word(word: str) -> bool:
    """Is a word, lower case, one that no keyphrase holds?"""
    return word in STOP_WORDS
