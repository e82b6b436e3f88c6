"""Fonts that can show the names of classes, whatever script they are written in.

matplotlib's own font has Latin, Greek and Cyrillic letters and some more. For others it takes what
the system has; what no font can show would come out as boxes.
"""

import contextlib

# Has a box for every character there is.
_BOXES = "Last Resort"


def families_for(texts):
    """Chooses fonts of this system that can show some texts.

    Args:
      texts: str.

    Returns:
      A pair: the list of font families to give to matplotlib, its own first; and the set of the
      characters that none of them has.
    """
    from matplotlib import font_manager

    own = font_manager.findfont("DejaVu Sans")
    families = ["DejaVu Sans"]
    missing = {character for text in texts for character in text} - _characters(own)
    # Regular faces first, and in the order of their names, so that a choice can be repeated.
    fonts = sorted(font_manager.fontManager.ttflist, key=lambda f: (f.weight != 400, f.name))
    for font in fonts if missing else ():
        if font.name.startswith(_BOXES):
            continue
        found = missing & _characters(font.fname)
        if found and font.name not in families:
            families.append(font.name)
            missing -= found
    return families, missing


def _characters(path):
    from matplotlib import font_manager

    with contextlib.suppress(OSError, RuntimeError, ValueError):
        return {chr(code) for code in font_manager.get_font(path).get_charmap()}
    return set()
