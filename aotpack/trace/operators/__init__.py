"""Calls of torch's operators: read, decomposed and replaced. In reading order:

``operators`` (FX calls -> graph nodes), ``complex_calls``, ``control_flow`` (branches and loops),
``assertions``, ``counted`` (sizes that data decide), ``detection`` (of torchvision),
``admitted`` (calls on other sizes) with ``named_sizes`` (that code names), ``positions`` with
``position_rules`` and ``known_positions`` (index checks),
``strided`` (views by strides), ``state`` (constants that change), ``decompositions``, ``copies``,
``layouts``, ``windows``, ``returned_views``, ``registered`` (the user's lowerings, with our
``losses``), ``quantized`` (codes); replaced while exporting: ``answers`` (checks of data),
``any_length``, ``random``, ``recurrent`` (LSTM, GRU, RNN as loops), ``modes``.
"""
