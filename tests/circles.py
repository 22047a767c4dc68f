"""Circles of files: Rust files of one crate that import each other, through others or directly.

A `use` of a name is an edge to the file that defines the name: a parent that only declares its children and re-exports
their names is looked through. What `#[cfg(test)]` guards does not count.
"""

import re
from pathlib import Path

TOKEN = re.compile(
    r"""
    //[^\n]*                                        # comments
  | /\*.*?\*/
  | b?r(?P<hashes>\#*)".*?"(?P=hashes)              # strings
  | b?"(?:\\.|[^"\\])*"
  | b?'(?:\\(?:u\{[^}]*\}|x..|.)|[^'\\])'           # characters, not lifetimes
  | (?P<token>\w+|::|[{}()\[\];,*&=!#]|.)
    """,
    re.VERBOSE | re.DOTALL,
)
ITEM = re.compile(r"struct|enum|union|trait|type|fn|const|static|macro_rules")


def circles(root):
    """The circles among the files of the crate whose first file is `root`, each as the sorted list of its files."""
    crate = Crate(root)
    return components(crate.edges())


class File:
    """A module in a file of its own."""

    def __init__(self, path, module):
        self.path, self.module = path, module
        self.children = {}
        """Names of the modules declared in it, inline ones included → their paths."""
        self.defined = set()
        self.imported = {}
        """Names that a `use` brings → (path, public)."""
        self.globs = []
        self.paths = []
        """Every path in it, without the public re-exports."""
        self.words = set()
        """Every identifier in it, without those of `use`."""


class Crate:
    """The modules of a crate and what they import of each other."""

    def __init__(self, root):
        self.modules = {}
        self.read(root, (), root.parent)

    def read(self, path, module, folder):
        file = File(path, module)
        self.modules[module] = file
        tokens = [m.group("token") for m in TOKEN.finditer(path.read_text(encoding="utf-8"))]
        self.items([t for t in tokens if t and not t.isspace()], file, folder)

    def items(self, tokens, file, folder):
        """Items at the top of a module, and every path in them."""
        scope, at, depth = file.module, 0, 0
        scopes = []
        while at < len(tokens):
            token = tokens[at]
            if token == "#" and tokens[at + 1 : at + 2] == ["["]:
                end = closing(tokens, at + 1)
                attribute = "".join(tokens[at + 2 : end])
                at = end + 1
                if attribute == "cfg(test)":
                    at = after_item(tokens, at)
                continue
            if token == "use" and tokens[at + 1] != "<":
                end = tokens.index(";", at)
                public = at > 0 and tokens[at - 1] in ("pub", ")")
                for path, name in flatten(tokens[at + 1 : end]):
                    self.add_use(file, scope, path, name, public and depth == len(scopes))
                at = end + 1
                continue
            if token == "mod" and re.fullmatch(r"\w+", tokens[at + 1]) and depth == len(scopes):
                name, child = tokens[at + 1], scope + (tokens[at + 1],)
                file_of_scope = self.modules[scope]
                file_of_scope.children[name] = child
                if tokens[at + 2] == ";":
                    inner = folder.joinpath(*scope[len(file.module) :])
                    path = next(p for p in (inner / f"{name}.rs", inner / name / "mod.rs") if p.exists())
                    self.read(path, child, inner / name)
                    at += 3
                else:
                    # An inline module: of the same file, with names of its own.
                    self.modules[child] = File(file.path, child)
                    scopes.append((scope, depth))
                    scope, depth, at = child, depth + 1, at + 3
                continue
            if token == "{":
                depth += 1
            elif token == "}":
                depth -= 1
                if scopes and scopes[-1][1] == depth:
                    scope = scopes.pop()[0]
            elif ITEM.fullmatch(token) and depth == len(scopes) and at + 1 < len(tokens):
                name = tokens[at + 2] if token == "macro_rules" or tokens[at + 1] == "mut" else tokens[at + 1]
                self.modules[scope].defined.add(name)
            elif re.match(r"\w", token):
                self.modules[scope].words.add(token)
            if at + 1 < len(tokens) and tokens[at + 1] == "::" and tokens[at - 1] != "::" and re.match(r"\w", token):
                segments = [token]
                while tokens[at + 1 : at + 2] == ["::"] and re.match(r"\w", tokens[at + 2]):
                    segments.append(tokens[at + 2])
                    at += 2
                self.modules[scope].paths.append(tuple(segments))
            at += 1

    def add_use(self, file, scope, path, name, public):
        module = self.modules[scope]
        if name == "*":
            module.globs.append((path, public))
        else:
            module.imported[name] = (path, public)
        if not public:
            module.paths.append(path if name != "*" else (*path, "*"))

    def edges(self):
        """File → files that it imports."""
        edges = {file.path: set() for file in self.modules.values()}
        for module, file in self.modules.items():
            # A name that is passed on and also used here is imported all the same.
            used = [path for name, (path, public) in file.imported.items() if public and name in file.words]
            for path in [*file.paths, *used]:
                for target in self.find(module, path):
                    if target != file.path:
                        edges[file.path].add(target)
        return edges

    def find(self, module, path, seen=frozenset()):
        """The files that define what `path` names in `module`; none for other crates' names."""
        if (module, path) in seen:
            return set()
        seen |= {(module, path)}
        first, *rest = path
        if first == "crate":
            return self.walk((), rest, seen)
        if first == "self":
            return self.walk(module, rest, seen)
        if first == "super":
            return self.walk(module[:-1], rest, seen) if not rest or rest[0] != "super" else self.find(module[:-1], tuple(rest), seen)
        file = self.modules[module]
        if first in file.imported and file.imported[first][0][0] == first and first not in file.children:
            # `use std::fmt::{self, …}`, `use anyhow::anyhow`: another crate.
            return set()
        if first in file.children or first in file.imported or first in file.defined:
            return self.walk(module, list(path), seen)
        return set()

    def walk(self, module, names, seen):
        for at, name in enumerate(names):
            file = self.modules[module]
            if name == "*":
                # Everything that the module defines, and what it passes on.
                passed = [self.find(module, (*path, "*"), seen) for path, public in file.globs if public]
                passed += [self.find(module, path, seen) for path, public in file.imported.values() if public]
                return set().union(*passed, {file.path} if file.defined else set())
            if name in file.children:
                module = file.children[name]
                continue
            if name in file.imported:
                return self.find(module, (*file.imported[name][0], *names[at + 1 :]), seen)
            if name in file.defined:
                return {file.path}
            through = [self.find(module, (*path, *names[at:]), seen) for path, _ in file.globs]
            return set().union(*through)
        # A module by its name: what is used of it follows in a path of its own.
        return set()


