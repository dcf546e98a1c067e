"""What is read from a package's folder, checked before it is used.

``strict_json`` (text -> values), ``schema`` (values -> typed records by their annotations),
``kinds`` (annotations that records share), ``checked`` (files by their
hash), ``exported`` (the functions of a shared object).
"""
