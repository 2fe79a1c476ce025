"""Join trees: their text, their forms, and how many there are."""

import msgspec
import pytest

from headrace.errors import NameFault, QueryError, SyntaxFault
from headrace.model.join_tree import (
    Branch,
    Tree,
    all_trees,
    branches,
    canonical,
    check,
    flat,
    format_tree,
    left_deep,
    parse_tree,
    ports,
)

NAMES = ("a", "b", "c", "d")


def test_the_text_of_every_tree_of_four_inputs_reads_as_the_same_tree() -> None:
    for tree in all_trees(range(4)):
        assert parse_tree(format_tree(tree, NAMES), NAMES) == tree


def test_there_are_as_many_trees_as_ways_to_nest_the_inputs() -> None:
    counts = [len({msgspec.json.encode(tree) for tree in all_trees(range(count))}) for count in range(1, 7)]

    assert counts == [1, 1, 4, 26, 236, 2752]  # Schroeder's fourth problem


def test_every_tree_is_canonical_and_holds_each_port_once() -> None:
    for tree in all_trees(range(5)):
        assert canonical(tree) == tree
        check(tree, 5)


def test_trees_of_any_ports_can_be_listed() -> None:
    assert {format_tree(tree, "abcdefgh") for tree in all_trees((7, 2, 4))} == {
        "(c e h)",
        "((c e) h)",
        "((c h) e)",
        "(c (e h))",
    }


def test_a_flat_tree_and_a_left_deep_tree_are_written_as_parentheses() -> None:
    assert format_tree(flat(4), NAMES) == "(a b c d)"
    assert format_tree(left_deep((2, 0, 1, 3)), NAMES) == "(((c a) b) d)"


def test_names_that_are_no_words_are_quoted_and_case_does_not_matter() -> None:
    names = ("Left side", 'an "x"', "c")
    text = format_tree(left_deep(range(3)), names)

    assert text == '(("Left side" "an ""x""") c)'
    assert parse_tree(text.replace("c)", "C)"), names) == left_deep(range(3))


def test_trees_with_the_same_states_are_equal_in_canonical_form() -> None:
    assert canonical(parse_tree("(d (c (b a)))", NAMES)) == parse_tree("(((a b) c) d)", NAMES)
    assert canonical(Branch((1, 0, 2), ((2, 1), (0, 2), (0, 1)))) == flat(3)


def test_branches_come_before_those_that_read_them() -> None:
    tree = parse_tree("((a b) (c d))", NAMES)

    assert [ports(branch) for branch in branches(tree)] == [(0, 1), (2, 3), (0, 1, 2, 3)]


def test_children_search_the_others_as_listed_unless_orders_say_otherwise() -> None:
    assert [flat(3).order(place) for place in range(3)] == [(1, 2), (0, 2), (0, 1)]
    assert Branch((0, 1, 2), ((2, 1), (0, 2), (1, 0))).order(2) == (1, 0)


def test_a_tree_survives_json() -> None:
    tree: Tree = Branch((Branch((0, 1)), 2, 3), ((2, 1), (2, 0), (0, 1)))

    assert msgspec.json.decode(msgspec.json.encode(tree), type=Tree) == tree


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("((a b) c)", NameFault, "lacks d"),
        ("((a b) c x)", NameFault, "no input 'x'"),
        ("((a b) c a)", NameFault, "a stands twice"),
        ("((a b) (c) d)", SyntaxFault, "fewer than two"),
        ("((a b) c d", SyntaxFault, "lacks a closing"),
        ("(a b) c d)", SyntaxFault, "too many"),
        ("(a b) (c d)", SyntaxFault, "not one join"),
        ("a b c d", SyntaxFault, "not one join"),
        ("", NameFault, "lacks a, b, c, d"),
        ("(a, b c d)", SyntaxFault, "unexpected ','"),
        ("(" * 100_000, SyntaxFault, "lacks a closing"),
    ],
)
def test_a_text_that_is_no_tree_of_the_inputs_is_refused(text: str, error: type[QueryError], message: str) -> None:
    with pytest.raises(error) as caught:
        parse_tree(text, NAMES)
    assert message in caught.value.message


@pytest.mark.parametrize(
    "tree",
    [
        left_deep((0, 1)),
        Branch((0, 1, 1)),
        Branch((Branch((0,)), 1, 2)),
        Branch((0, 1, 2), ((1, 2), (0, 2), (0, 2))),
        Branch((0, 1, 2), ((1, 2), (0, 2))),
    ],
)
def test_a_tree_that_does_not_join_three_inputs_is_refused(tree: Tree) -> None:
    with pytest.raises(QueryError):
        check(tree, 3)
