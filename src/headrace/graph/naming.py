"""Readable names for the vertices of a graph, as EXPLAIN, SHOW, decisions and errors print them.

A name is what the vertex's spec says of itself with the streams that feed it: `join bids x asks on item`. It is short
and unique within its graph. The id of a vertex stays what state and statistics are filed under.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headrace.graph.feedback import tapped
from headrace.graph.graph import Graph, VertexId
from headrace.graph.place import origin_of
from headrace.model.expressions.own_names import meanings_of, rank_text, readable, window_label
from headrace.model.streams import exchange_of, is_exchange_stream, origin_of_scan
from headrace.operators.specs import Output, Over, Project, Rank, Receive, Scan, WindowOver
from headrace.operators.text import calls_text

#: No name is longer, in characters.
LONGEST_NAME = 60
#: No list of streams within a name is longer.
_LONGEST_INPUT = 24
_OVERS = (Over, WindowOver)


class Names(Mapping[VertexId, str]):
    """The short names of a graph's vertices by id; `full` also gives what a short name leaves out.

    It knows the vertices that placing the graph adds as well, but does not list them. An unknown id is its own name.
    """

    def __init__(self, graph: Graph) -> None:
        streams = _streams(graph)
        self._meanings = _meanings(graph)
        self._phrases = _phrases(graph, streams, self._meanings)
        short = {vertex: shorten(phrase) for vertex, phrase in self._phrases.items()}
        origins = {vertex: f" of {shorten('+'.join(names), LONGEST_NAME // 2)}" for vertex, names in streams.items()}
        readers = {vertex: f" ({shorten(names, LONGEST_NAME // 2)})" for vertex, names in _queries(graph).items()}
        self._suffixes = _suffixes(short, origins, readers)
        numbers = _suffixes(self._shortened())  # the suffix of a long phrase may have hidden a difference
        self._suffixes = {vertex: suffix + numbers[vertex] for vertex, suffix in self._suffixes.items()}
        self._names = self._shortened()

    def __getitem__(self, vertex: VertexId) -> str:
        if vertex in self._names:
            return self._names[vertex]
        if (received := origin_of(vertex)) != vertex:
            return shorten(f"receive {self[received]}")
        if (exchanged := exchange_of(vertex)) in self._names:
            return shorten(f"exchange of {self._names[exchanged]}")
        if (exchanged := origin_of_scan(vertex)) in self._names:
            return shorten(f"read exchange of {self._names[exchanged]}")
        if (sent := tapped(vertex)) in self._names:
            return shorten(f"send {self._names[sent]}")
        return vertex

    def __iter__(self) -> Iterator[VertexId]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def _shortened(self) -> dict[VertexId, str]:
        suffixes = self._suffixes.items()
        return {name: shorten(self._phrases[name], LONGEST_NAME - len(suffix)) + suffix for name, suffix in suffixes}

    def readable(self, text: str, vertex: VertexId) -> str:
        """Return a text about what a vertex gives, without names that only Headrace knows."""
        known = self._meanings.get(vertex) or self._meanings.get(origin_of_scan(vertex) or vertex)
        return readable(text, known or {})

    def full(self, vertex: VertexId) -> str:
        """Return the name of a vertex without any abbreviation."""
        return self._phrases[vertex] + self._suffixes[vertex] if vertex in self._phrases else self[vertex]


def shorten(text: str, longest: int = LONGEST_NAME) -> str:
    """Leave out words in the middle of a text that is too long: its beginning and its end say most."""
    if len(text) <= longest:
        return text
    room = (longest - len(" ... ")) // 2
    head, tail = text[:room], text[-room:]
    head = head if text[room] == " " else head.rpartition(" ")[0] or head
    tail = tail if text[-room - 1] == " " else tail.partition(" ")[2] or tail
    return f"{head.rstrip(' ,')} ... {tail.lstrip()}"


def _streams(graph: Graph) -> dict[VertexId, tuple[str, ...]]:
    """Return the streams that feed each vertex."""
    streams: dict[VertexId, tuple[str, ...]] = {}
    for vertex in graph:
        match vertex.spec:
            case Scan(stream=stream):
                feeding = [stream]
            case Receive(streams=received):
                feeding = list(received)
            case _:
                feeding = [name for origin in vertex.inputs for name in streams[origin]]
        streams[vertex.id] = tuple(dict.fromkeys("exchange" if is_exchange_stream(name) else name for name in feeding))
    return streams


def _phrases(
    graph: Graph, streams: Mapping[VertexId, tuple[str, ...]], meanings: Mapping[VertexId, Mapping[str, str]]
) -> dict[VertexId, str]:
    """Let each spec describe itself, with the streams behind each of its inputs."""
    inputs = {vertex: shorten("+".join(names), _LONGEST_INPUT) for vertex, names in streams.items()}
    phrases: dict[VertexId, str] = {}
    for vertex in graph:
        known = {name: text for origin in vertex.inputs for name, text in meanings[origin].items()}
        phrase = readable(vertex.spec.describe([inputs[origin] for origin in vertex.inputs]), known)
        label = window_label(call.name for call in vertex.spec.calls) if isinstance(vertex.spec, _OVERS) else ""
        phrases[vertex.id] = f"{phrase} ({label})" if label else phrase
    return phrases


def _meanings(graph: Graph) -> dict[VertexId, dict[str, str]]:
    """Return what the columns of each vertex hold that have no name of a user."""
    meanings: dict[VertexId, dict[str, str]] = {}
    for vertex in graph:
        known = {name: text for origin in vertex.inputs for name, text in meanings[origin].items()}
        match vertex.spec:
            case Project(columns=columns):
                known |= meanings_of(columns, known)
            case Over(calls=calls) | WindowOver(calls=calls) if label := window_label(call.name for call in calls):
                known |= {call.name: f"{readable(calls_text((call,)), known)} OVER {label}" for call in calls}
            case Rank(by=by, order=order, function=function, name=name):
                known[name] = rank_text(function, by, order, known)
            case _:
                pass
        meanings[vertex.id] = known
    return meanings


def _queries(graph: Graph) -> dict[VertexId, str]:
    """Return which queries each vertex works for, as text."""
    queries: dict[VertexId, set[str]] = {vertex.id: set() for vertex in graph}
    for vertex in reversed(graph.vertices):
        if isinstance(vertex.spec, Output):
            queries[vertex.id].add(vertex.spec.query)
        for origin in vertex.inputs:
            queries[origin] |= queries[vertex.id]
    return {vertex: ", ".join(sorted(names)) for vertex, names in queries.items()}


def _suffixes(names: Mapping[VertexId, str], *choices: Mapping[VertexId, str]) -> dict[VertexId, str]:
    """Tell vertices of the same name apart: by the first choice that differs for all of them, else by number."""
    alike: dict[str, list[VertexId]] = {}
    for vertex, name in names.items():
        alike.setdefault(name, []).append(vertex)
    suffixes = dict.fromkeys(names, "")
    for vertices in alike.values():
        if len(vertices) > 1:
            numbers = {vertex: f" #{number}" for number, vertex in enumerate(vertices, 1)}
            differing = (choice for choice in choices if len({choice[vertex] for vertex in vertices}) == len(vertices))
            choice = next(differing, numbers)
            suffixes |= {vertex: choice[vertex] for vertex in vertices}
    return suffixes
