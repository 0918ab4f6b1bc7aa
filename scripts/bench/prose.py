"""Prose of the pages: sentences wrapped as the documents of this tree are.

Promises  a sentence may be written over several lines of a program, and the page has lines of at most 130 characters
"""

import textwrap


def paragraph(text):
    """Lines of a paragraph; white space in `text` counts as one space."""
    return textwrap.wrap(" ".join(text.split()), 130, break_long_words=False, break_on_hyphens=False)


def items(texts):
    """Lines of a list with one item for each text."""
    lines = []
    for text in texts:
        first, *rest = textwrap.wrap(" ".join(text.split()), 128, break_long_words=False, break_on_hyphens=False)
        lines += [f"- {first}", *(f"  {line}" for line in rest)]
    return lines
