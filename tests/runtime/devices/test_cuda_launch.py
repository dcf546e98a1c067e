"""One call of the driver for each step: its structs and parameters."""

from aotpack.runtime.devices.cuda_launch import Function, attributes


def test_clusters_are_attributes_of_nodes_and_launches() -> None:
    assert attributes(Function(1, 128, 0, 1)) == []
    assert [(a.id, list(a.value[:3])) for a in attributes(Function(1, 128, 0, 2))] == [
        (4, [2, 1, 1]),
        (5, [1, 0, 0]),
    ]
