"""What callers see beside the call.

``package`` (what methods share), ``keywords`` of functions, ``listing`` of tensors.
"""
