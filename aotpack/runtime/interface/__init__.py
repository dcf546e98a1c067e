"""What callers see beside the call: ``keywords`` of functions, ``listing`` of tensors."""
