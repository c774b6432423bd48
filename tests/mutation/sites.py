"""The places of a source where a small fault can be inserted, of four kinds. A
fault is compiled in beside the original code and selected at run time by its
number (mutants.hpp).
"""
import re
from dataclasses import dataclass

from tokens import tokens_of

NUMBER = "@number@"
KINDS = ("comparison", "off by one", "dropped call", "swapped arguments")
OTHER = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
# What ends an operand of a comparison.
ENDS = {";", ",", "?", ":", "&&", "||", "=", "+=", "-=", "*=", "/=", "%=", "|=",
        "&=", "^=", "<<=", ">>=", "&", "|", "^", "return", "case", "throw",
        "else", "do", "co_return", "<=>", *OTHER}
ARITHMETIC = {"+", "-", "*", "/", "%", *OTHER}
NOT_CALLS = {"if", "for", "while", "switch", "return", "sizeof", "alignof",
             "decltype", "noexcept", "catch", "throw", "delete", "new",
             "static_assert", "defined", "requires", "alignas", "operator",
             "SHEAF_ASSERT", "using", "assert"}
TYPES = {"int", "char", "bool", "double", "float", "void", "unsigned", "long",
         "short", "auto", "const", "typename", "this", "nullptr"}
# Faults here would change nothing that a test could see.
NO_EFFECT = {
    "reserve": "only memory that is allocated in advance",
    "shrink_to_fit": "only memory that is given back earlier",
    "min": "symmetric", "max": "symmetric", "swap": "symmetric",
    "is_same": "symmetric", "gcd": "symmetric", "lcm": "symmetric",
    "hypot": "symmetric", "add": "symmetric on tensors",
}


@dataclass
class Site:
    kind: str
    start: int
    end: int
    text: str  # the original code
    mutant: str  # the code with the fault
    inserted: str  # both, with NUMBER for the number of the fault


def sites_of(text):
    tokens = tokens_of(text)
    skipped = constant_parts(tokens)
    result = []
    for index, token in enumerate(tokens):
        if not token.code or token.template or index in skipped:
            continue
        for make in (comparison, off_by_one, dropped_call):
            site = make(text, tokens, index)
            if site:
                result.append(site)
        result += swapped_arguments(text, tokens, index)
    return [site for site in result if "\n#" not in site.text]


def constant_parts(tokens):
    """Indices of tokens that are evaluated at compile time, or that check
    what always holds."""
    skipped = set()
    for index, token in enumerate(tokens):
        if token.text in ("constexpr", "static_assert", "SHEAF_ASSERT", "case",
                          "using", "noexcept", "decltype", "requires",
                          "assert"):
            skipped.update(range(index, end_of_constant(tokens, index)))
    return skipped


def end_of_constant(tokens, index):
    i = index + 1
    if tokens[i].text == "(" and tokens[i].partner >= 0:
        return tokens[i].partner + 1
    while i < len(tokens) and tokens[i].text not in (";", "{", ":", "}"):
        i = tokens[i].partner if (tokens[i].text == "(" and
                                  tokens[i].partner >= 0) else i
        i += 1
    if (i < len(tokens) and tokens[i].text == "{"
            and tokens[i - 1].kind == "name" and tokens[i].partner >= 0):
        return tokens[i].partner + 1  # constexpr Type name{value}
    return i


def operand(tokens, index, step):
    """The index after which (before which) the operand beside a comparison
    ends; None if it cannot be found."""
    opening, closing = ("([{<", ")]}>")[::step]
    i = index + step
    while 0 <= i < len(tokens):
        token = tokens[i]
        if token.kind == "mark" and token.partner >= 0:
            if token.text in closing:
                return i - step
            if token.text in opening:
                i = token.partner + step
                continue
        if token.text in ENDS:
            return None if token.text in OTHER else i - step
        i += step
    return None


def comparison(text, tokens, index):
    token = tokens[index]
    if token.text not in OTHER or token.partner >= 0 or not token.spaced:
        return None
    if tokens[index - 1].text == "operator":
        return None
    first, last = operand(tokens, index, -1), operand(tokens, index, 1)
    if first is None or last is None or first >= index or last <= index:
        return None
    start, end = tokens[first].start, tokens[last].end
    original = text[start:end]
    mutant = (text[start:token.start] + OTHER[token.text] + text[token.end:end])
    return Site("comparison", start, end, original, mutant,
                f"(::sheaf_mutant({NUMBER}) ? ({mutant}) : ({original}))")


def is_binary(tokens, index):
    return (tokens[index].text in OTHER or
            tokens[index - 1].kind in ("name", "number") or
            tokens[index - 1].text in (")", "]"))


def is_in_loop_header(tokens, index):
    """The start value of a `for`."""
    return (tokens[index - 1].text == "=" and tokens[index + 1].text in ";,"
            and any(tokens[i].text == "for"
                    for i in range(max(0, index - 8), index)))


