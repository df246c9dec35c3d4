"""The parallel arguments of each node of a pool: how its ranks meet."""

from __future__ import annotations

from collections.abc import Mapping

from rackproof.errors import InputError
from rackproof.launch.model import Value
from rackproof.recipes import Layout, Pool
from rackproof.recipes.settings import Settings


def check_pool(layout: Layout, pool: Pool, gpus_per_node: int) -> None:
    """Raise InputError for a pool that nodes and GPUs contradict, or that nobody has published a command for."""
    name = f"layout {layout.id}" + (f", {pool.name}" if pool.name else "")
    gpus = pool.nodes * gpus_per_node
    if pool.gpus != gpus:
        raise InputError(layout.source, f"{name}: {pool.shape} on {gpus} GPUs", "one GPU for each rank")
    if pool.dp > 1 and pool.tp * pool.pp > gpus_per_node:
        said = f"{name}: each of its {pool.dp} replicas spans several nodes, and no source says how vLLM is told"
        raise InputError(layout.source, said, "a layout whose replicas stay on one node, or that has one replica")


class Parallel:
    """Arguments of one pool. `source` is the layout's; `node_balances`: every node has a front end of its own."""

    def __init__(
        self, pool: Pool, head: Value | None, source: str, settings: Settings, ports: Mapping[str, Value],
        *, node_balances: bool,
    ) -> None:  # fmt: skip
        self.pool, self.head, self.source = pool, head, source
        self.settings, self.ports, self.node_balances = settings, ports, node_balances

    def args(self, rank: int) -> dict[str, Value]:
        """The arguments of the node with this rank, in the order upstream writes them."""
        args = self._data_parallel(rank) if self.pool.dp > 1 else self._multi_node(rank)
        if self.pool.moe is not None:
            args["moe-backend"] = Value(self.pool.moe, self.source, "layout")
        return args

    def _number(self, number: int) -> Value:
        return Value(str(number), self.source, "layout")

    def _port(self, name: str) -> Value:
        note, port = self.settings.parallel["port_note"], self.ports[name]
        differs = "upstream leaves it to vLLM's default"
        return Value(port.text, port.source, port.origin, note.value, differs, note.source)

    def _data_parallel(self, rank: int) -> dict[str, Value]:
        pool = self.pool
        local = pool.dp // pool.nodes
        args: dict[str, Value] = {}
        if pool.tp > 1 or pool.name:
            args["tensor-parallel-size"] = self._number(pool.tp)
        args["data-parallel-size"] = self._number(pool.dp)
        args["data-parallel-size-local"] = self._number(local)
        if self.head is None:
            return args
        args["data-parallel-address"] = self.head
        args["data-parallel-rpc-port"] = self._port("dp_rpc")
        if rank > 0 or pool.name:
            args["data-parallel-start-rank"] = self._number(rank * local)
        if rank > 0 and not self.node_balances:
            note = self.settings.parallel["headless_note"]
            args["headless"] = Value(None, note.source, "recipe", note.value, "upstream has no --headless here")
        return args

    def _multi_node(self, rank: int) -> dict[str, Value]:
        args = {"tensor-parallel-size": self._number(self.pool.tp)}
        if self.pool.pp > 1:
            args["pipeline-parallel-size"] = self._number(self.pool.pp)
        if self.head is None:
            return args
        args["nnodes"] = self._number(self.pool.nodes)
        args["node-rank"] = self._number(rank)
        args["master-addr"] = self.head
        args["master-port"] = self._port("master")
        if rank > 0:
            args["headless"] = Value(None, self.source, "layout")
        return args
