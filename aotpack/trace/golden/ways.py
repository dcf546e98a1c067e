"""All ways to run a model at the build: they must agree, and golden data are recorded of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from aotpack.errors import TraceError
from aotpack.stages import Golden, Graph
from aotpack.trace.agreement.clocks import check_clocks, clocks_read
from aotpack.trace.agreement.draws import Generators, check_draws
from aotpack.trace.agreement.exported import AnotherFunction, check_export
from aotpack.trace.agreement.other_inputs.memory_orders import check_row_major
from aotpack.trace.agreement.other_inputs.representations import check_representations
from aotpack.trace.agreement.other_inputs.smallest import check_smallest
from aotpack.trace.agreement.second_call import run_once
from aotpack.trace.diagnostics.asked.questions import Branch
from aotpack.trace.eager import Call, in_program_order
from aotpack.trace.golden.budget import share_of_large, why_left_out, why_not_compared
from aotpack.trace.golden.decomposed import check_decomposed
from aotpack.trace.golden.inputs import GoldenInputs, golden_inputs
from aotpack.trace.golden.record import record_golden, without_results
from aotpack.trace.operators.random.seeds import Example, is_random
from aotpack.trace.triton.triton_kernels import TritonPort

_SHARE = 0.5  # of golden data, that inputs may take


@dataclass(frozen=True, slots=True)
class Ways:
    """The program as exported and decomposed, and the module, None where eager cannot run."""

    exported: ExportedProgram
    program: ExportedProgram
    module: nn.Module | None
    is_exported_here: bool
    triton: TritonPort | None
    fp32_precision: str = "ieee"
    branches: tuple[Branch, ...] = ()

    def golden(self, example: Example, graph: Graph, size: float, absent: str = "") -> Golden:
        """Compare the ways on the golden inputs, and record golden data in ``size`` bytes.

        ``absent`` says which tensors have no values: then there is nothing to compare.
        """
        leaves = in_program_order(self.exported, *example)
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        names = [spec.name for spec in graph.signature.inputs]
        inputs = golden_inputs(names, tensors, size * _SHARE if size < math.inf else size)
        why = absent or why_left_out(self.program, size)
        if size == 0:
            self._compare(example, graph)
        if why:
            return without_results(inputs, why)
        try:
            return self._recorded(inputs.given(example), graph, inputs, size)
        except AnotherFunction:
            raise
        except TraceError as error:
            if not inputs.drawn:
                raise
            self._compare(example, graph)
            first = str(error).splitlines()[0]
            return without_results(inputs, f"the model refuses inputs drawn from a seed: {first}")

    def _recorded(
        self, example: Example, graph: Graph, inputs: GoldenInputs, size: float
    ) -> Golden:
        eager, leaves = self._compare(example, graph), in_program_order(self.exported, *example)
        own = self.triton, self.fp32_precision
        return record_golden(eager, self.program, leaves, graph, inputs, size, *own)

    def _compare(self, example: Example, graph: Graph) -> Sequence[Any] | None:
        """Eager's results; the exported program and the graph must give the same."""
        if self.module is None:
            return None
        signature = graph.signature
        call = Call(self.module, self.exported, example, signature)
        generators = Generators()
        with clocks_read() as clocks:
            eager = run_once(call)
        check_clocks(call, clocks)
        check_draws(call, generators.drawn())
        if is_random(self.exported):
            return eager
        found: Sequence[Any] = eager
        if self.is_exported_here:
            found = check_export(call, eager)
        self._compare_decomposed(call, found)
        if self.is_exported_here:
            share = share_of_large(self.exported)
            check_row_major(call, self._compare_decomposed)
            check_representations(call, self._compare_decomposed)
            check_smallest(call, self.branches, self._compare_decomposed, share)
        return eager

    def _compare_decomposed(self, call: Call, found: Sequence[Any], *where: str) -> None:
        if not why_not_compared(self.program):
            given = self.exported, self.program, call.example, call.signature, found
            check_decomposed(*given, *where)
