"""Splits a network in two after one of its layers."""

from __future__ import annotations

from typing import Any

from torch import fx, nn

from evenstream.errors import InputError, calling

ADVICE = "pass the two parts yourself: Frozen(first, then=second)"


def split(network: nn.Module, layer: str) -> tuple[nn.Module, nn.Module]:
    """The part up to and including a layer, and the rest; `rest(first(x))` is `network(x)`.

    Both share the network's modules. Only the code that calls the layer is traced, by torch.fx;
    other layers are not looked into.

    Args:
        network: the network to split.
        layer: name of the last layer of the first part, as in `named_modules`: "layer3".
    """
    names = [name for name, _ in network.named_modules() if name]
    if layer not in names:
        children = ", ".join(name for name, _ in network.named_children()) or "none"
        raise InputError(f"the network has no layer {layer!r}; its layers are: {children}")
    with calling(f"splitting the network after {layer!r}; {ADVICE}; torch.fx"):
        graph = _Tracer(layer).trace(network)
    nodes = [node for node in graph.nodes if node.op == "call_module" and node.target == layer]
    if len(nodes) != 1:
        raise InputError(
            f"the network uses layer {layer!r} {len(nodes)} times, so it cannot be split there; "
            + ADVICE
        )
    first = _ancestors(nodes[0])
    crossing = [
        node
        for node in first
        if node is not nodes[0] and any(user not in first for user in node.users)
    ]
    if crossing:
        raise InputError(
            f"the network cannot be split after {layer!r}: {crossing[0].name} goes around it; "
            + ADVICE
        )
    return fx.GraphModule(network, _head(graph, nodes[0], first)), fx.GraphModule(
        network, _tail(graph, nodes[0], first)
    )


class _Tracer(fx.Tracer):
    """Looks only into the modules that contain the layer."""

    def __init__(self, layer: str) -> None:
        super().__init__()
        self._layer = layer

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return not self._layer.startswith(f"{module_qualified_name}.")


def _ancestors(node: fx.Node) -> set[fx.Node]:
    """A node and everything it is computed from."""
    found, waiting = {node}, [node]
    while waiting:
        new = [each for each in waiting.pop().all_input_nodes if each not in found]
        found.update(new)
        waiting += new
    return found


def _head(graph: fx.Graph, last: fx.Node, first: set[fx.Node]) -> fx.Graph:
    made, values = fx.Graph(), dict[fx.Node, Any]()
    for node in graph.nodes:
        if node in first:
            values[node] = made.node_copy(node, values.__getitem__)
    made.output(values[last])
    return made


def _tail(graph: fx.Graph, last: fx.Node, first: set[fx.Node]) -> fx.Graph:
    made = fx.Graph()
    values = {last: made.placeholder("features")}
    for node in graph.nodes:
        if node not in first and node.op != "placeholder":
            values[node] = made.node_copy(node, values.__getitem__)
    return made
