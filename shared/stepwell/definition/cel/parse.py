"""Parses a CEL expression to its tree: the language's grammar, its macros, and the names of its types.

It checks no types: `cel.compile` has the library do that wherever definitions are written. So the deployed functions,
which read definitions that were checked, need no library.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from stepwell.definition.cel.ast import Call, Const, Ident, ListOf, MapOf, Message, NotCel, Select, Tree, children
from stepwell.definition.cel.literals import bytes_of, text_of
from stepwell.definition.cel.macros import expanded
from stepwell.definition.cel.values import INT_MAX, INT_MIN, UINT_MAX

NESTING = 50  # parentheses and the like; the library, which checks first, takes 32
DEPTH = 160  # of a tree, in which a macro counts up to four
_QUOTES = r"""\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''|"(?:\\.|[^\\"\n\r])*"|'(?:\\.|[^\\'\n\r])*'"""
_RAW = r"""[rR](?:\"\"\".*?\"\"\"|'''.*?'''|"[^"\n\r]*"|'[^'\n\r]*')"""
_TOKEN = re.compile(
    r"(?P<space>[ \t\r\n\f]+|//[^\n]*)"
    r"|(?P<double>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)"
    r"|(?P<uint>(?:0x[\da-fA-F]+|\d+)[uU])"
    r"|(?P<int>0x[\da-fA-F]+|\d+)"
    rf"|(?P<bytes>[bB](?:{_RAW}|{_QUOTES}))"
    rf"|(?P<text>{_RAW}|{_QUOTES})"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|`(?P<quoted>[\w.\-/ ]+)`"
    r"|(?P<mark>==|!=|<=|>=|&&|\|\||[-+*/%<>!?:.,()\[\]{}])",
    re.S | re.A,
)
_BINDS = {"||": 1, "&&": 2, "==": 3, "!=": 3, "<": 3, "<=": 3, ">": 3, ">=": 3, "in": 3, "+": 4, "-": 4, "*": 5,
          "/": 5, "%": 5}  # fmt: skip
_WORDS = frozenset({"false", "in", "null", "true"})
_RESERVED = frozenset({"as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop",
                       "namespace", "package", "return", "var", "void", "while"})  # fmt: skip
_CONSTANTS = {"true": True, "false": False, "null": None}
_NAMESPACES = ("math", "strings")
_TYPES = frozenset({"bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"})
PROTOBUF = "google.protobuf"
_ALIASES = {"Struct": "map", "Value": "dyn"}


class Token(NamedTuple):
    """A word of the source; `kind` is the group of the pattern that it matched."""

    kind: str
    text: str
    at: int


def parse(source: str) -> Tree:
    """Parses an expression. Raises NotCel, whose message begins with the place as the library's do."""
    parser = _Parser(_tokens(source))
    tree = parser.expression()
    parser.expect("")
    if len(source) > DEPTH:  # no character makes more than one level
        _check_depth(tree)
    return tree


def is_type(name: str) -> bool:
    """Tells whether an identifier that is no variable is a type."""
    return name in _TYPES or name.startswith(f"{PROTOBUF}.")


def _tokens(source: str) -> list[Token]:
    found: list[Token] = []
    at = 0
    while at < len(source):
        match = _TOKEN.match(source, at)
        if match is None:
            raise _error(at, f"token recognition error at: {source[at : at + 10]!r}")
        kind = match.lastgroup or ""
        if kind != "space":
            found.append(Token(kind, match[kind], at))
        at = match.end()
    found.append(Token("end", "", at))
    return found


def _check_depth(tree: Tree) -> None:
    level = [tree]
    for _ in range(DEPTH):
        level = [child for node in level for child in children(node)]
        if not level:
            return
    raise NotCel(f"exceeded the recursion depth of {DEPTH}")


def _error(at: int, message: str) -> NotCel:
    return NotCel(f"<input>:1:{at + 1}: Syntax error: {message}")


