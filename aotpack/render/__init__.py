"""Schedule -> text: a source for each kernel variant, and the wrapper that launches them.

In reading order: ``languages`` (the kernel languages), ``environment`` and ``contexts`` (templates
and their inputs), ``emit`` (values to lines), ``triton``, ``c``, ``sources`` (sources by content),
``forms`` (the forms of a launch), ``kernels`` (variants to sources), ``foreign`` (the
user's kernels, torch), ``launch_texts`` and ``wrapper``, ``interface`` (types for users' code),
``join`` (several methods as one), ``report`` (a page about a package).
"""

from dataclasses import replace

from aotpack.ir.kernels.kernel import with_exchanges_of
from aotpack.ir.kernels.traffic import bytes_of_call
from aotpack.render.c.kernels import host_file
from aotpack.render.interface import render_interface
from aotpack.render.join import join
from aotpack.render.kernels import render_kernels
from aotpack.render.languages import reserved_names
from aotpack.render.wrapper import derived_weights, peak_bytes, render_wrapper
from aotpack.stages import Decisions, Rendered, Scheduled
from aotpack.target import Target

__all__ = ["join", "render", "reserved_names"]

FIRST_FORMS = Decisions()


def render(
    scheduled: Scheduled, targets: tuple[Target, ...], decisions: Decisions = FIRST_FORMS
) -> Rendered:
    """Render the variants that some target can pick, in the forms that the decisions select."""
    scheduled = _with_exchanges_of(scheduled, targets)
    kernels, plans, selector = render_kernels(scheduled, targets, decisions)
    return Rendered(
        scheduled.signature,
        scheduled.weights,
        scheduled.golden,
        kernels,
        render_wrapper(scheduled.signature, plans),
        max(peak_bytes(plan.schedule, plan.steps) for plan in plans),
        host_file(f"{scheduled.signature.name} {scheduled.signature.version}", kernels),
        tuple(sorted(selector.opened)),
        tuple(sorted(selector.settled)),
        tuple(sorted(selector.sources.calls.values(), key=lambda call: call.name)),
        render_interface(scheduled.signature),
        derived_weights(plans),
        {str(one): bytes_of_call(scheduled.on(one.arch)) for one in targets},
    )


def _with_exchanges_of(scheduled: Scheduled, targets: tuple[Target, ...]) -> Scheduled:
    """The same without exchange memory that these targets do not use."""
    arches = [target.arch for target in targets]
    per_arch = tuple(
        replace(one, schedule=with_exchanges_of(one.schedule, arches)) for one in scheduled.per_arch
    )
    return replace(
        scheduled, schedule=with_exchanges_of(scheduled.schedule, arches), per_arch=per_arch
    )
