"""Mistakes of plugin authors that type checkers have to find. Checked, never run.

The mark of a line gives mypy's code and pyright's rule, and the reason where only one of them finds the mistake.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import pyarrow as pa

from zephon import Pipeline
from zephon.abc import (
    CheckpointStore,
    FileInfo,
    LaneContext,
    LaneOperator,
    LaneState,
    OperatorContext,
    RowOperator,
    Runner,
    RunnerFacts,
    Shard,
    ShardIndex,
    Snapshot,
    SpecialTokens,
    StorageBackend,
    Tokenizer,
    WorkSource,
)
from zephon.block import Block
from zephon.errors import BadRowsError, ConfigError
from zephon.plugins import (
    OperatorDescriptor,
    ShardFormatDescriptor,
    StorageDescriptor,
    register,
    registry,
)
from zephon.spec import execution


def misspelt() -> None:
    from zephon.abc import ShardReaders  # E: attr-defined | reportAttributeAccessIssue
    from zephon.plugins import OperatorDescripter  # E: attr-defined | reportAttributeAccessIssue

    print(ShardReaders, OperatorDescripter)


# --- a row operator ---------------------------------------------------------------------------------------------------


@attrs.frozen(slots=True)
class Incomplete(RowOperator):
    field: str = "text"
    parallelism: int | None = execution(default="all")  # E: assignment | reportAssignmentType
    workers: Sequence[str] = execution(factory=set[str])  # E: arg-type | reportAssignmentType

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        return schema


@attrs.frozen(slots=True)
class Shout(RowOperator):
    field: str = "text"
    parallelism: int | None = execution(default=None)

    preserves_rows = "yes"  # E: assignment | - ; Any to pyright, see zephon.abc.Operator

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        return schema

    def setup(self, context: LaneContext) -> None:  # E: override | reportIncompatibleMethodOverride
        self.field = f"{context.lane}"  # E: misc | reportAttributeAccessIssue

    def apply(self, block: Block) -> Block:
        block.lane = 3  # E: misc | reportAttributeAccessIssue
        if len(block) > 3:
            raise BadRowsError([3])  # E: list-item | reportArgumentType
        if len(block) > 2:
            raise ConfigError("no such thing", found="that")  # E: call-arg | reportCallIssue
        if len(block) > 1:
            return block.take([0])  # E: arg-type | reportArgumentType
        return block.origins  # E: return-value | reportReturnType


class WrongResult(Shout):
    def apply(self, block: Block) -> list[Block]:  # E: override | reportIncompatibleMethodOverride
        return [block]


class WrongName(Shout):
    def apply(self, rows: Block) -> Block:  # E: - | reportIncompatibleMethodOverride ; mypy looks at positions
        return rows


class WrongCount(Shout):
    def apply(self, block: Block, context: OperatorContext) -> Block:  # E: override | reportIncompatibleMethodOverride
        return block


# --- a lane operator --------------------------------------------------------------------------------------------------


class Fold(LaneOperator):
    emits = "batches"  # E: assignment | reportAssignmentType

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        return schema

    def open(self, context: LaneContext) -> "Fold":  # E: override | reportIncompatibleMethodOverride
        return self


class State(LaneState):
    def push(self, block: Block) -> Block:  # E: override | reportIncompatibleMethodOverride
        return block

    def finish(self) -> Iterable[Block]:
        return None  # E: return-value | reportReturnType

    def snapshot(self) -> Snapshot:
        return Snapshot({"seen": 1})  # E: call-arg | reportCallIssue

    def restore(self, snapshot: dict[str, Any]) -> None:  # E: override | reportIncompatibleMethodOverride
        print(snapshot["seen"])


# --- other points -----------------------------------------------------------------------------------------------------


class Storage(StorageBackend):
    async def stat(self, url: str) -> FileInfo:  # E: override | reportIncompatibleMethodOverride
        return FileInfo(url=url)  # E: call-arg | reportCallIssue


class Threads(Runner):
    def facts(self) -> RunnerFacts:  # E: override | reportIncompatibleMethodOverride
        return RunnerFacts(workers="two")  # E: arg-type | reportArgumentType


class Source(WorkSource):
    def lane_length(self, lane: int, lanes: int) -> float:  # E: override | reportIncompatibleMethodOverride
        return float("inf")


class Store(CheckpointStore):
    def steps(self) -> set[int]:  # E: override | reportIncompatibleMethodOverride
        return set()


class Words(Tokenizer):
    def encode(self, texts: pa.Array, *, specials: bool) -> Any:  # E: override | reportIncompatibleMethodOverride
        return texts


Shard(url="a", name="a", file="a")  # E: arg-type | reportArgumentType
ShardIndex(rows=3)  # E: call-arg | reportCallIssue
SpecialTokens(eos="</s>")  # E: arg-type | reportArgumentType

# --- descriptors ------------------------------------------------------------------------------------------------------

OperatorDescriptor(name="shout", summary="upper-cases")  # E: call-arg | reportCallIssue
OperatorDescriptor("shout", "upper-cases", "acme:Shout")  # E: call-arg | reportCallIssue
OperatorDescriptor(name="shout", summary="x", impl=Shout)  # E: arg-type | reportArgumentType
OperatorDescriptor(name="shout", summary="x", impl="a:B", suffixes=())  # E: call-arg | reportCallIssue
ShardFormatDescriptor(name="lines", summary="x", impl="a:B", suffixes=".lines")  # E: arg-type | reportArgumentType
ShardFormatDescriptor(name="lines", summary="x", impl="a:B", capabilities=3)  # E: arg-type | reportArgumentType
StorageDescriptor(name="mem", summary="x", impl="a:B")  # E: call-arg | reportCallIssue
described = OperatorDescriptor(name="shout", summary="x", impl="a:B")
described.name = "whisper"  # E: misc | reportAttributeAccessIssue
register("operator", Shout)  # E: arg-type | reportArgumentType
registry(described)  # E: arg-type | reportArgumentType

# --- in use -----------------------------------------------------------------------------------------------------------


def build(source: WorkSource) -> None:
    Incomplete()  # E: abstract | reportAbstractUsage
    State()
    Storage()  # E: abstract | reportAbstractUsage
    Shout(suffix="!")  # E: call-arg | reportCallIssue
    Shout(field=3)  # E: arg-type | reportArgumentType
    Pipeline(source).pipe(Shout)  # E: arg-type | reportArgumentType
    Pipeline(source).pipe(State())  # E: arg-type | reportArgumentType
    Pipeline(source).pipe(lambda block: block)  # E: arg-type | reportArgumentType
    Pipeline(source).pipe(Shout(), 4)  # E: call-arg | reportCallIssue
    Pipeline(source).pipe(Shout(), name="shout")  # E: call-arg | reportCallIssue
    Pipeline(source).shout()  # E: attr-defined | reportAttributeAccessIssue
