"""The passes of a schedule, in order. ``docs/passes.md`` describes each, from its docstring.

``PREPARE`` rewrites the program, for all architectures at once. ``PLAN`` makes kernels of it: once,
and again for architectures with resident rows that are split elsewhere. Parts of branches and loops
go through both, as does the weight program, whose outputs have ``given`` strides.
"""

from aotpack.ir.verify.phases import Phase
from aotpack.schedule.draft import Passes, draft_pass
from aotpack.schedule.fusion.code_scales import scale_codes_after_products
from aotpack.schedule.fusion.concat_in_place import concat_in_place
from aotpack.schedule.fusion.fuse import fuse
from aotpack.schedule.fusion.late_scales import scale_after_products
from aotpack.schedule.fusion.rounding import match_rounding
from aotpack.schedule.interchange import interchange_loops
from aotpack.schedule.launches.hold_loops import hold_loops
from aotpack.schedule.launches.horizontal import fuse_horizontally
from aotpack.schedule.launches.last_block import run_in_last_block
from aotpack.schedule.launches.next_codes import request_next_codes
from aotpack.schedule.launches.order import order_kernels
from aotpack.schedule.launches.peak import reorder_for_memory
from aotpack.schedule.launches.unfused import offer_unfused
from aotpack.schedule.layout import choose_strides
from aotpack.schedule.memory.in_place_updates import place_updates
from aotpack.schedule.memory.lifetimes import plan_memory
from aotpack.schedule.memory.scan_exchange import declare_exchanges
from aotpack.schedule.parts import attach_parts, schedule_parts, schedule_weight_program
from aotpack.schedule.program.attend_before_append import attend_before_append
from aotpack.schedule.program.causal_mask import recognise_causal_masks
from aotpack.schedule.program.copy_windows import copy_windows
from aotpack.schedule.program.dead_code import remove_dead_code
from aotpack.schedule.program.fixed_order import fix_order
from aotpack.schedule.program.gelu import recognise_gelu
from aotpack.schedule.program.insert_copies import insert_copies
from aotpack.schedule.program.merge_products import merge_products
from aotpack.schedule.program.online_softmax import merge_softmax_sums
from aotpack.schedule.program.prologue import widen_in_products
from aotpack.schedule.program.realize import realize
from aotpack.schedule.program.spare_roundings import (
    drop_kernels_roundings,
    drop_spare_roundings,
)
from aotpack.schedule.program.split.split_reduction import split_reductions
from aotpack.schedule.program.sum_groups import sum_groups
from aotpack.schedule.program.weight_panels import lay_in_panels
from aotpack.schedule.program.weight_program import derive_weights
from aotpack.schedule.sorts.expand_sorts import expand_sorts
from aotpack.schedule.tiles.choose import choose_tiles, one_tile_for_all_sizes
from aotpack.schedule.tiles.padding import pad_strides

PREPARE = (
    draft_pass(remove_dead_code, "program"),
    draft_pass(derive_weights, "program", only_without="given"),
    draft_pass(schedule_parts, "program parts"),
    draft_pass(fix_order, "program", only_with="deterministic"),
    draft_pass(insert_copies, "program"),
    draft_pass(widen_in_products, "program"),
    draft_pass(merge_products, "program", only_without="given"),
    draft_pass(scale_codes_after_products, "program", only_without="is_host"),
    draft_pass(drop_spare_roundings, "program"),
    draft_pass(realize, "program"),
    draft_pass(recognise_gelu, "program"),
    draft_pass(recognise_causal_masks, "program"),
    draft_pass(attend_before_append, "program", only_without="part"),
    draft_pass(merge_softmax_sums, "program"),
    draft_pass(copy_windows, "program"),
    draft_pass(expand_sorts, "program"),
)

PLAN = (
    draft_pass(lay_in_panels, "program", only_with="is_host", only_without="given"),
    draft_pass(sum_groups, "program", only_without="is_host"),
    draft_pass(split_reductions, "program"),
    draft_pass(scale_after_products, "program", only_without="is_host"),
    draft_pass(remove_dead_code, "program"),  # unused after splitting
    draft_pass(concat_in_place, "program"),
    draft_pass(fuse, "kernels", reaches=Phase.FUSED),
    draft_pass(order_kernels, "kernels", reaches=Phase.ORDERED),
    draft_pass(drop_kernels_roundings, "program kernels"),
    draft_pass(match_rounding, "program kernels"),
    draft_pass(attach_parts, "kernels"),
    draft_pass(choose_strides, "strides", reaches=Phase.LAID_OUT),
    draft_pass(interchange_loops, "kernels strides", only_without="is_host"),
    draft_pass(pad_strides, "strides"),
    draft_pass(choose_tiles, "kernels", reaches=Phase.TILED),
    draft_pass(hold_loops, "kernels", only_without="is_host"),
    draft_pass(one_tile_for_all_sizes, "kernels", only_with="deterministic"),
    draft_pass(reorder_for_memory, "kernels"),
    draft_pass(place_updates, "program kernels strides", reaches=Phase.UPDATED),
    draft_pass(run_in_last_block, "kernels", only_without="partition"),
    draft_pass(fuse_horizontally, "kernels", only_without="given"),
    draft_pass(request_next_codes, "kernels", only_without="is_host"),
    draft_pass(declare_exchanges, "kernels", reaches=Phase.LAUNCHED),
    draft_pass(schedule_weight_program, "program weights"),
    draft_pass(plan_memory, "lifetimes", reaches=Phase.COMPLETE),
    draft_pass(offer_unfused, "kernels", only_with="offers_unfused"),
)

PASSES = Passes(PREPARE, PLAN)
