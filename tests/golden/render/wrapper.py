# template: wrapper.py.jinja
"""test 1."""

from ._runtime import Branch, Buffer, Launch, Loop, Part, Plan


def plan(arch: int, b: int) -> Plan:
    """Launches and memory for one set of sizes, for binaries of one compute capability."""
    return Plan(
        buffers=(
            Buffer("gt", 1, 0, 1),
            Buffer("cond", 32*b, 1, 2),
        ),
        outputs=(
            (b, 8),
        ),
        launches=(
            Launch("sum_gt", (1, 1, 1), ('x', 'gt', b), 'test_goldens.py: return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)) + 1'),
            Branch('gt',
                Part(
                    buffers=(
                    ),
                    launches=(
                        Launch("sin", (((b + 31)//32), 1, 1), ('x', 'cond', b), 'test_goldens.py: return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)) + 1'),
                    ),
                ),
                Part(
                    buffers=(
                    ),
                    launches=(
                        Launch("cos", (((b + 31)//32), 1, 1), ('x', 'cond', b), 'test_goldens.py: return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)) + 1'),
                    ),
                ),
            ),
            Launch("add", (((b + 31)//32), 1, 1), ('cond', 'output0', b), 'test_goldens.py: return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)) + 1'),
        ),
    )