def flatten(tokens):
    """`a::{b, c::d as e, self}` as (path, name) of each leaf."""
    prefix, at = [], 0
    while at < len(tokens):
        token = tokens[at]
        if token == "{":
            for part in split(tokens[at + 1 : closing(tokens, at)]):
                for path, name in flatten(part):
                    if path == ("self",) and prefix:
                        yield tuple(prefix), prefix[-1] if name == "self" else name
                    else:
                        yield (*prefix, *path), name
            return
        if token == "*":
            yield tuple(prefix), "*"
            return
        if token == "as":
            yield tuple(prefix), tokens[at + 1]
            return
        if token != "::":
            prefix.append(token)
        at += 1
    if prefix:
        yield tuple(prefix), prefix[-1]


def split(tokens):
    part, depth = [], 0
    for token in tokens:
        depth += (token == "{") - (token == "}")
        if token == "," and depth == 0:
            yield part
            part = []
        else:
            part.append(token)
    yield part


def closing(tokens, at):
    """Index of the bracket that closes the one at `at`."""
    opening, depth = tokens[at], 0
    close = {"{": "}", "[": "]", "(": ")"}[opening]
    while True:
        depth += (tokens[at] == opening) - (tokens[at] == close)
        if depth == 0:
            return at
        at += 1


def after_item(tokens, at):
    """Index behind the item that begins at `at`."""
    while tokens[at] == "#":
        at = closing(tokens, at + 1) + 1
    while tokens[at] not in (";", "{", ","):
        at = closing(tokens, at) + 1 if tokens[at] in "([" else at + 1
    return (closing(tokens, at) if tokens[at] == "{" else at) + 1


def components(edges):
    """Strongly connected components of more than one file (Tarjan, without recursion). Files without edges may be left out."""
    index, low, stack, on_stack, found = {}, {}, [], set(), []
    for start in edges:
        if start in index:
            continue
        work = [(start, iter(sorted(edges[start])))]
        index[start] = low[start] = len(index)
        stack.append(start)
        on_stack.add(start)
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(sorted(edges.get(target, ())))))
                    break
                if target in on_stack:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = set()
                    while node not in component:
                        component.add(stack.pop())
                    on_stack -= component
                    if len(component) > 1:
                        found.append(sorted(component))
    return found
