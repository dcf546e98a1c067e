from aotpack.runtime.memory.arena import PLANS_KEPT, Arena
from tests.runtime.fake_device import FakeDevice


def test_growing_drops_plans_that_point_to_the_old_memory() -> None:
    device = FakeDevice()
    arena: Arena[str] = Arena(device)
    arena.reserve(100)
    arena.keep((1,), "plan")
    arena.reserve(50)
    assert arena.plan((1,)) == "plan"
    arena.reserve(1000)
    assert arena.plan((1,)) is None and len(device.blocks) == 1


def test_the_plan_unused_for_longest_goes() -> None:
    arena: Arena[str] = Arena(FakeDevice())
    for size in range(PLANS_KEPT):
        arena.keep((size,), "plan")
    assert arena.plan((0,)) == "plan"
    arena.keep((PLANS_KEPT,), "plan")
    assert arena.plan((0,)) == "plan" and arena.plan((1,)) is None


def test_what_grows_is_zeroed_and_drops_plans() -> None:
    device = FakeDevice()
    arena: Arena[str] = Arena(device)
    first = arena.counters(256)
    device.blocks[first][:] = 255
    arena.keep((1,), "plan")
    assert arena.counters(128) == first and arena.plan((1,)) == "plan"
    grown = arena.counters(512)
    assert first not in device.blocks and arena.plan((1,)) is None
    assert not device.blocks[grown][:512].any()
    arena.free()
    assert not device.blocks


def test_what_a_dead_call_left_is_freed_after_a_wait() -> None:
    device = FakeDevice()
    arena: Arena[str] = Arena(device)
    arena.reserve(100)
    arena.counters(64)
    arena.staging("x", 16)
    arena.keep((1,), "plan")
    arena.is_dirty = True
    arena.renew()
    assert device.blocks == {} and arena.plan((1,)) is None
    assert not arena.is_dirty and arena.address == 0
