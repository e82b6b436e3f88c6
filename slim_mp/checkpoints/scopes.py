"""Scopes of variable names, as the flags give them: comma-separated, whole components.

The scope `net/unit_1` holds `net/unit_1/weights` and a variable `net/unit_1`, never anything of
`net/unit_10`.
"""

import collections
import difflib

from absl import logging

from slim_mp.compat import tf
from slim_mp.errors import UsageError


def split_scopes(scopes):
    """Splits what a flag gives into scopes.

    Args:
      scopes: comma-separated string, sequence of strings, or None. Blanks, empty parts and a slash
        at the end of a scope do not matter.

    Returns:
      A list of scopes, each once, in order.
    """
    parts = (scopes or "").split(",") if isinstance(scopes or "", str) else scopes
    cleaned = (part.strip().rstrip("/") for part in parts)
    return list(dict.fromkeys(part for part in cleaned if part))


def match_scopes(names, scopes, flag=None):
    """Finds the names that lie under any of some scopes.

    Args:
      names: iterable of variable names, with or without ":0".
      scopes: as for `split_scopes`.
      flag: name of the flag that gave the scopes, for the error.

    Returns:
      A list of the names, each once, in the order of `names`.

    Raises:
      UsageError: if a scope holds none of the names; the message offers near ones.
    """
    names = list(dict.fromkeys(names))
    hit = set()
    for scope in split_scopes(scopes):
        found = [name for name in names if lies_under(name, scope)]
        if not found:
            raise UsageError(_nothing_matches(scope, names, flag))
        logging.info("Scope %s: %d variables.", scope, len(found))
        hit.update(found)
    return [name for name in names if name in hit]


def trainable_variables(scopes, variables=None):
    """Finds the variables that training may change.

    Args:
      scopes: as for `split_scopes`; None or empty takes all.
      variables: variables to choose from, by default the trainable ones of the graph.

    Returns:
      A list of variables, each once even where scopes overlap.

    Raises:
      UsageError: if a scope holds none of the variables; the message offers near ones.
    """
    variables = tf.trainable_variables() if variables is None else variables
    by_name = {variable.op.name: variable for variable in variables}
    if not split_scopes(scopes):
        return list(by_name.values())
    return [by_name[name] for name in match_scopes(by_name, scopes, flag="trainable_scopes")]


def scopes_to_exclude(bad, names):
    """Finds the smallest scopes that hold some names and are sensible to train anew.

    That is the head where a component ends in "logits", as published recipes exclude heads; else
    the layer of the variable, or the largest scope below the network's that holds nothing else.

    Args:
      bad: names to be excluded.
      names: names of all variables, those of `bad` among them.

    Returns:
      A list of scopes, none inside another, in the order of `bad`.
    """
    counts = collections.Counter(scope for name in names for scope in _scopes_of(name))
    bad_counts = collections.Counter(scope for name in bad for scope in _scopes_of(name))
    only_bad = {scope for scope, count in bad_counts.items() if count == counts[scope]}
    found = list(dict.fromkeys(_scope_to_exclude(name, only_bad) for name in bad))
    return [s for s in found if not any(s != other and lies_under(s, other) for other in found)]


def top_scopes(names):
    """Finds the first components of some names, each once, in order."""
    return list(dict.fromkeys(name.split("/")[0] for name in names))


def few(names, most=6):
    """Writes some names for a message: `a, b and 3 more`."""
    names = list(names)
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def lies_under(name, scope):
    """Whether a variable or scope is a scope or lies under it, by whole components."""
    name = name.split(":")[0]
    return name == scope or name.startswith(scope + "/")


def _scopes_of(name):
    parts = name.split(":")[0].split("/")
    return ["/".join(parts[: depth + 1]) for depth in range(len(parts))]


def _scope_to_exclude(name, only_bad):
    *outer, layer, _ = ["", *_scopes_of(name)]
    inside_network = [scope for scope in [*outer, layer] if "/" in scope]
    for scope in inside_network:
        if scope.lower().endswith("logits"):
            return scope
    for scope in inside_network:
        if scope in only_bad:
            return scope
    return inside_network[-1] if inside_network else name


def _nothing_matches(scope, names, flag):
    known = {known.lower(): known for name in names for known in _scopes_of(name)}
    wanted = scope.lower()
    tails = [known[key] for key in known if key.endswith("/" + wanted)][:3]
    close = [known[key] for key in difflib.get_close_matches(wanted, known, n=3, cutoff=0.6)]
    near = list(dict.fromkeys(tails + close))
    where = f"--{flag}: no" if flag else "No"
    if near:
        hint = f"Did you mean {' or '.join(near)}?"
    else:
        hint = f"The outermost scopes are {few(top_scopes(names)) or '(there is no variable)'}."
    return f"{where} variable lies under the scope {scope!r}. {hint}"