class _Parser:
    """Recursive descent over the words of one source; binary operators by how strongly they bind."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._next = 0
        self._nesting = 0

    def expression(self) -> Tree:
        self._nesting += 1
        if self._nesting > NESTING:
            raise NotCel(f"exceeded the recursion depth of {NESTING}")
        tree = self._binary(1)
        if self._takes("?"):
            yes = self._binary(1)
            self.expect(":")
            tree = Call("_?_:_", None, (tree, yes, self.expression()))
        self._nesting -= 1
        return tree

    def expect(self, text: str) -> None:
        """Takes a mark, or the end."""
        if not self._takes(text):
            raise self._refused(f", expecting {text or '<EOF>'}")

    def _binary(self, weakest: int) -> Tree:
        left = self._unary()
        while True:
            operator = self._ahead.text if self._ahead.kind in ("mark", "name") else ""
            binds = _BINDS.get(operator, 0)
            if binds < weakest or not binds:
                return left
            if operator in ("&&", "||"):
                left = _balanced(f"_{operator}_", self._operands(left, operator, binds + 1))
            else:
                self._next += 1
                left = Call("@in" if operator == "in" else f"_{operator}_", None, (left, self._binary(binds + 1)))

    def _operands(self, first: Tree, operator: str, binds: int) -> list[Tree]:
        found = [first]
        while self._takes(operator):
            found.append(self._binary(binds))
        return found

    def _unary(self) -> Tree:
        operator, signs = self._ahead.text, 0
        if self._ahead.kind != "mark" or operator not in ("-", "!"):
            return self._member(self._primary())
        while self._takes(operator):
            signs += 1
        if self._ahead.kind in ("int", "double") and (operator == "!" or signs == 1):
            number = self._number("-" if operator == "-" else "")
            tree, signs = self._member(number), signs if operator == "!" else 0
        elif operator == "!" and self._takes("-"):
            if self._ahead.kind not in ("int", "double"):
                raise self._refused()
            tree = self._member(self._number("-"))
        else:
            tree = self._member(self._primary())
        return Call(f"{operator}_", None, (tree,)) if signs % 2 else tree

    def _member(self, tree: Tree) -> Tree:
        while True:
            if self._takes("."):
                tree = self._selected(tree)
            elif self._takes("["):
                tree = Call("_[_]", None, (tree, self.expression()))
                self.expect("]")
            elif self._ahead.text == "{" and self._ahead.kind == "mark" and (name := _dotted(tree)):
                self._next += 1
                self._fields()
                tree = Message(name)
            else:
                return tree

    def _selected(self, tree: Tree) -> Tree:
        """Reads what stands behind a dot."""
        token = self._take()
        if token.kind not in ("name", "quoted") or (token.kind == "name" and token.text in _WORDS):
            raise self._refused(before=1)
        if token.kind == "name" and self._takes("("):
            if isinstance(tree, Ident) and tree.name in _NAMESPACES:
                return expanded(f"{tree.name}.{token.text}", None, self._listed(")"))
            return expanded(token.text, tree, self._listed(")"))
        if (name := _dotted(tree)).startswith(PROTOBUF):
            return Ident(_ALIASES.get(token.text, f"{name}.{token.text}"))  # a type: google.protobuf.Timestamp
        return Select(tree, token.text, test_only=False)

    def _primary(self) -> Tree:
        token = self._take()
        match token.kind:
            case "name":
                return self._named(token)
            case "int" | "double" | "uint":
                self._next -= 1
                return self._number("")
            case "text":
                return Const(text_of(token.text))
            case "bytes":
                return Const(bytes_of(token.text))
            case "mark":
                return self._enclosed(token)
        raise self._refused(before=1)

    def _enclosed(self, token: Token) -> Tree:
        match token.text:
            case "(":
                tree = self.expression()
                self.expect(")")
                return tree
            case "[":
                return ListOf(self._listed("]", may_end_with_comma=True))
            case "{":
                return MapOf(self._entries())
            case "." if self._ahead.kind == "name":
                return self._named(self._take())
        raise self._refused(before=1)

    def _named(self, token: Token) -> Tree:
        if token.text in _CONSTANTS:
            return Const(_CONSTANTS[token.text])
        if token.text == "in":
            raise self._refused(before=1)
        if token.text in _RESERVED:
            raise _error(token.at, f"reserved identifier: {token.text}")
        if self._takes("("):
            return expanded(token.text, None, self._listed(")"))
        return Ident(token.text)

    def _number(self, sign: str) -> Const:
        token = self._take()
        if token.kind == "double":
            return Const(float(sign + token.text))
        digits = token.text.rstrip("uU") if token.kind == "uint" else token.text
        value = int(sign + digits, 16 if digits.startswith("0x") else 10)
        if not (0 <= value <= UINT_MAX if token.kind == "uint" else INT_MIN <= value <= INT_MAX):
            raise _error(token.at, f"invalid {token.kind} literal")
        return Const(value)

    def _listed(self, end: str, *, may_end_with_comma: bool = False) -> tuple[Tree, ...]:
        found: list[Tree] = []
        if may_end_with_comma and self._takes(","):
            self.expect(end)
            return ()
        while not self._takes(end):
            if found:
                self.expect(",")
                if may_end_with_comma and self._takes(end):
                    break
            found.append(self.expression())
        return tuple(found)

    def _entries(self) -> tuple[tuple[Tree, Tree], ...]:
        found: list[tuple[Tree, Tree]] = []
        if self._takes(","):
            self.expect("}")
            return ()
        while not self._takes("}"):
            if found:
                self.expect(",")
                if self._takes("}"):
                    break
            key = self.expression()
            self.expect(":")
            found.append((key, self.expression()))
        return tuple(found)

    def _fields(self) -> None:
        """Reads the fields of a message literal and drops them: no expression may have one."""
        while not self._takes("}"):
            if self._take().kind not in ("name", "quoted"):
                raise self._refused(before=1)
            self.expect(":")
            self.expression()
            if not self._takes(","):
                self.expect("}")
                return

    @property
    def _ahead(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
        token = self._tokens[self._next]
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return token

    def _takes(self, text: str) -> bool:
        token = self._tokens[self._next]
        if token.text != text or token.kind not in ("mark", "end"):
            return False
        self._next += token.kind == "mark"
        return True

    def _refused(self, more: str = "", before: int = 0) -> NotCel:
        token = self._ahead if self._ahead.kind == "end" else self._tokens[self._next - before]
        return _error(token.at, f"unexpected {token.text or '<EOF>'!r}{more}")


def _dotted(tree: Tree) -> str:
    """Returns the name that a chain of fields spells, empty for any other tree."""
    names: list[str] = []
    while isinstance(tree, Select) and isinstance(tree.field, str):
        names.append(tree.field)
        tree = tree.operand
    return ".".join((tree.name, *reversed(names))) if isinstance(tree, Ident) else ""


def _balanced(operator: str, operands: list[Tree]) -> Tree:
    """Builds a tree that is as flat as can be, as the library does: the order of the operands decides, not its form."""
    if len(operands) == 1:
        return operands[0]
    middle = (len(operands) + 1) // 2
    return Call(operator, None, (_balanced(operator, operands[:middle]), _balanced(operator, operands[middle:])))