def is_subscript(tokens, index):
    if tokens[index - 1].text != "[" or tokens[index + 1].text != "]":
        return False
    before = tokens[index - 3]
    return (tokens[index - 2].kind == "name" or tokens[index - 2].text in ")]"
            ) and (before.kind != "name" or before.text == "return"
                   ) and before.text not in (">", "*", "&")


def off_by_one(text, tokens, index):
    token = tokens[index]
    match = re.fullmatch(r"(\d+)([uUlL]*)", token.text)
    if not match or len(match[1]) > 9 or index + 1 >= len(tokens):
        return None
    before, after = tokens[index - 1], tokens[index + 1]
    beside = ((before.text in ARITHMETIC and before.spaced and token.spaced
               and is_binary(tokens, index - 1))
              or (after.text in ARITHMETIC and after.spaced))
    if not (beside or is_subscript(tokens, index)
            or is_in_loop_header(tokens, index)):
        return None
    value = int(match[1])
    down = value > 0 and before.text in ("+", "-", "<", ">=")
    other = f"{value - 1 if down else value + 1}{match[2]}"
    return Site("off by one", token.start, token.end, token.text, other,
                f"(::sheaf_mutant({NUMBER}) ? {other} : {token.text})")


def dropped_call(text, tokens, index):
    if tokens[index].kind != "name" or not starts_statement(tokens, index):
        return None
    if tokens[index].text in NOT_CALLS | TYPES:
        return None
    i, name, is_call = index, "", False
    while i < len(tokens) and tokens[i].text != ";":
        token = tokens[i]
        if token.kind == "name" and (i == index or tokens[i - 1].text in
                                     (".", "->", "::")):
            name, is_call = token.text, False
        elif token.text in ("(", "[", "<") and token.partner >= 0:
            is_call = token.text == "("
            i = token.partner
        elif token.text not in (".", "->", "::"):
            return None
        i += 1
    if not is_call or name in NO_EFFECT:
        return None
    start, end = tokens[index].start, tokens[i].end
    original = text[start:end]
    return Site("dropped call", start, end, original, "",
                f"{{ if (!::sheaf_mutant({NUMBER})) {{ {original} }} }}")


def starts_statement(tokens, index):
    before = tokens[index - 1]
    if before.text in (";", "{", "}", "else", "do"):
        return before.text != "{" or tokens[before.partner].start > 0
    if before.text == "]" and before.partner >= 0:  # [[likely]]
        return starts_statement(tokens, before.partner)
    if before.text != ")" or before.partner < 1:
        return False
    return tokens[before.partner - 1].text in ("if", "for", "while",
                                               "constexpr")


def arguments(tokens, index):
    """Index pairs of the first and last token of each argument."""
    first = index + 1
    i = first
    while i <= tokens[index].partner:
        token = tokens[i]
        if token.text == "," or i == tokens[index].partner:
            yield first, i - 1
            first = i + 1
        elif token.text in ("(", "[", "{", "<") and token.partner >= 0:
            i = token.partner
        i += 1


def is_plain(tokens, first, last):
    """Without side effects, so that it can be evaluated twice."""
    if last < first:
        return False
    for i in range(first, last + 1):
        token = tokens[i]
        if token.kind == "string" or token.text in TYPES | {"move", "forward"}:
            return False
        if token.kind == "mark" and token.text not in (
                ".", "->", "::", "+", "-", "*", "/", "(", ")", "[", "]", "&"):
            return False
        if token.text == "(" and i > first and tokens[i - 1].kind == "name" \
                and token.partner != i + 1:
            return False
        if (i > first and token.kind == "name"
                and tokens[i - 1].kind == "name"):
            return False
    return True


def swapped_arguments(text, tokens, index):
    token = tokens[index]
    before = tokens[index - 1]
    if (token.text != "(" or token.partner < 0 or before.kind != "name"
            or before.text in NOT_CALLS | TYPES | set(NO_EFFECT)
            or before.text == "exchange"  # the first is assigned to
            or before.text.isupper()):
        return
    found = list(arguments(tokens, index))
    for (a, b), (c, d) in zip(found, found[1:]):
        if not (is_plain(tokens, a, b) and is_plain(tokens, c, d)):
            continue
        first = text[tokens[a].start:tokens[b].end]
        second = text[tokens[c].start:tokens[d].end]
        between = text[tokens[b].end:tokens[c].start]
        if first == second or "//" in between or "/*" in between:
            continue
        if re.search(r"\bc?r?begin\(\)", first):
            continue  # undefined behavior instead of a wrong result
        yield Site("swapped arguments", tokens[a].start, tokens[d].end,
                   text[tokens[a].start:tokens[d].end],
                   second + between + first,
                   f"::sheaf_pick<{NUMBER}>({first}, {second}){between}"
                   f"::sheaf_pick<{NUMBER}>({second}, {first})")
