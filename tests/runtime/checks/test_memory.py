import torch

from aotpack.runtime.checks.memory import has_memory


def test_a_storage_holds_the_elements_of_its_tensors() -> None:
    whole = torch.ones(8, 4)
    rows = whole[4:]
    assert has_memory(rows, rows.data_ptr())
    whole.untyped_storage().resize_(16 * 7)
    assert has_memory(whole[:7], whole.data_ptr())
    assert not has_memory(rows, rows.data_ptr())


def test_other_arrays_have_memory_unless_their_address_is_null() -> None:
    assert has_memory(object(), 16) and not has_memory(object(), 0)
