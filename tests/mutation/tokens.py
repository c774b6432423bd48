"""Tokens of C++ sources that clang-format has formatted, with the brackets that
belong together and the parts that are function bodies. Formatted sources have a
space on both sides of a comparison and none before a template's bracket, which
tells them apart without parsing the language.
"""
import re
from dataclasses import dataclass

TOKEN = re.compile(r"""
    (?P<skip>\s+|//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:[^\n\\]|\\.)*)
  | (?P<string>R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"|(?:u8|[uUL])?"(?:\\.|[^"\\])*"
      |'(?:\\.|[^'\\])+')
  | (?P<number>\.?\d(?:[eEpP][+-]|[\w.']\b|[\w.])*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<mark><=>|->\*?|::|\.\.\.|<<=|>>=|(?<=\s)<<|(?<=\s)>>|<=|>=|==|!=|&&|\|\|
      |\+\+|--|[-+*/%&|^]=|.)
""", re.VERBOSE | re.DOTALL | re.MULTILINE)
CLOSING = {"(": ")", "[": "]", "{": "}", "<": ">"}


@dataclass
class Token:
    kind: str
    text: str
    start: int
    end: int
    spaced: bool  # white space before it
    partner: int = -1  # index of the bracket that belongs to it
    code: bool = False  # part of a function body
    template: bool = False  # between the brackets of template arguments


def tokens_of(text):
    result = []
    end = 0
    for match in TOKEN.finditer(text):
        kind = match.lastgroup if match.lastgroup != "tag" else "string"
        if kind != "skip":
            result.append(Token(kind, match[0], match.start(), match.end(),
                                match.start() > end))
            end = match.end()
    match_brackets(result)
    mark_code(result)
    return result


def opens_template(tokens, index):
    before = tokens[index - 1] if index else None
    return (before is not None and before.kind == "name"
            and (not tokens[index].spaced or before.text == "template"))


def match_brackets(tokens):
    stack = []
    for index, token in enumerate(tokens):
        token.template = any(tokens[i].text == "<" for i in stack)
        if token.kind != "mark":
            continue
        if token.text in "([{" or (token.text == "<"
                                   and opens_template(tokens, index)):
            stack.append(index)
        elif token.text == ">" and stack and tokens[stack[-1]].text == "<":
            join(tokens, stack.pop(), index)
        elif token.text in ")]}":
            while stack and CLOSING[tokens[stack[-1]].text] != token.text:
                stack.pop()
            if stack:
                join(tokens, stack.pop(), index)


def join(tokens, first, last):
    tokens[first].partner = last
    tokens[last].partner = first


def mark_code(tokens):
    """A brace opens code if it follows a parameter list, or is within code."""
    stack = ["outside"]
    for index, token in enumerate(tokens):
        if token.text == "}" and len(stack) > 1:
            stack.pop()
        token.code = stack[-1] == "code"
        if token.text == "{":
            stack.append(kind_of_brace(tokens, index, stack[-1]))


def kind_of_brace(tokens, index, around):
    head = []
    i = index - 1
    while i >= 0 and tokens[i].text not in (";", "{", "}"):
        if tokens[i].text in ")]>" and tokens[i].partner >= 0:
            head.append(tokens[i].text)
            i = tokens[i].partner
        head.append(tokens[i].text)
        i -= 1
    if around == "code":
        is_type = head and head[-1] in ("class", "struct", "union", "enum")
        return "outside" if is_type else "code"
    if {"class", "struct", "union", "enum", "namespace", "extern"} & set(head):
        return "outside"
    if "=" in head or (head and "(" not in head and around == "outside"):
        return "values"
    return "values" if around == "values" else "code"
