# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""C text with many mutants in it, one of which is chosen at run time.

A mutant is a small change of one function. The text that comes out does what the old one does, but
where generated_at(N) is true it does what mutant N does. So one build serves all mutants.

  order   an acquire, a release or a fence is weaker, or is left out
  logic   a statement is dropped; a condition is negated; an operand of && or || is dropped; two
          statements change places; a constant or a comparison is off by one
  flow    an if becomes an else-if of the one before it; a loop ends with its first match; a
          statement moves behind the next call

Oracles have no mutants: functions named *_check, CHECK and DCHECK.
"""

import collections
import re

import tree_sitter
import tree_sitter_c

# file: below the root. nth: among equal changes in one function. line: for people only.
Mutant = collections.namedtuple("Mutant", "number file line function kind change nth")

# What stands in for a call, and what becomes of its arguments.
WEAKER = {"host_load_acquire": "host_load_relaxed", "host_load_dep": "host_load_relaxed",
          "host_store_release": "host_store_relaxed"}
BOTH_HALVES = "(host_fence_acquire(), host_fence_release())"
FENCES = {"host_fence_acquire": ["(void)0"], "host_fence_release": ["(void)0"],
          "host_fence_light": ["(void)0"], "host_fence_full": ["(void)0", BOTH_HALVES],
          "host_fence_heavy": ["(void)0", "host_fence_full()"],
          "host_fence_global": ["true", "(host_fence_full(), true)"],
          "host_fence_abort": ["true", "(host_fence_full(), true)"]}

ORACLES = {"CHECK", "DCHECK", "static_assert", "_Static_assert", "host_fail"}
CONSTANT = re.compile(r"[A-Z][A-Z0-9_]+$")
NO_CONSTANT = {"NULL"}
# No code runs there, or the compiler must know the value.
FIXED = {"enum_specifier", "struct_specifier", "union_specifier", "sizeof_expression",
         "offsetof_expression", "preproc_def", "preproc_function_def", "preproc_include",
         "type_descriptor", "attribute_specifier", "static_assert_declaration", "comment",
         "array_declarator", "function_declarator", "preproc_call", "alignof_expression"}
LOOPS = {"while_statement", "for_statement", "do_statement"}
PLACES = {"expression_statement", "if_statement", "switch_statement", *LOOPS}
LISTS = {"compound_statement", "case_statement"}
JUMPS = {"break_statement", "continue_statement", "goto_statement"}
LEAVES = {"return_statement", *JUMPS}
FAR = 3 # statements between one that moves and the call behind which it moves
COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
SHOWN_COLUMNS = 100


def said(node):
    """Its text in one line, without comments."""
    text = re.sub(r"/\*.*?\*/", " ", node.text.decode(), flags=re.DOTALL)
    return re.sub(r"\s+", " ", text).strip()


def shown(node):
    """The same, but not too long: for reports and for the list of equivalent mutants."""
    text = said(node)
    return text if len(text) <= SHOWN_COLUMNS else text[:SHOWN_COLUMNS - 4] + " ..."


def called(node):
    """The name that a call or a statement of one call calls."""
    if node.type == "expression_statement" and node.named_child_count:
        node = node.named_child(0)
    if node.type != "call_expression":
        return None
    return node.child_by_field_name("function").text.decode()


def below(node):
    yield node
    for child in node.children:
        yield from below(child)


def plain(node):
    """An expression without its parentheses, likely() and unlikely()."""
    while True:
        if node.type == "parenthesized_expression":
            node = next(c for c in node.named_children if c.type != "comment")
        elif called(node) in ("likely", "unlikely"):
            node = node.child_by_field_name("arguments").named_child(0)
        else:
            return node


def is_boolean(node):
    node = plain(node)
    if node.type == "unary_expression":
        return node.child(0).type == "!"
    return node.type == "binary_expression" and node.child(1).type in (
        "&&", "||", "==", "!=", *COMPARISONS)


def leaves(node):
    """Does it always end with a jump?"""
    if node.type == "compound_statement":
        inside = [child for child in node.named_children if child.type != "comment"]
        return bool(inside) and leaves(inside[-1])
    return node.type in LEAVES


def is_plain_if(node):
    """An if without else that goes on behind it."""
    return (node.type == "if_statement" and node.child_by_field_name("alternative") is None and
            not leaves(node.child_by_field_name("consequence")))


def has_call(node):
    return any(n.type == "call_expression" for n in live_parts(node))


def is_oracle(node):
    return called(node) in ORACLES


def commute(one, two):
    """Do two plain assignments come to the same in either order? False: perhaps not."""
    for node, other in ((one, two), (two, one)):
        if node.type != "expression_statement" or not node.named_child_count:
            return False
        if any(n.type == "call_expression" for n in below(node)):
            return False
        target = node.named_child(0).child(0)
        if target is None or target.text in other.text:
            return False
    return True


def function_name(node):
    for part in below(node.child_by_field_name("declarator")):
        if part.type == "function_declarator":
            return part.child_by_field_name("declarator").text.decode()
    return ""


def live_parts(node):
    """The node and what is below it, without oracles."""
    if node.type in FIXED or is_oracle(node):
        return
    yield node
    for child in node.children:
        yield from live_parts(child)


class File:
    """One file of C text: its functions, and what may be dead in it."""

    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_c.language()))

    def __init__(self, path, text):
        self.path = path
        self.text = text.encode()
        self.tree = self.parser.parse(self.text)
        self.functions = {}
        for node in below(self.tree.root_node):
            if node.type == "function_definition":
                self.functions[function_name(node)] = node


def words_of_tables(node):
    """What tables of functions and macros name."""
    if node.type in ("initializer_list", "preproc_arg"):
        yield from re.findall(r"\w+", node.text.decode())
    elif node.type != "function_definition":
        for child in node.children:
            yield from words_of_tables(child)


def dead_functions(files, outside=frozenset()):
    """Functions that only oracles and hand-written mutants call, as (path, name). outside: the
    words of what is not generated from, where others may call them."""
    outside = outside.union(*(words_of_tables(file.tree.root_node) for file in files))
    public = {name: (file.path, name) for file in files for name in file.functions}
    mentions = {}  # function: [(who names it, is that in code that runs)]
    for file in files:
        for name, node in file.functions.items():
            body = node.child_by_field_name("body")
            live = {n.id for n in live_parts(body)}
            for part in below(body):
                word = part.text.decode() if part.type == "identifier" else ""
                whom = (file.path, word) if word in file.functions else public.get(word)
                if whom and whom != (file.path, name):
                    mentions.setdefault(whom, []).append(((file.path, name), part.id in live))
    dead = {function for function in public.values() if function[1].endswith("_check")}
    while True:
        more = {whom for whom, by in mentions.items()
                if whom not in dead and whom[1] not in outside and
                all(who in dead or not live for who, live in by)}
        if not more:
            return dead
        dead |= more


class Generator:
    """Goes over files and numbers their mutants, from 1."""

    def __init__(self, orders=True):
        self.orders = orders
        self.mutants = []
        self.unread = []  # functions that the parser does not understand
        self.file = self.function = None
        self.wraps = self.before = self.seen = None

    def add(self, node, kind, change):
        """A new mutant; returns the C expression that is true under it."""
        nth = self.seen[(kind, change)]
        self.seen[(kind, change)] += 1
        number = len(self.mutants) + 1
        self.mutants.append(Mutant(number, self.file.path, node.start_point[0] + 1,
                                   self.function, kind, change, nth))
        return f"generated_at({number}u)"

    def wrap(self, node, how):
        self.wraps.setdefault(node.id, []).append(how)

    def negate(self, node):
        """node: a condition as it stands, perhaps in the parentheses of its statement."""
        at = self.add(node, "logic", f"negated: {shown(plain(node))}")
        self.wrap(node, lambda inner: f"({at} != !!({inner}))")

    # ---- statements ----

    def drop(self, node):
        at = self.add(node, "logic", f"dropped: {shown(node)}")
        self.wrap(node, lambda inner: f"{{ if (!{at}) {inner} }}")

    def may_drop(self, node):
        kind, up = node.type, node.parent
        if kind == "break_statement" and up.type == "case_statement":
            return up.next_named_sibling is not None
        if kind == "return_statement":
            return not (up.type == "compound_statement" and
                        up.parent.type == "function_definition")
        if kind == "if_statement":
            inner = node.child_by_field_name("consequence")
            return (node.child_by_field_name("alternative") is None and
                    inner.type == "compound_statement" and inner.named_child_count > 1)
        if kind == "expression_statement":
            return (node.named_child_count > 0 and called(node) not in FENCES and
                    node.named_child(0).type != "cast_expression")  # (void)unused
        return kind in JUMPS or kind in LOOPS

    def swap(self, one, two):
        if commute(one, two) or any(n.type == "labeled_statement" or
                                    n.type.startswith("preproc_") for n in below(two)):
            return
        at = self.add(one, "logic", f"swapped: {shown(one)} | {shown(two)}")
        self.before.setdefault(one.id, []).append(f"{{ if ({at}) {said(two)} }} ")
        self.wrap(two, lambda inner: f"{{ if (!{at}) {inner} }}")

    def swaps(self, node):
        last = None
        for child in node.named_children:
            if child.type == "comment":
                continue
            good = child.type in PLACES and not is_oracle(child)
            if good and last is not None:
                self.swap(last, child)
            last = child if good else None

    # ---- flow ----

    def else_if(self, one, two):
        at = self.add(two, "flow", f"else if: {shown(two)} after {shown(one)}")
        was = f"was_{len(self.mutants)}_"
        self.before.setdefault(one.id, []).append(f"_Bool {was} = 0; ")
        self.wrap(one.child_by_field_name("condition"),
                  lambda inner: f"({was} = !!({inner}))")
        self.wrap(two, lambda inner: f"{{ if (!({at} && {was})) {inner} }}")

    def move(self, one, behind):
        at = self.add(one, "flow", f"moved: {shown(one)} behind {shown(behind)}")
        self.wrap(one, lambda inner: f"{{ if (!{at}) {inner} }}")
        self.wrap(behind, lambda inner: f"{{ {inner} if ({at}) {said(one)} }}")

    def flows(self, node):
        """Of the statements of a list."""
        places = [child for child in node.named_children if child.type != "comment"]
        for i, one in enumerate(places):
            if one.type not in PLACES or is_oracle(one):
                continue
            if (i + 1 < len(places) and is_plain_if(one) and
                    places[i + 1].type == "if_statement"):
                self.else_if(one, places[i + 1])
            if one.type == "expression_statement":
                self.move_far(one, places[i + 1:i + 2 + FAR])

    def move_far(self, one, behind):
        """Past what makes no call. The next statement alone is a swap."""
        for i, two in enumerate(behind):
            if two.type not in PLACES or is_oracle(two):
                return
            if has_call(two):
                if i > 0:
                    self.move(one, two)
                return

    def first_match(self, loop):
        body = loop.child_by_field_name("body")
        inside = body.named_children if body.type == "compound_statement" else [body]
        for node in inside:
            if not is_plain_if(node):
                continue
            at = self.add(node, "flow", f"first match ends it: {shown(node)}")
            self.wrap(node.child_by_field_name("consequence"),
                      lambda inner, at=at: f"{{ {inner} if ({at}) break; }}")

    # ---- expressions ----

    def order(self, node):
        name, function = called(node), node.child_by_field_name("function")
        if name in WEAKER:
            weaker = WEAKER[name]
            at = self.add(node, "order", f"{shown(node)} becomes {weaker}")
            self.wrap(function, lambda inner: f"({at} ? {weaker} : {inner})")
        for instead in FENCES.get(name, []):
            what = "dropped" if instead in ("(void)0", "true") else f"becomes {instead}"
            at = self.add(node, "order", f"{shown(node)} {what}")
            self.wrap(node, lambda inner, at=at, instead=instead:
                      f"({at} ? {instead} : {inner})")

    def operands(self, node):
        is_and = node.child(1).type == "&&"
        for side in ("left", "right"):
            operand = node.child_by_field_name(side)
            at = self.add(operand, "logic", f"operand dropped: {shown(operand)} "
                                            f"of {shown(node)}")
            self.wrap(operand, lambda inner, at=at: f"({at} || ({inner}))" if is_and
                      else f"(!{at} && ({inner}))")

    def compare(self, node):
        sign = node.child(1).type
        other = COMPARISONS[sign]
        at = self.add(node, "logic", f"comparison: {shown(node)} with {other}")
        # + 0: a field of bits has no type of its own.
        self.wrap(node.child_by_field_name("left"), lambda inner:
                  f"({{ __auto_type left_ = ({inner}) + 0; __auto_type right_ = ")
        self.wrap(node.child(1), lambda _: "")
        self.wrap(node.child_by_field_name("right"), lambda inner:
                  f"({inner}) + 0; {at} ? left_ {other} right_ : left_ {sign} right_; }})")

    def constant(self, node):
        around = node
        while around.parent.type not in LISTS | PLACES | {"for_statement", "declaration",
                                                          "return_statement"}:
            around = around.parent
        if around.type == "parenthesized_expression":
            around = plain(around)
        text = node.text.decode()
        what = f"off by one: {text} in {shown(around)}"
        if node.type in ("true", "false"):
            at = self.add(node, "logic", f"negated: {text} in {shown(around)}")
            self.wrap(node, lambda inner: f"({at} != {inner})")
            return
        at = self.add(node, "logic", what)
        self.wrap(node, lambda inner: f"(({inner}) + {at})")

    # ---- the walk ----

    def visit(self, node):
        if node.type in FIXED or is_oracle(node):
            return
        condition = node.child_by_field_name("condition")
        if condition is not None and node.type not in ("switch_statement", "preproc_if"):
            self.negate(condition)
        if self.is_static(node):
            return
        if node.type in LISTS:
            self.swaps(node)
            self.flows(node)
        if node.type in LOOPS:
            self.first_match(node)
        if self.may_drop(node):
            self.drop(node)
        self.expression(node)
        for child in node.children:
            if node.type == "case_statement" and child == node.child_by_field_name("value"):
                continue
            if node.type.startswith("preproc_") and child in (
                    node.child_by_field_name("name"), node.child_by_field_name("condition")):
                continue
            self.visit(child)

    @staticmethod
    def is_static(node):
        return node.type == "declaration" and any(
            c.type == "storage_class_specifier" and c.text == b"static" for c in node.children)

    def expression(self, node):
        kind = node.type
        if kind == "call_expression":
            if self.orders:
                self.order(node)
        elif kind == "binary_expression":
            sign = node.child(1).type
            if sign in ("&&", "||"):
                self.operands(node)
            elif sign in COMPARISONS:
                self.compare(node)
        elif kind == "return_statement" and node.named_child_count:
            value = node.named_child(0)
            if is_boolean(value):
                self.negate(value)
        elif kind in ("number_literal", "true", "false"):
            self.constant(node)
        elif (kind == "identifier" and CONSTANT.match(node.text.decode()) and
              node.text.decode() not in NO_CONSTANT and
              node.parent.type != "concatenated_string" and
              not (node.parent.type == "call_expression" and
                   node.parent.child_by_field_name("function") == node)):
            self.constant(node)

    def emit(self, node):
        """The node's text with all that was put around it and what is below it."""
        parts, at = [], node.start_byte
        for child in node.children:
            parts += [self.file.text[at:child.start_byte].decode(), self.emit(child)]
            at = child.end_byte
        text = "".join(parts) + self.file.text[at:node.end_byte].decode()
        for how in reversed(self.wraps.get(node.id, [])):  # what is around it came first
            text = how(text)
        return "".join(self.before.get(node.id, [])) + text

    def change(self, file, dead=()):
        """The file's text with its mutants."""
        self.file, self.wraps, self.before = file, {}, {}
        for name, node in file.functions.items():
            body = node.child_by_field_name("body")
            if (file.path, name) in dead:
                continue
            if body.has_error:
                self.unread.append(f"{file.path}: {name}")
                continue
            self.function, self.seen = name, collections.Counter()
            self.visit(body)
            head = file.text[node.start_byte:body.start_byte].decode()
            if not re.search(rf"\bvoid\s+{name}\(", head):
                # A return that was dropped must not lead into the next function.
                self.wrap(body, lambda inner: inner[:-1] + "__builtin_trap(); }")
        root = file.tree.root_node
        return (file.text[:root.start_byte].decode() + self.emit(root) +
                file.text[root.end_byte:].decode())


def generate(texts, outside=frozenset(), orders=True):
    """({path: text with mutants}, mutants, functions not read) of {path: C text}. orders: has it
    mutants of that kind?"""
    files = [File(path, text) for path, text in sorted(texts.items())]
    dead = dead_functions(files, outside)
    generator = Generator(orders)
    changed = {file.path: generator.change(file, dead) for file in files}
    return changed, generator.mutants, generator.unread
